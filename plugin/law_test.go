package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// The laws of the kernel, under random sequences of mounting, closing, restarting,
// reconfiguring and rearranging, with everything in flight at once:
//
//   - a node has one life at a time, and each is undone once, newest first;
//   - nobody outlives the provider of a service that he required or tracked;
//   - the tree comes to rest;
//   - at rest each node is what the simple model below says, given who provides what;
//   - those who live are heard and seen in the order of stage, row and registration;
//   - a closed tree holds nothing, and closing takes no time of its own.

// lawKeys are the services of the laws. Their values tell whether the provider lives.
var lawKeys = []Key[*alive]{NewKey[*alive]("k0"), NewKey[*alive]("k1"), NewKey[*alive]("k2")}

type alive struct {
	mu   sync.Mutex
	dead bool
}

func (a *alive) set(dead bool) { a.mu.Lock(); defer a.mu.Unlock(); a.dead = dead }
func (a *alive) isDead() bool  { a.mu.Lock(); defer a.mu.Unlock(); return a.dead }

// traits are what a plugin does.
type traits struct {
	Bonds    [3]int // for each key, see bondOf
	Provides int    // the index of a key, or beyond them
	Fails    bool
	Dies     bool // an owned goroutine fails a little later
	Takes    bool // a new config while running
	Slow     int  // milliseconds that a start takes
	Realm    bool
	Guest    int // of whom; beyond the nodes: of nobody
	Stage    int
}

// bondOf is the bond for a number above 0; 0 is none.
func bondOf(i int) bond { return bond(i - 1) }

// deed is one step of a sequence.
type deed struct {
	Kind   int
	Who    int
	Mounts []traits
	Pause  bool
}

const (
	doMount = iota
	doMountBelow
	doClose
	doRestart
	doReconfigure
	doRearrange
	deeds
)

func drawDeeds(t *rapid.T) []deed {
	one := rapid.Custom(func(t *rapid.T) traits {
		tr := traits{
			Provides: rapid.IntRange(0, 5).Draw(t, "provides"),
			Fails:    rapid.IntRange(0, 9).Draw(t, "fails") == 0,
			Dies:     rapid.IntRange(0, 9).Draw(t, "dies") == 0,
			Takes:    rapid.Bool().Draw(t, "takes"),
			Slow:     rapid.IntRange(0, 2).Draw(t, "slow"),
			Realm:    rapid.IntRange(0, 3).Draw(t, "realm") == 0,
			Guest:    rapid.IntRange(0, 30).Draw(t, "guest"),
			Stage:    rapid.IntRange(0, 2).Draw(t, "stage"),
		}
		for i := range tr.Bonds {
			tr.Bonds[i] = max(0, rapid.IntRange(-4, 3).Draw(t, "bond"))
		}
		return tr
	})
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) deed {
		d := deed{Kind: rapid.IntRange(0, deeds-1).Draw(t, "kind"), Who: rapid.IntRange(0, 40).Draw(t, "who"), Pause: rapid.Bool().Draw(t, "pause")}
		if d.Kind <= doMountBelow {
			d.Mounts = rapid.SliceOfN(one, 1, 3).Draw(t, "mounts")
		}
		return d
	}), rapid.SampledFrom([]int{1, 15, 30}).Draw(t, "atLeast"), 40).Draw(t, "deeds")
}

// lawWorld runs deeds and collects what went against the laws.
type lawWorld struct {
	tree   *Tree
	signal Emit[*[]witness]
	things Set[*Node]
	nodes  []*Node
	traits map[*Node]traits // that the next life will have

	mu       sync.Mutex
	wrong    map[string]bool
	open     int            // effects that are not undone
	living   map[*Node]bool // nodes with a life
	starts   map[*Node]int
	provided map[*Node]int    // the key that the current life provides
	lives    map[*Node]traits // of the last life
}

func (w *lawWorld) complain(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrong[fmt.Sprintf(format, args...)] = true
}

func (w *lawWorld) note(f func()) { w.mu.Lock(); defer w.mu.Unlock(); f() }

// start is a plugin with these traits.
func (w *lawWorld) start(tr traits) StartFunc {
	return func(ctx context.Context, s *Scope) error {
		n := s.node
		var tooMany bool
		w.note(func() {
			w.starts[n]++
			tooMany = w.starts[n] > 200
			if w.living[n] {
				w.wrong["two lives at a time"] = true
			}
			w.living[n], w.lives[n] = true, tr
			w.open++
		})
		if tooMany { // stop spinning, so that the test ends
			w.complain("%s restarts for ever", n.name)
			<-ctx.Done()
		}
		if _, err := s.Defer("life", func(context.Context) error {
			w.note(func() { delete(w.living, n); delete(w.provided, n); w.open-- })
			return nil
		}); err != nil {
			w.note(func() { delete(w.living, n); w.open-- })
			return err
		}
		return w.begin(ctx, s, tr)
	}
}

