package session

// tail is the end of the log that is in memory.
type tail struct {
	events  []Event
	next    int64 // behind the last event
	size    int   // bytes of the lines
	durable int64 // the first event that is not on disk
	unsaved int   // bytes of the lines from there
	told    int64 // the first event that the listeners have not heard
}

const (
	// keepTold is how many bytes of durable events stay in memory for readers that follow.
	keepTold = 64 << 10
	// keepUntold is the same for events that listeners have yet to hear; one that
	// is slower reads them from disk.
	keepUntold = 1 << 20
)

func (t *tail) base() int64 { return t.next - int64(len(t.events)) }

func (t *tail) add(events []Event) {
	t.events = append(t.events, events...)
	t.next += int64(len(events))
	for i := range events {
		t.size += len(events[i].line)
		t.unsaved += len(events[i].line)
	}
}

// from returns up to n events beginning with seq, nil when they are not in memory.
func (t *tail) from(seq int64, n int) []Event {
	i := seq - t.base()
	if i < 0 || i >= int64(len(t.events)) {
		return nil
	}
	j := min(i+int64(n), int64(len(t.events)))
	return t.events[i:j:j]
}

// saved notes that what comes before next is on disk, and forgets what nobody needs.
func (t *tail) saved(next int64) {
	for _, e := range t.from(t.durable, int(next-t.durable)) {
		t.unsaved -= len(e.line)
	}
	t.durable = next
	t.trim()
}

func (t *tail) trim() {
	n, size := 0, t.size
	for n < len(t.events) { // it ends before the first event that is not durable
		keep := keepUntold
		if t.events[n].Seq < t.told {
			keep = keepTold
		}
		if size-t.unsaved <= keep {
			break
		}
		size -= len(t.events[n].line)
		n++
	}
	// Copying pays off when half of what is kept goes at once.
	if n > 0 && (t.size-size) >= keepTold/2 {
		t.events = append([]Event(nil), t.events[n:]...) // readers may hold the old array
		t.size = size
	}
}
