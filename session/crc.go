package session

import "sync"

// crcTables are the tables for CRC-32C, eight bytes at a time. hash/crc32 computes
// the same, but takes a quarter of a millisecond to get ready in each process, which is
// more than everything else that happens to a log before the first request.
var crcTables = sync.OnceValue(func() *[8][256]uint32 {
	const castagnoli = 0x82f63b78
	t := new([8][256]uint32)
	for i := range t[0] {
		c := uint32(i)
		for range 8 {
			c = c>>1 ^ castagnoli*(c&1)
		}
		t[0][i] = c
	}
	for i, c := range t[0] {
		for j := 1; j < len(t); j++ {
			c = t[0][c&0xff] ^ c>>8
			t[j][i] = c
		}
	}
	return t
})

// crc returns the CRC-32C of p.
func crc(p []byte) uint32 {
	t := crcTables()
	c := ^uint32(0)
	for ; len(p) >= 8; p = p[8:] {
		c ^= uint32(p[0]) | uint32(p[1])<<8 | uint32(p[2])<<16 | uint32(p[3])<<24
		c = t[7][c&0xff] ^ t[6][c>>8&0xff] ^ t[5][c>>16&0xff] ^ t[4][c>>24] ^
			t[3][p[4]] ^ t[2][p[5]] ^ t[1][p[6]] ^ t[0][p[7]]
	}
	for _, b := range p {
		c = t[0][byte(c)^b] ^ c>>8
	}
	return ^c
}