func (w *lawWorld) begin(ctx context.Context, s *Scope, tr traits) error {
	n := s.node
	var stack []int
	push := func(i int) error {
		_, err := s.Defer(fmt.Sprint(i), func(context.Context) error {
			w.note(func() { w.open-- })
			if stack[len(stack)-1] != i {
				w.complain("not undone newest first")
			}
			stack = stack[:len(stack)-1]
			for i, k := range lawKeys {
				if tr.Bonds[i] == 0 || bondOf(tr.Bonds[i]) == optional {
					continue
				}
				if v, ok := k.Current(s); ok && v.isDead() {
					w.complain("%s outlived its provider", n.name)
				}
			}
			return nil
		})
		if err == nil {
			stack = append(stack, i)
			w.note(func() { w.open++ })
		}
		return err
	}
	_, err := w.signal.On(s, func(_ context.Context, p *[]witness) error { *p = append(*p, witness{tr.Stage, n}); return nil },
		At(w.signal.id.stages[tr.Stage]))
	_, err2 := w.things.Add(s, n.name, n)
	_, err3 := w.things.Watch(s)
	if err := join(err, err2, err3, push(1), push(2)); err != nil {
		return err
	}
	time.Sleep(time.Duration(tr.Slow) * time.Millisecond)
	if tr.Provides < len(lawKeys) {
		v := &alive{}
		if _, err := s.Defer("dies", func(context.Context) error { v.set(true); return nil }); err != nil {
			return err
		}
		if err := lawKeys[tr.Provides].Provide(s, v); err == nil { // else another does
			w.note(func() { w.provided[n] = tr.Provides })
		}
	}
	if err := push(3); err != nil {
		return err
	}
	if tr.Takes {
		if err := OnReconfigure(s, func(context.Context, traits) error { return nil }); err != nil {
			return err
		}
	}
	if tr.Fails {
		return errUnlucky
	}
	return s.Go("idle", func(ctx context.Context) error {
		if tr.Dies {
			select {
			case <-time.After(time.Millisecond):
				return errUnlucky
			case <-ctx.Done():
			}
		}
		<-ctx.Done()
		return nil
	})
}

var errUnlucky = errors.New("unlucky")

func (w *lawWorld) do(i int, d deed) {
	var n *Node
	if len(w.nodes) > 0 {
		n = w.nodes[d.Who%len(w.nodes)]
	}
	scopeOf := func(n *Node) *Scope {
		w.tree.mu.Lock()
		defer w.tree.mu.Unlock()
		return n.life
	}
	if d.Kind <= doMountBelow {
		parent := w.tree.Root()
		if d.Kind == doMountBelow && n != nil {
			if parent = scopeOf(n); parent == nil {
				return
			}
		}
		var batch []Child
		for j, tr := range d.Mounts {
			c := Child{Name: fmt.Sprint(i, "-", j), Start: w.start(tr), OwnRealm: tr.Realm}
			if tr.Guest < len(w.nodes) {
				c.In = scopeOf(w.nodes[tr.Guest])
			}
			for k, bond := range tr.Bonds {
				if bond > 0 {
					c.Needs = append(c.Needs, Need{lawKeys[k].id, bondOf(bond)})
				}
			}
			batch = append(batch, c)
		}
		mounted, err := parent.MountAll(batch...)
		if err != nil {
			return // its parent or host was stopping
		}
		for j, n := range mounted {
			w.traits[n] = d.Mounts[j]
		}
		w.nodes = append(w.nodes, mounted...)
		return
	}
	if n == nil {
		return
	}
	switch d.Kind {
	case doClose:
		go n.Close(bg)
	case doRestart:
		go n.Restart(bg)
	case doReconfigure:
		tr := w.traits[n]
		tr.Fails, tr.Provides = !tr.Fails && d.Pause, (tr.Provides+1)%5
		w.traits[n] = tr
		w.tree.reconfigure(map[*Node]update{n: {start: w.start(tr), config: tr}})
	case doRearrange:
		w.tree.mu.Lock()
		n.arrangeLocked(d.Who%7, false)
		w.tree.mu.Unlock()
	}
}

// provider is the simple model of who provides key to n: the active one in the nearest
// realm that does not stand in n.
func (w *lawWorld) provider(n *Node, key int) *Node {
	for r := n.realm; r != nil; r = r.parent {
		for _, m := range w.nodes {
			if offered, ok := w.provided[m]; ok && offered == key && m.realm == r && m.state == Active && !n.encloses(m) {
				return m
			}
		}
	}
	return nil
}

