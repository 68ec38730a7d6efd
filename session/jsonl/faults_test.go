package jsonl

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/session/sessiontest"
)

// full says whether to run the full counts.
func full() bool { return os.Getenv("DSH_TEST_FULL") != "" }

const dir = "/state/dsh/sessions"

func logPath(id string) string { return dir + "/" + id + "/" + logName }

// wanted is the log that the lives below write.
func wanted(t testing.TB) []session.Event {
	var drafts []session.Draft
	for n := range 3 {
		drafts = append(drafts, sessiontest.Turn(n+1)...)
	}
	return sessiontest.Events(t, 0, drafts...)
}

// life is a process that goes on with a log up to its end, unless it fails. It
// returns how many events were acknowledged.
func life(t testing.TB, d disk, events []session.Event) (acked int64, err error) {
	b := newBackend(dir, d, time.Now)
	l, _, err := b.Open(t.Context(), "s", nil)
	if errors.Is(err, session.ErrNotFound) {
		l, err = b.Create(t.Context(), sessiontest.Header("s"), nil)
	}
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	acked = l.Next()
	for acked < int64(len(events)) {
		batch := events[acked:min(acked+4, int64(len(events)))]
		if err := l.Append(t.Context(), batch); err != nil {
			return acked, err
		}
		acked = l.Next()
	}
	return acked, nil
}

// intact returns how many events a reader finds, which must be the first ones, up
// to the first damage.
func intact(t testing.TB, d disk, events []session.Event) int64 {
	t.Helper()
	v, err := newBackend(dir, d, time.Now).Load(t.Context(), "s")
	if errors.Is(err, session.ErrNotFound) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	var n int64
	for e, err := range v.Events(t.Context(), 0) {
		if err != nil {
			break
		}
		if !bytes.Equal(e.Line(), events[n].Line()) {
			t.Fatalf("event %d is not what was written: %s", n, e.Line())
		}
		n++
	}
	return n
}

// survives checks what a fault left: all that was acknowledged is there, and the
// next start completes the log.
func survives(t testing.TB, d *memDisk, acked int64, events []session.Event) {
	t.Helper()
	if n := intact(t, d, events); n < acked {
		t.Fatalf("%d events were acknowledged and %d are there", acked, n)
	}
	if done, err := life(t, d, events); err != nil || done != int64(len(events)) {
		t.Fatalf("the next start writes up to event %d: %v", done, err)
	}
	if n := intact(t, d, events); n != int64(len(events)) {
		t.Fatalf("at last %d of %d events are there", n, len(events))
	}
}

// everyPlace runs f with k = 1, 2, … until the fault at the k-th place is not
// reached any more, and returns how often it was.
func everyPlace(t testing.TB, f func(k int) (reached bool)) int {
	t.Helper()
	for k := 1; ; k++ {
		if !f(k) {
			if k == 1 {
				t.Fatal("the fault never happened")
			}
			return k - 1
		}
	}
}

func TestTrust_L01_AFailedWriteLosesNothingThatWasAcknowledged(t *testing.T) {
	events := wanted(t)
	cases := 0
	for _, fault := range []error{syscall.ENOSPC, syscall.EIO, syscall.EDQUOT, errShort} {
		cases += everyPlace(t, func(k int) bool {
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
			if writes < k {
				return false
			}
			if !errors.Is(err, fault) {
				t.Fatalf("write %d fails with %v and the writer with %v", k, fault, err)
			}
			survives(t, d.restart(), acked, events)
			return true
		})
	}
	t.Logf("%d cases", cases)
}

func TestTrust_L10_WritingGoesOnWhenThereIsSpaceAgain(t *testing.T) {
	for _, fault := range []error{syscall.ENOSPC, errShort} {
		t.Run(fault.Error(), func(t *testing.T) { writesAgain(t, fault) })
	}
}

