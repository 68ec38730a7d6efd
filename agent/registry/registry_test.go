package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/dsh-harness/dsh/agent"
	"github.com/dsh-harness/dsh/plugin"
)

// named is an agent of which only the name is used.
type named struct {
	agent.Agent
	id string
}

func (n named) ID() string { return n.id }

// factory notes what it is asked for.
type factory struct{ made []string }

func (f *factory) Create(_ context.Context, _ *plugin.Scope, o agent.CreateOptions) (agent.Handle, error) {
	f.made = append(f.made, "create "+o.AgentID)
	return nil, nil
}

func (f *factory) Resume(_ context.Context, _ *plugin.Scope, o agent.ResumeOptions) (agent.Handle, error) {
	f.made = append(f.made, "resume "+o.ResumeSessionID)
	return nil, nil
}

// start mounts the plugin and returns what it provides.
func start(t testing.TB) (*plugin.Tree, agent.Registry) {
	tree := plugin.New(nil)
	t.Cleanup(func() {
		if err := tree.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	mount(t, tree.Root(), nil, func(s *plugin.Scope) error { return Plugin.Start(s.Context(), s, struct{}{}) })
	var r agent.Registry
	mount(t, tree.Root(), []plugin.Need{agent.Service.Required()}, func(s *plugin.Scope) error {
		r = agent.Service.From(s)
		return nil
	})
	return tree, r
}

// mount starts a plugin below s and returns its scope, and a function that stops it.
func mount(t testing.TB, s *plugin.Scope, needs []plugin.Need, f func(*plugin.Scope) error) (scope *plugin.Scope, stop func()) {
	t.Helper()
	n, err := s.Mount("test", needs, func(_ context.Context, s *plugin.Scope) error {
		scope = s
		return f(s)
	})
	if err == nil {
		err = n.Settle(context.Background())
	}
	if err != nil {
		t.Fatal(err)
	}
	return scope, func() {
		if err := n.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestS05_AgentsAreMadeByTheOneFactory(t *testing.T) {
	tree, r := start(t)
	ctx := context.Background()
	if _, err := r.Create(ctx, tree.Root(), agent.CreateOptions{}); !errors.Is(err, agent.ErrNoFactory) {
		t.Errorf("create without a loop: %v", err)
	}
	if _, err := r.Resume(ctx, tree.Root(), agent.ResumeOptions{ResumeSessionID: "x"}); !errors.Is(err, agent.ErrNoFactory) {
		t.Errorf("resume without a loop: %v", err)
	}
	f := &factory{}
	_, stop := mount(t, tree.Root(), nil, func(s *plugin.Scope) error { return r.SetFactory(s, f) })
	if err := r.SetFactory(tree.Root(), &factory{}); err == nil {
		t.Error("a second factory was accepted")
	}
	if _, err := r.Create(ctx, tree.Root(), agent.CreateOptions{AgentID: "a"}); err != nil {
		t.Error(err)
	}
	if _, err := r.Resume(ctx, tree.Root(), agent.ResumeOptions{ResumeSessionID: "s"}); err != nil {
		t.Error(err)
	}
	if want := []string{"create a", "resume s"}; !slices.Equal(f.made, want) {
		t.Errorf("the factory was asked for %q, want %q", f.made, want)
	}
	stop()
	if _, err := r.Create(ctx, tree.Root(), agent.CreateOptions{}); !errors.Is(err, agent.ErrNoFactory) {
		t.Errorf("create after the loop has gone: %v", err)
	}
	if err := r.SetFactory(tree.Root(), &factory{}); err != nil {
		t.Errorf("a new loop: %v", err)
	}
}

// A random sequence of agents that come and go against a plain list.
func TestNamesAreUniqueInAnyCaseAndOrdered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := plugin.New(nil)
		defer func() {
			if err := tree.Close(context.Background()); err != nil {
				t.Errorf("close: %v", err)
			}
		}()
		r := &registry{agents: map[string]entry{}}
		var want []string
		live := map[string]*plugin.Node{}
		for range rapid.IntRange(1, 20).Draw(t, "moves") {
			name := rapid.SampledFrom([]string{"a", "A", "b", "É", "é", "ab"}).Draw(t, "name")
			if n := live[name]; n != nil {
				if err := n.Close(context.Background()); err != nil {
					t.Fatal(err)
				}
				delete(live, name)
				want = slices.DeleteFunc(want, func(w string) bool { return w == name })
				continue
			}
			_, taken := r.Get(name)
			n, err := tree.Root().Mount(name, nil, func(_ context.Context, s *plugin.Scope) error {
				return r.Register(s, named{id: name})
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := n.Settle(context.Background()); taken != errors.Is(err, agent.ErrExists) {
				t.Fatalf("register %q, taken %v: %v", name, taken, err)
			}
			if !taken {
				live[name] = n
				want = append(want, name)
			}
		}
		var got []string
		for _, a := range r.List() {
			got = append(got, a.ID())
		}
		if !slices.Equal(got, want) {
			t.Errorf("the list is %q, want %q", got, want)
		}
		for _, name := range want {
			if a, ok := r.Get(name); !ok || a.ID() != name {
				t.Errorf("get %q: %v, %v", name, a, ok)
			}
		}
	})
}

func BenchmarkRegister(b *testing.B) {
	for _, others := range []int{10, 10_000} {
		b.Run(fmt.Sprint(others), func(b *testing.B) {
			tree, r := start(b)
			for i := range others {
				if err := r.Register(tree.Root(), named{id: fmt.Sprint("other-", i)}); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				_, stop := mount(b, tree.Root(), nil, func(s *plugin.Scope) error { return r.Register(s, named{id: "a"}) })
				stop()
			}
		})
	}
}
