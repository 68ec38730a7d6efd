// Package llm is the seam between the harness and language models: the messages
// and blocks that a conversation is made of, the chunks that an answer streams
// in, the assembler that puts them together, and what an adapter for a provider
// has to do.
//
// Messages, blocks and histories are values that nobody changes after they were
// made, so any goroutine may read them. The packages below this one hold the
// wires (one a folder) and the policies around a call (retry, replay).
package llm