func writesAgain(t *testing.T, fault error) {
	events := wanted(t)
	everyPlace(t, func(k int) bool {
		d, writes, full := newMemDisk(), 0, true
		d.before = func(op string, _ int) error {
			if op == "write" {
				if writes++; writes >= k && full {
					return fault
				}
			}
			return nil
		}
		b := newBackend(dir, d, time.Now)
		l, err := b.Create(t.Context(), sessiontest.Header("s"), nil)
		if err != nil {
			t.Fatal(err)
		}
		reached := false
		for i := 0; i < len(events); i += 4 {
			batch := events[i:min(i+4, len(events))]
			for tries := 0; ; tries++ {
				err := l.Append(t.Context(), batch)
				if err == nil {
					break
				}
				reached = true
				var poisoned *session.PoisonedError
				if !errors.Is(err, fault) || errors.As(err, &poisoned) || tries > 3 {
					t.Fatalf("try %d with a full disk gives %v", tries, err)
				}
				if n := intact(t, d.restart(), events); n != int64(i) {
					t.Fatalf("of a batch that was not acknowledged %d events are there", n-int64(i))
				}
				full = tries < 2
			}
		}
		if err := b.close(); err != nil {
			t.Fatal(err)
		}
		if n := intact(t, d, events); n != int64(len(events)) {
			t.Fatalf("at last %d of %d events are there", n, len(events))
		}
		return reached
	})
}

