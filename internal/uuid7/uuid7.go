// Package uuid7 makes UUIDs of version 7: names that are unique without asking
// anybody and sort by the millisecond they were made in. Any goroutine may call it.
package uuid7

import (
	"crypto/rand"
	"encoding/hex"
	"time"
)

// New returns a UUIDv7 of the current time in its canonical form, 36 lower-case
// characters. Two of the same millisecond are in no particular order.
func New() string { return At(time.Now()) }

// At returns a UUIDv7 of t, in milliseconds since 1970. Times outside of the 48
// bits that the format has (years 1970 to 10889) lose their upper bits.
func At(t time.Time) string {
	var id [16]byte
	rand.Read(id[6:]) // never fails: the process ends instead
	ms := uint64(t.UnixMilli())
	for i := range 6 {
		id[i] = byte(ms >> (8 * (5 - i)))
	}
	id[6] = id[6]&0x0f | 0x70 // version
	id[8] = id[8]&0x3f | 0x80 // variant

	var text [36]byte
	from, at := 0, 0
	for i, n := range [...]int{4, 2, 2, 2, 6} {
		if i > 0 {
			text[at] = '-'
			at++
		}
		hex.Encode(text[at:], id[from:from+n])
		from, at = from+n, at+2*n
	}
	return string(text[:])
}
