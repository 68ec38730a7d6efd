package jsonl

import (
	"errors"
	"syscall"
	"testing"

	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/session/sessiontest"
)

// longer is a log of many batches, so that each fault has the twelve places that the rows ask for.
func longer(t testing.TB) []session.Event {
	var drafts []session.Draft
	for n := range 6 {
		drafts = append(drafts, sessiontest.Turn(n+1)...)
	}
	return sessiontest.Events(t, 0, drafts...)
}

func TestTrust_L01_TwelveWrites(t *testing.T) {
	events, cases := longer(t), 0
	for _, fault := range []error{syscall.ENOSPC, syscall.EIO, syscall.EDQUOT, errShort} {
		for k := 1; k <= 12; k++ {
			d, writes := newMemDisk(), 0
			d.before = func(op string, _ int) error {
				if op == "write" {
					if writes++; writes == k {
						return fault
					}
				}
				return nil
			}
			acked, err := life(t, d, events)
			if writes < k || !errors.Is(err, fault) {
				t.Fatalf("%v at write %d of %d gives %v", fault, k, writes, err)
			}
			survives(t, d.restart(), acked, events)
			cases++
		}
	}
	t.Logf("%d cases", cases)
}

func TestTrust_L02_TwelveSyncs(t *testing.T) {
	events, cases := longer(t), 0
	for k := 1; k <= 12; k++ {
		d, syncs := newMemDisk(), 0
		d.before = func(op string, _ int) error {
			if op == "sync" {
				if syncs++; syncs == k {
					return syscall.EIO
				}
			}
			return nil
		}
		acked, err := life(t, d, events)
		var poisoned *session.PoisonedError
		if !errors.Is(err, syscall.EIO) || syncs != k {
			t.Fatalf("EIO at sync %d gives %v after %d syncs", k, err, syncs)
		}
		if acked > 0 && !errors.As(err, &poisoned) {
			t.Fatalf("EIO at sync %d gives %v", k, err)
		}
		survives(t, d.restart(), acked, events)
		cases++
	}
	t.Logf("%d cases", cases)
}
