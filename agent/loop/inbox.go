package loop

import (
	"slices"

	"github.com/dsh-harness/dsh/session"
)

// inbox holds the input that waits: what is queued for the next turn, and what
// steers the running one. It stands under the agent's mutex; its truth is in the log
// (inbox/queued, inbox/steered, and what cites or clears them).
type inbox struct {
	queued   []session.Pending
	steering []session.Pending
}

func (b *inbox) add(p session.Pending) {
	if p.Steering {
		b.steering = append(b.steering, p)
	} else {
		b.queued = append(b.queued, p)
	}
}

// all lists what waits, steering first.
func (b *inbox) all() []session.Pending { return slices.Concat(b.steering, b.queued) }

// wakes reports whether something is waiting that begins a turn.
func (b *inbox) wakes() bool {
	return len(b.queued) > 0 || slices.ContainsFunc(b.steering, func(p session.Pending) bool { return !p.Quiet })
}

func (b *inbox) drainQueued() []session.Pending {
	all := b.queued
	b.queued = nil
	return all
}

func (b *inbox) drainSteering() []session.Pending {
	all := b.steering
	b.steering = nil
	return all
}

func (b *inbox) clear() []session.Pending {
	all := b.all()
	b.queued, b.steering = nil, nil
	return all
}

// remove takes out what ids, of messages, name.
func (b *inbox) remove(ids []string) []session.Pending {
	var gone []session.Pending
	named := func(p session.Pending) bool {
		found := slices.Contains(ids, p.Message.ID)
		if found {
			gone = append(gone, p)
		}
		return found
	}
	b.steering = slices.DeleteFunc(slices.Clone(b.steering), named)
	b.queued = slices.DeleteFunc(slices.Clone(b.queued), named)
	return gone
}

// requeue makes leftover steering the first of what is queued. Quiet input stays
// where whatever runs next takes it.
func (b *inbox) requeue() {
	var quiet, loud []session.Pending
	for _, p := range b.steering {
		if p.Quiet {
			quiet = append(quiet, p)
			continue
		}
		p.Steering = false
		loud = append(loud, p)
	}
	b.steering, b.queued = quiet, slices.Concat(loud, b.queued)
}
