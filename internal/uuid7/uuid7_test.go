package uuid7

import (
	"regexp"
	"testing"
	"time"
)

func TestNewIsCanonicalAndUnique(t *testing.T) {
	canonical := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	seen := map[string]bool{}
	for range 10_000 {
		id := New()
		if !canonical.MatchString(id) {
			t.Fatalf("New() = %q, which is no canonical UUIDv7", id)
		}
		if seen[id] {
			t.Fatalf("New() returned %q twice", id)
		}
		seen[id] = true
	}
}

func TestAtSortsByTime(t *testing.T) {
	last := ""
	for ms := range int64(1000) {
		id := At(time.UnixMilli(1_764_540_000_000 + ms))
		if id <= last {
			t.Fatalf("the id of a later millisecond, %q, does not sort behind %q", id, last)
		}
		last = id
	}
	if got, want := At(time.UnixMilli(0x0193_0001_0203))[:13], "01930001-0203"; got != want {
		t.Errorf("the time in the id is %q, want %q", got, want)
	}
}