func TestTrust_L02_AFailedSyncIsTheEndOfTheWriting(t *testing.T) {
	events := wanted(t)
	cases := everyPlace(t, func(k int) bool {
		d, syncs := newMemDisk(), 0
		d.before = func(op string, _ int) error {
			if op == "sync" {
				if syncs++; syncs == k {
					return syscall.EIO
				}
			}
			return nil
		}
		b := newBackend(dir, d, time.Now)
		l, err := b.Create(t.Context(), sessiontest.Header("s"), nil)
		if err != nil {
			t.Fatal(err)
		}
		var acked int64
		for acked < int64(len(events)) && err == nil {
			if err = l.Append(t.Context(), events[acked:acked+3]); err == nil {
				acked = l.Next()
			}
		}
		if syncs < k {
			return false
		}
		var poisoned *session.PoisonedError
		if !errors.As(err, &poisoned) || !errors.Is(err, syscall.EIO) {
			t.Fatalf("sync %d fails and the writer with %v", k, err)
		}
		for range 3 {
			if err := l.Append(t.Context(), events[acked:acked+3]); !errors.As(err, &poisoned) {
				t.Fatalf("after a failed sync an append gives %v", err)
			}
		}
		if syncs != k {
			t.Fatalf("sync was tried %d times after it had failed", syncs-k)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		survives(t, d.restart(), acked, events)
		return true
	})
	t.Logf("%d cases", cases)
}

var errKilled = errors.New("the process was killed")

func TestTrust_L03_AKillAtAnyOperationLosesNothingThatWasAcknowledged(t *testing.T) {
	events := wanted(t)
	cases := everyPlace(t, func(k int) bool {
		d := newMemDisk()
		d.before = func(_ string, n int) error {
			if n >= k {
				return errKilled // and nothing more is done
			}
			return nil
		}
		acked, err := life(t, d, events)
		if err == nil {
			return false
		}
		survives(t, d.restart(), acked, events)
		return true
	})
	t.Logf("%d cases", cases)
}

func TestTrust_L03_AnyOperationMayFail(t *testing.T) {
	events := wanted(t)
	cases := everyPlace(t, func(k int) bool {
		d := newMemDisk()
		d.before = func(_ string, n int) error {
			if n == k {
				return syscall.EIO
			}
			return nil
		}
		acked, err := life(t, d, events)
		if len(d.ops) < k {
			return false
		}
		if err == nil {
			acked = int64(len(events)) // a failure that did not matter
		}
		survives(t, d.restart(), acked, events)
		return true
	})
	t.Logf("%d cases", cases)
}

func TestTrust_L09_AcknowledgedEventsSurviveALossOfPower(t *testing.T) {
	events := wanted(t)
	schedules := 200
	if full() {
		schedules = 5000
	}
	readOnly := 0
	for seed := range uint64(schedules) {
		r := rand.New(rand.NewPCG(seed, 1))
		d := newMemDisk()
		var acked int64
		// Several losses in a row, also while the last one is being mended.
		for range 1 + r.IntN(3) {
			stop := 1 + r.IntN(70)
			d.before = func(_ string, n int) error {
				if n >= stop {
					return errKilled
				}
				return nil
			}
			done, err := life(t, d, events)
			if done > acked {
				acked = done
			}
			var damage *session.DamageError
			if err != nil && errors.As(err, &damage) {
				break // the log can be read, and no more; see below
			}
			if r.IntN(3) == 0 {
				d = d.restart() // only the process ends: what it had not synced is there, for now
			} else {
				d = d.powerLoss(r)
			}
		}
		d.before = nil
		if n := intact(t, d, events); n < acked {
			t.Fatalf("schedule %d: %d events were acknowledged and %d are there\n%s", seed, acked, n, strings.Join(d.ops, "\n"))
		}
		done, err := life(t, d, events)
		var damage *session.DamageError
		switch {
		case errors.As(err, &damage):
			readOnly++
		case err != nil || done != int64(len(events)):
			t.Fatalf("schedule %d: the next start writes up to event %d: %v", seed, done, err)
		}
	}
	t.Logf("%d schedules, in %d of them the log needs a repair", schedules, readOnly)
}

// A process is killed between a write and its sync, so the events are in the file and
// not on the disk. Once the next process has shown them they must stay.
func TestTrust_L09_WhatAnOpeningShowsIsDurable(t *testing.T) {
	events := wanted(t)
	everyPlace(t, func(k int) bool {
		for seed := range uint64(20) {
			d, syncs := newMemDisk(), 0
			d.before = func(op string, _ int) error {
				if op == "sync" {
					if syncs++; syncs >= k {
						return errKilled
					}
				}
				return nil
			}
			if _, err := life(t, d, events); err == nil {
				return false
			}
			d = d.restart()
			shown := int64(len(openLog(t, d).lines))
			d = d.powerLoss(rand.New(rand.NewPCG(seed, uint64(k))))
			if n := intact(t, d, events); n < shown {
				t.Fatalf("killed at sync %d: %d events were shown, and %d survive", k, shown, n)
			}
		}
		return true
	})
}

// sixEvents is a log of six events.
func sixEvents(t testing.TB) (content []byte, events []session.Event) {
	events = sessiontest.Events(t, 0, sessiontest.Turn(1)[:6]...)
	content = append(sessiontest.Header("s").Line(), '\n')
	for _, e := range events {
		content = append(append(content, e.Line()...), '\n')
	}
	return content, events
}

// opened is what opening a log gives.
type opened struct {
	lines   []string
	opening session.Opening
	err     error
}

type collector struct{ lines []string }

func (*collector) Header(session.Header) error { return nil }
func (c *collector) Event(e session.Event) error {
	c.lines = append(c.lines, string(e.Line()))
	return nil
}

func openLog(t testing.TB, d disk) opened {
	t.Helper()
	c := new(collector)
	b := newBackend(dir, d, func() time.Time { return time.UnixMilli(77) })
	_, o, err := b.Open(t.Context(), "s", c)
	if closed := b.close(); closed != nil {
		t.Fatal(closed)
	}
	return opened{c.lines, o, err}
}

func TestTrust_L05_ALogCutAtAnyByteIsAnExactPrefix(t *testing.T) {
	content, events := sixEvents(t)
	header := bytes.IndexByte(content, '\n') + 1
	for cut := range len(content) {
		d := newMemDisk()
		d.put(logPath("s"), content[:cut])
		v, loadErr := newBackend(dir, d, time.Now).Load(t.Context(), "s")
		got := openLog(t, d)
		if cut < header {
			var damage *session.DamageError
			if !errors.As(got.err, &damage) || damage.Kind != session.DamageHeader || !errors.As(loadErr, &damage) {
				t.Fatalf("cut at byte %d, in the header: %v, %v", cut, got.err, loadErr)
			}
			continue
		}
		whole := bytes.Count(content[:cut], []byte("\n")) - 1
		tail := cut - bytes.LastIndexByte(content[:cut], '\n') - 1
		if got.err != nil || len(got.lines) != whole || got.opening.Cut != int64(tail) || got.opening.Copy != "" {
			t.Fatalf("cut at byte %d: %d events instead of %d, %+v instead of %d bytes, %v", cut, len(got.lines), whole, got.opening, tail, got.err)
		}
		if rest := d.content(logPath("s")); !bytes.Equal(rest, content[:cut-tail]) {
			t.Fatalf("cut at byte %d: the file is not the exact prefix", cut)
		}
		// The reader says so as well, and TestCase_o_ses_01 goes on with it.
		_ = v
		if n := intact(t, d, events); n != int64(whole) {
			t.Fatalf("cut at byte %d: a reader finds %d events", cut, n)
		}
	}
}

func TestCase_o_ses_01_TheNextEventIsNotGluedToATornTail(t *testing.T) {
	content, events := sixEvents(t)
	for cut := bytes.IndexByte(content, '\n') + 1; cut < len(content); cut++ {
		d := newMemDisk()
		d.put(logPath("s"), content[:cut])
		whole := int64(bytes.Count(content[:cut], []byte("\n")) - 1)

		torn := false
		v, err := newBackend(dir, d, time.Now).Load(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range v.Events(t.Context(), 0) {
			var damage *session.DamageError
			if errors.As(err, &damage) && damage.Kind == session.DamageTorn {
				torn = true
			}
		}
		if want := content[cut-1] != '\n'; torn != want {
			t.Fatalf("cut at byte %d: a reader hears of a torn tail: %v, want %v", cut, torn, want)
		}

		b := newBackend(dir, d, time.Now)
		l, _, err := b.Open(t.Context(), "s", nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Append(t.Context(), events[whole:whole+1]); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if n := intact(t, d, events); n != whole+1 {
			t.Fatalf("cut at byte %d: after one more event there are %d, want %d", cut, n, whole+1)
		}
	}
}

func TestTrust_L06_NoFlippedBitOfALogIsAcceptedSilently(t *testing.T) {
	content, events := sixEvents(t)
	silent, copies := 0, 0
	for bit := range 8 * len(content) {
		bad := slices.Clone(content)
		bad[bit/8] ^= 1 << (bit % 8)
		d := newMemDisk()
		d.put(logPath("s"), bad)
		got := openLog(t, d)
		if got.err == nil && got.opening == (session.Opening{}) {
			silent++
		}
		for i, line := range got.lines {
			if line != string(events[i].Line()) {
				t.Fatalf("with bit %d flipped, a damaged event is accepted: %s", bit, line)
			}
		}
		if got.err != nil {
			if !bytes.Equal(d.content(logPath("s")), bad) {
				t.Fatalf("with bit %d flipped, the log was refused and changed", bit)
			}
			continue
		}
		if got.opening.Copy != "" {
			copies++
			if !bytes.Equal(d.content(got.opening.Copy), bad) {
				t.Fatalf("with bit %d flipped, the copy is not the damaged file", bit)
			}
		}
	}
	if silent > 0 {
		t.Errorf("%d flipped bits were accepted silently", silent)
	}
	// All bits of the last line but those of its line feed, which make it a torn tail.
	if last := 8 * (len(content) - 1 - bytes.LastIndexByte(content[:len(content)-1], '\n') - 1); copies < last-8*8 {
		t.Errorf("of %d flipped bits in the last line %d were copied before they were cut", last, copies)
	}
	t.Logf("%d bits", 8*len(content))
}

// badLines are the kinds of bad line in the middle of a log. Each gets the lines
// of a log and spoils the one at i.
var badLines = []struct {
	name  string
	spoil func(lines [][]byte, i int) [][]byte
	kind  session.Damage
	lost  bool // the event at i is missing
}{
	{"garbage", func(l [][]byte, i int) [][]byte { l[i] = []byte("\x00\xff garbage {"); return l }, session.DamageChecksum, true},
	{"4 KiB of NUL", func(l [][]byte, i int) [][]byte { l[i] = make([]byte, 4096); return l }, session.DamageChecksum, true},
	{"half a line", func(l [][]byte, i int) [][]byte { l[i] = l[i][:len(l[i])/2]; return l }, session.DamageChecksum, true},
	{"the line twice", func(l [][]byte, i int) [][]byte { return slices.Insert(l, i, l[i]) }, session.DamageDuplicate, false},
	{"no line", func(l [][]byte, i int) [][]byte { return slices.Delete(l, i, i+1) }, session.DamageGap, true},
	{"CRLF", func(l [][]byte, i int) [][]byte { l[i] = append(slices.Clone(l[i]), '\r'); return l }, session.DamageChecksum, true},
	{"BOM", func(l [][]byte, i int) [][]byte { l[i] = append([]byte("\xef\xbb\xbf"), l[i]...); return l }, session.DamageChecksum, true},
}

func TestTrust_L07_ABadMiddleLineHidesNothingBehindIt(t *testing.T) {
	events := wanted(t)
	for _, bad := range badLines {
		t.Run(bad.name, func(t *testing.T) {
			for i := 0; i < len(events)-1; i++ {
				lines := [][]byte{sessiontest.Header("s").Line()}
				for _, e := range events {
					lines = append(lines, slices.Clone(e.Line()))
				}
				content := append(bytes.Join(bad.spoil(lines, i+1), []byte("\n")), '\n')
				d := newMemDisk()
				d.put(logPath("s"), content)

				var damage *session.DamageError
				if got := openLog(t, d); !errors.As(got.err, &damage) {
					t.Fatalf("line %d: opening for writing gives %v", i+2, got.err)
				}
				v, err := newBackend(dir, d, time.Now).Load(t.Context(), "s")
				if err != nil {
					t.Fatal(err)
				}
				var seen []int64
				gaps := 0
				for e, err := range v.Events(t.Context(), 0) {
					if err == nil {
						seen = append(seen, e.Seq)
						continue
					}
					gaps++
					line := i + 2 // where the damage shows
					if bad.kind == session.DamageDuplicate {
						line++
					}
					if !errors.As(err, &damage) || damage.Kind != bad.kind || damage.Line != line ||
						bad.lost && (damage.Seq != int64(i) || damage.Next != int64(i+1)) || !bad.lost && damage.Seq != damage.Next {
						t.Fatalf("line %d: the gap is %+v", i+2, damage)
					}
				}
				want := len(events)
				if bad.lost {
					want--
				}
				if gaps != 1 || len(seen) != want || !slices.IsSorted(seen) {
					t.Fatalf("line %d: %d gaps, and %d of %d events are visible", i+2, gaps, len(seen), want)
				}
				if !bytes.Equal(d.content(logPath("s")), content) {
					t.Fatalf("line %d: the file was changed", i+2)
				}
			}
		})
	}
}

func TestADamagedEndIsCopiedBeforeItIsCut(t *testing.T) {
	content, events := sixEvents(t)
	last := bytes.LastIndexByte(content[:len(content)-1], '\n') + 1
	for name, end := range map[string]string{
		"a bad last line":                     "{\"seq\":5,\"oops\n",
		"a bad last line and a torn tail":     "{\"seq\":5,\"oops\n{\"seq\":6",
		"a bad last line and a NUL tail":      "{\"seq\":5,\"oops\n\x00\x00\x00\x00",
		"a last line with carriage return":    string(content[last:len(content)-1]) + "\r\n",
		"a last line with a number it has no": strings.Replace(string(content[last:]), `"seq":5`, `"seq":6`, 1),
	} {
		t.Run(name, func(t *testing.T) {
			d := newMemDisk()
			bad := append(slices.Clone(content[:last]), end...)
			d.put(logPath("s"), bad)
			got := openLog(t, d)
			if got.err != nil || len(got.lines) != 5 || got.opening.Cut != int64(len(end)) || got.opening.Copy != logPath("s")+".corrupt-77" {
				t.Fatalf("opening gives %d events, %+v, %v", len(got.lines), got.opening, got.err)
			}
			if !bytes.Equal(d.content(got.opening.Copy), bad) {
				t.Error("the copy is not the damaged file")
			}
			if n := intact(t, d, events); n != 5 {
				t.Errorf("%d events are left", n)
			}
		})
	}
	t.Run("a reader is told of both", func(t *testing.T) {
		d := newMemDisk()
		d.put(logPath("s"), append(slices.Clone(content[:last]), "bad\ntorn"...))
		v, err := newBackend(dir, d, time.Now).Load(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, err := range v.Events(t.Context(), 5) {
			var damage *session.DamageError
			if errors.As(err, &damage) {
				got = append(got, fmt.Sprint(damage.Kind, damage.Line, damage.Bytes))
			}
		}
		if want := []string{"checksum7 4", "torn8 4"}; !slices.Equal(got, want) {
			t.Errorf("the reader is told of %q, want %q", got, want)
		}
	})
	t.Run("two bad lines are more than an end", func(t *testing.T) {
		d := newMemDisk()
		d.put(logPath("s"), append(slices.Clone(content[:last]), "bad\nworse\n"...))
		var damage *session.DamageError
		if got := openLog(t, d); !errors.As(got.err, &damage) || damage.Next != -1 {
			t.Errorf("opening gives %v", got.err)
		}
	})
}

func TestTrust_L11_NewerFormatsAndForeignEvents(t *testing.T) {
	newer := sessiontest.Header("s")
	newer.Version = session.Version + 1
	events := sessiontest.Events(t, 0, append(sessiontest.Turn(1), session.Draft{Type: "future/info", Data: map[string]int{"x": 1}})...)
	required := sessiontest.Events(t, int64(len(events)), session.Draft{Type: "future/required"})[0]
	required.Ignorable = false
	required = withoutLine(required)

	fixture := func(h session.Header, events ...session.Event) (*memDisk, []byte) {
		content := append(h.Line(), '\n')
		for _, e := range events {
			content = append(append(content, e.Line()...), '\n')
		}
		d := newMemDisk()
		d.put(logPath("s"), content)
		return d, content
	}
	t.Run("a newer format says upgrade", func(t *testing.T) {
		d, content := fixture(newer, events...)
		env := sessiontest.Run(t, newBackend(dir, d, time.Now))
		_, err := env.Store.Restore(t.Context(), "s", session.RestoreOptions{})
		var version *session.VersionError
		if !errors.As(err, &version) || version.Path != logPath("s") || !strings.Contains(err.Error(), "upgrade") {
			t.Errorf("restoring gives %v", err)
		}
		for info, err := range env.Persistence().List(t.Context(), session.Filter{}) {
			if err != nil || info.Header.ID != "s" || !errors.As(info.Err, &version) {
				t.Errorf("the list shows %+v, %v", info, err)
			}
		}
		if !bytes.Equal(d.content(logPath("s")), content) {
			t.Error("the file was changed")
		}
	})
	t.Run("an unknown ignorable event is kept", func(t *testing.T) {
		d, content := fixture(sessiontest.Header("s"), events...)
		env := sessiontest.Run(t, newBackend(dir, d, time.Now))
		s := env.Resume("s", session.RestoreOptions{})
		if s.Next() != int64(len(events)) {
			t.Errorf("the session goes on at event %d", s.Next())
		}
		env.Close()
		if !bytes.Equal(d.content(logPath("s")), content) {
			t.Error("the file was changed")
		}
	})
	t.Run("an unknown required event is refused by name", func(t *testing.T) {
		d, content := fixture(sessiontest.Header("s"), append(events, required)...)
		env := sessiontest.Run(t, newBackend(dir, d, time.Now))
		_, err := env.Store.Restore(t.Context(), "s", session.RestoreOptions{})
		var unknown *session.UnknownTypeError
		if !errors.As(err, &unknown) || unknown.Type != "future/required" || unknown.Seq != required.Seq || unknown.Path != logPath("s") {
			t.Errorf("restoring gives %v", err)
		}
		r, err := env.Store.Verify(t.Context(), "s")
		if err != nil || r.Sound() || len(r.Problems) != 0 || r.Unknown == nil || r.Unknown.Type != "future/required" {
			t.Errorf("verify reports %+v, %v", r, err)
		}
		if _, err := env.Store.Repair(t.Context(), "s"); !errors.As(err, &unknown) {
			t.Errorf("repairing what is not damaged gives %v", err)
		}
		if n := intact(t, d, append(events, required)); n != int64(len(events))+1 {
			t.Errorf("%d events can be read", n)
		}
		env.Close()
		if !bytes.Equal(d.content(logPath("s")), content) {
			t.Error("the file was changed")
		}
	})
}

// withoutLine returns e as if it had never been in a log.
func withoutLine(e session.Event) session.Event {
	return session.Event{Seq: e.Seq, Time: e.Time, Type: e.Type, Data: e.Data, Ignorable: e.Ignorable, Surface: e.Surface, Cites: e.Cites}
}

func TestTrust_L16_ALogThatSomebodyElseChangesIsNoticed(t *testing.T) {
	events := wanted(t)
	for _, test := range []struct {
		name   string
		change func(d *memDisk)
		want   string
		saved  int // events that the rescued file holds
	}{
		{"deleted", func(d *memDisk) { remove(d, logPath("s")) }, "it was deleted", 14},
		{"deleted with its folder", func(d *memDisk) { remove(d, dir+"/s") }, "it was deleted", 14},
		{"replaced", func(d *memDisk) { d.put(logPath("s"), []byte("something else")) }, "it was replaced", 14},
		{"truncated", func(d *memDisk) { truncate(d, logPath("s"), 0) }, "it was truncated", 4},
		{"written to", func(d *memDisk) { extend(d, logPath("s"), "x") }, "another program wrote to it", 14},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := newMemDisk()
			b := newBackend(dir, d, func() time.Time { return time.UnixMilli(77) })
			l, err := b.Create(t.Context(), sessiontest.Header("s"), nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := l.Append(t.Context(), events[:10]); err != nil {
				t.Fatal(err)
			}
			test.change(d)
			err = l.Append(t.Context(), events[10:14])
			var poisoned *session.PoisonedError
			if !errors.As(err, &poisoned) || !strings.Contains(err.Error(), test.want) || poisoned.Saved != logPath("s")+".rescued-77" {
				t.Fatalf("the next batch gives %v", err)
			}
			if got := bytes.Count(d.content(poisoned.Saved), []byte(`"seq":`)); got != test.saved {
				t.Errorf("the rescued file has %d events, want %d", got, test.saved)
			}
			for _, e := range events[10:14] {
				if !bytes.Contains(d.content(poisoned.Saved), e.Line()) {
					t.Errorf("event %d, which was in memory, is not saved", e.Seq)
				}
			}
			if err := l.Append(t.Context(), events[10:14]); !errors.As(err, &poisoned) {
				t.Errorf("after that an append gives %v", err)
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func remove(d *memDisk, path string) {
	if err := d.removeAll(path); err != nil {
		panic(err)
	}
}

func truncate(d *memDisk, path string, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.names[path].data = d.names[path].data[:n]
}

func extend(d *memDisk, path, text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.names[path].data = append(d.names[path].data, text...)
}

func TestMemDiskIsADisk(t *testing.T) {
	sessiontest.Contract(t, func(*testing.T) func() session.Persistence {
		d := newMemDisk()
		return func() session.Persistence { return newBackend(dir, d, time.Now) }
	})
}

func TestSeveralFilesOfOneSessionAreNotSessions(t *testing.T) {
	d := newMemDisk()
	content, _ := sixEvents(t)
	d.put(logPath("s"), content)
	d.put(dir+"/stray.txt", []byte("x"))
	d.put(dir+"/empty/lock", nil)
	d.put(dir+"/half/"+newName, content[:40])
	d.put(dir+"/.hidden/"+logName, content)
	b := newBackend(dir, d, time.Now)
	var ids []string
	for info, err := range b.List(t.Context(), session.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, info.Header.ID)
	}
	if fmt.Sprint(ids) != "[s]" {
		t.Errorf("the sessions are %v", ids)
	}
	if _, err := b.Create(t.Context(), sessiontest.Header("half"), nil); err != nil {
		t.Errorf("what a crash left of a creation keeps its id: %v", err)
	}
	if _, err := b.Load(t.Context(), "../s"); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a path as id gives %v", err)
	}
}
