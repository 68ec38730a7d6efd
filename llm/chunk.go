package llm

// ChunkKind tells what a chunk of a streamed answer brings.
type ChunkKind uint8

const (
	// ChunkDelta adds Text to the block at Index: text, reasoning, or the
	// arguments of a tool call, as Block says. The first delta of an index
	// opens the block. For a tool call ProviderID and Name come with any delta.
	ChunkDelta ChunkKind = iota
	// ChunkBlockEnd closes the block at Index. When Whole is set it is the
	// block as the provider sees it, and replaces what was accumulated.
	ChunkBlockEnd
	// ChunkUsage brings Usage; the last one of a stream counts.
	ChunkUsage
	// ChunkFinish brings Finish; the last one of a stream counts.
	ChunkFinish
)

// Chunk is one part of a streamed answer. A stream that ends without error and
// without a [ChunkFinish] was cut off: adapters report that as an error.
type Chunk struct {
	Kind  ChunkKind
	Index int       // of the block, for deltas and ends
	Block BlockType // of the block, for deltas

	Text       string // what a delta adds
	ProviderID string // of a tool call, empty when this delta does not bring it
	Name       string // of a tool call, empty when this delta does not bring it

	Whole  *Block // of a block end
	Usage  Usage
	Finish Finish
}