// checkRestLocked compares each node with the model.
func (w *lawWorld) checkRestLocked() {
	for _, n := range w.nodes {
		var missing, differs bool
		for i, need := range n.needs {
			if need.bond == optional {
				continue
			}
			want := w.provider(n, slices.IndexFunc(lawKeys, func(k Key[*alive]) bool { return k.id == need.key }))
			missing = missing || want == nil && need.bond == required
			if n.life != nil {
				var got *Node
				if p := n.life.deps[i]; p != nil {
					got = p.life.node
				}
				differs = differs || got != want
			}
		}
		tr, ok := w.lives[n], true
		switch n.state {
		case Active:
			ok = !missing && !differs && !tr.Fails && !tr.Dies
		case Pending:
			ok = missing && n.life == nil
		case Failed:
			ok = n.life == nil && (errors.As(n.err, new(*cycleError)) || errors.Is(n.err, errUnlucky) && (tr.Fails || tr.Dies))
		case Closed:
			ok = n.life == nil
		case Starting, Stopping:
			ok = false
		}
		if !ok {
			w.wrong[fmt.Sprintf("at rest a node is %v (%v): missing %v, differs %v, %+v", n.state, n.err, missing, differs, tr)] = true
		}
	}
}

// checkOrder compares what each living node hears and sees with who lives.
func (w *lawWorld) checkOrder() {
	for _, n := range w.nodes {
		if st, _ := n.State(); st != Active {
			continue
		}
		var heard, seen []witness
		_ = w.signal.Emit(bg, n.life, &heard)
		for _, m := range w.things.Visible(n.life) {
			seen = append(seen, witness{node: m})
		}
		var all []witness
		for _, m := range w.nodes {
			if st, _ := m.State(); st == Active && m.realm.around(n.realm) {
				all = append(all, witness{w.lives[m].Stage, m})
			}
		}
		slices.SortFunc(all, witness.compare)
		if !slices.Equal(heard, all) {
			w.complain("heard out of order")
		}
		slices.SortFunc(all, func(v, u witness) int {
			return cmp.Or(cmp.Compare(v.node.realm.depth(), u.node.realm.depth()), slices.Compare(rowsOf(v.node), rowsOf(u.node)))
		})
		if !slices.EqualFunc(seen, all, func(v, u witness) bool { return v.node == u.node }) {
			w.complain("seen out of order")
		}
	}
}

// witness is a listener, with what its order depends on.
type witness struct {
	stage int
	node  *Node
}

func (w witness) compare(v witness) int {
	return cmp.Or(cmp.Compare(w.stage, v.stage), slices.Compare(rowsOf(w.node), rowsOf(v.node)))
}

// rowsOf is where a node stands: its row and age, and those of the nodes above it.
func rowsOf(n *Node) (rows []int) {
	for ; n.parent != nil; n = n.parent.node {
		rows = append(rows, int(n.seq), n.row)
	}
	slices.Reverse(rows)
	return rows
}

// around reports whether r is inner or a realm around it.
func (r *realm) around(inner *realm) bool {
	for ; inner != nil; inner = inner.parent {
		if inner == r {
			return true
		}
	}
	return false
}

func (r *realm) depth() (d int) {
	for ; r != nil; r = r.parent {
		d++
	}
	return d
}

func TestLaws(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		deeds := drawDeeds(rt)
		var wrong []string
		synctest.Test(t, func(t *testing.T) { wrong = runDeeds(deeds) })
		if len(wrong) > 0 {
			rt.Fatal(strings.Join(wrong, "\n"))
		}
	})
}

// runDeeds returns what went against the laws.
func runDeeds(deeds []deed) (wrong []string) {
	w := &lawWorld{
		tree: New(nil), signal: NewEmit[*[]witness]("signal", early, middle, late), things: NewSet[*Node]("things"),
		traits: map[*Node]traits{}, wrong: map[string]bool{}, living: map[*Node]bool{}, starts: map[*Node]int{},
		provided: map[*Node]int{}, lives: map[*Node]traits{},
	}
	for i, d := range deeds {
		w.do(i, d)
		if d.Pause {
			time.Sleep(time.Millisecond)
		}
	}
	if rested := elapsed(func() { time.Sleep(time.Second); _ = w.tree.Settle(bg) }); rested > 2*time.Second {
		w.complain("the tree came to rest only after %v", rested)
	}
	w.tree.mu.Lock()
	w.note(w.checkRestLocked)
	w.tree.mu.Unlock()
	w.checkOrder()
	var closing error
	if took := elapsed(func() { closing = w.tree.Close(bg) }); closing != nil || took > time.Second {
		w.complain("closing took %v: %v", took, closing)
	}
	synctest.Wait()
	if w.open != 0 || len(w.living) != 0 {
		w.complain("%d effects and %d lives are left", w.open, len(w.living))
	}
	for _, leak := range leaks(w.tree) {
		w.complain("%s", leak)
	}
	for what := range w.wrong {
		wrong = append(wrong, what)
	}
	slices.Sort(wrong)
	return wrong
}
