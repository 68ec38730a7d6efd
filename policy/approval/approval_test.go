package approval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/policy"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/session/jsonl"
	"github.com/dsh-harness/dsh/tool"
	"github.com/dsh-harness/dsh/workspace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// person answers as a function says.
type person func(ctx context.Context, r policy.Request) (policy.Answer, error)

func (p person) Answer(ctx context.Context, r policy.Request) (policy.Answer, error) {
	return p(ctx, r)
}

func says(a policy.Answer) person {
	return func(context.Context, policy.Request) (policy.Answer, error) { return a, nil }
}

// waits never answers by itself.
func waits(ended *error) person {
	return func(ctx context.Context, _ policy.Request) (policy.Answer, error) {
		<-ctx.Done()
		if ended != nil {
			*ended = context.Cause(ctx)
		}
		return policy.Answer{Allow: true}, nil // too late
	}
}

// keeper remembers rules.
type keeper struct {
	policy.RuleKeeper
	mu   sync.Mutex
	kept []string
	err  error
}

func (k *keeper) Remember(c *tool.Call, scope policy.Scope, effect tool.Decision, rule string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.kept = append(k.kept, fmt.Sprintf("%s %s %s for %s", effect, rule, scope, c.ID))
	return k.err
}

// house is the plugin, a session, and who answers in it.
type house struct {
	t       *testing.T
	tree    *plugin.Tree
	scope   *plugin.Scope // of the agent
	asks    policy.Approver
	session *session.Session
	rules   *keeper
}

// newHouse must be called in a bubble of synctest, at the end of which the house is closed.
func newHouse(t *testing.T, dir string, people map[string]policy.Answerer) *house {
	h := &house{t: t, tree: plugin.New(nil), rules: &keeper{}}
	work := tool.New(tool.Spec{Name: "work"}, func(context.Context, *tool.Call, struct {
		Do string `json:"do"`
	}) (tool.Result, error) {
		return tool.Text("done"), nil
	})
	_, err := h.tree.Root().MountAll(
		plugin.Child{Name: "session-jsonl", Start: func(ctx context.Context, s *plugin.Scope) error {
			return jsonl.Plugin.Start(ctx, s, jsonl.Config{Dir: dir})
		}},
		plugin.Child{Name: "sessions", Needs: session.StorePlugin.Needs, Start: func(ctx context.Context, s *plugin.Scope) error {
			return session.StorePlugin.Start(ctx, s, struct{}{})
		}},
		plugin.Child{Name: "permissions", Start: func(_ context.Context, s *plugin.Scope) error { return policy.Rules.Provide(s, h.rules) }},
		plugin.Child{Name: "approvals", Needs: Plugin.Needs, Start: func(ctx context.Context, s *plugin.Scope) error {
			return Plugin.Start(ctx, s, struct{}{})
		}},
		plugin.Child{Name: "work", Start: func(_ context.Context, s *plugin.Scope) error { return tool.Add(s, work) }},
		plugin.Child{
			Name: "agent", Needs: []plugin.Need{session.Service.Required(), policy.Approvals.Required()},
			Start: func(ctx context.Context, s *plugin.Scope) (err error) {
				h.scope, h.asks = s, policy.Approvals.From(s)
				for name, who := range people {
					_, added := policy.Answerers.Add(s, name, who)
					err = errors.Join(err, added)
				}
				store := session.Service.From(s)
				if err == nil {
					h.session, err = store.Prepare(ctx, session.PrepareOptions{Cwd: dir})
				}
				if err == nil {
					_, err = store.Enter(h.session)
				}
				if err == nil {
					_, err = h.session.Append(session.Draft{Type: session.TurnStart, Data: session.TurnStartData{Turn: 1}})
				}
				return err
			},
		},
	)
	if err == nil {
		err = h.tree.Settle(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *house) close() {
	h.t.Helper()
	if err := h.tree.Close(context.Background()); err != nil {
		h.t.Error(err)
	}
}

func (h *house) request(id string, rules ...string) policy.Request {
	c := &tool.Call{ID: id, Name: "work", Arguments: json.RawMessage(`{"do":"it"}`), Session: h.session}
	return policy.Request{Call: c, Reason: "because", By: "mode ask", Digest: policy.Digest(c, nil), Rules: rules}
}

// audit is what the log says of questions: a line for each event.
func (h *house) audit() []string {
	h.t.Helper()
	if err := h.session.Flush(context.Background()); err != nil {
		h.t.Fatal(err)
	}
	names := map[string]string{}
	var lines []string
	for e, err := range h.session.Events(context.Background(), 0) {
		if err != nil {
			h.t.Fatal(err)
		}
		switch e.Type {
		case policy.Asked:
			var d policy.AskedData
			if err := json.Unmarshal(e.Data, &d); err != nil {
				h.t.Fatal(err)
			}
			names[d.ID] = d.CallID
			lines = append(lines, fmt.Sprintf("asked %s %s: %s (%s), digest of %d", d.CallID, d.Tool, d.Reason, d.By, len(d.Digest)))
		case policy.Decided:
			var d policy.DecidedData
			if err := json.Unmarshal(e.Data, &d); err != nil {
				h.t.Fatal(err)
			}
			lines = append(lines, strings.TrimSpace(fmt.Sprintf("decided %s %s by %s %s %s", names[d.ID], d.Outcome, d.By, d.Remember, d.Rule)))
		}
	}
	return lines
}

// in runs a test in a bubble, with the folder of a session.
func in(t *testing.T, test func(t *testing.T, dir string)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) { test(t, dir) })
}

// Whoever fails, or answers what was not asked, has not answered: the next one counts, and without one
// nobody has allowed anything.
func TestTrust_P07_AnAnswererThatFailsAllowsNothing(t *testing.T) {
	yes := policy.Answer{Allow: true}
	with := func(change func(*policy.Answer)) person {
		a := yes
		change(&a)
		return says(a)
	}
	for _, c := range []struct {
		name string
		who  person
		want string
	}{
		{"it crashes", func(context.Context, policy.Request) (policy.Answer, error) { panic("oh") }, "panic: oh"},
		{"it fails", func(context.Context, policy.Request) (policy.Answer, error) {
			return yes, errors.New("the line is dead")
		}, "the line is dead"},
		{"it times out", func(context.Context, policy.Request) (policy.Answer, error) { return yes, context.DeadlineExceeded }, "deadline exceeded"},
		{"a rule that was not offered", with(func(a *policy.Answer) { a.Remember, a.Rule = policy.ForUser, "Bash" }), `the rule "Bash" was not offered`},
		{"a rule without a time", with(func(a *policy.Answer) { a.Rule = "Bash(make)" }), "for how long"},
		{"a time without a rule", with(func(a *policy.Answer) { a.Remember = policy.ForSession }), `the rule "" was not offered`},
		{"an unknown time", with(func(a *policy.Answer) { a.Remember, a.Rule = "ever", "Bash(make)" }), `remembered for "ever"`},
		{"arguments that are no JSON", with(func(a *policy.Answer) { a.Arguments = json.RawMessage("it") }), "its arguments"},
		{"arguments of another tool", with(func(a *policy.Answer) { a.Arguments = json.RawMessage(`{"command":"x"}`) }), "its arguments"},
		{"no arguments at all", with(func(a *policy.Answer) { a.Arguments = json.RawMessage{} }), "its arguments"},
		{"an edit that denies", says(policy.Answer{Arguments: json.RawMessage(`{"do":"that"}`)}), "denies the call and edits it"},
		{"an edit with a rule", with(func(a *policy.Answer) {
			a.Remember, a.Rule, a.Arguments = policy.ForUser, "Bash(make)", json.RawMessage(`{"do":"that"}`)
		}), "the rule is about another one"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in(t, func(t *testing.T, dir string) {
				h := newHouse(t, dir, map[string]policy.Answerer{"broken": c.who})
				defer h.close()
				answer, err := h.asks.Ask(t.Context(), h.scope, h.request("c1_1_0", "Bash(make)"))
				if answer.Allow || !errors.Is(err, policy.ErrNobody) || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %+v, %v; want …%s…", answer, err, c.want)
				}
				if len(h.rules.kept) > 0 {
					t.Errorf("%q was remembered", h.rules.kept)
				}
				want := []string{"asked c1_1_0 work: because (mode ask), digest of 64", "decided c1_1_0 unavailable by"}
				if got := h.audit(); !slices.Equal(got, want) {
					t.Errorf("the log says %q, want %q", got, want)
				}
			})
			in(t, func(t *testing.T, dir string) {
				h := newHouse(t, dir, map[string]policy.Answerer{"broken": c.who, "whole": person(func(context.Context, policy.Request) (policy.Answer, error) {
					synctest.Wait() // until the other one has answered
					return yes, nil
				})})
				defer h.close()
				answer, err := h.asks.Ask(t.Context(), h.scope, h.request("c1_1_0", "Bash(make)"))
				if !answer.Allow || answer.By != "whole" || err != nil {
					t.Errorf("with another person: got %+v, %v", answer, err)
				}
			})
		})
	}
}

func TestNobodyIsThere(t *testing.T) {
	in(t, func(t *testing.T, dir string) {
		h := newHouse(t, dir, nil)
		defer h.close()
		answer, err := h.asks.Ask(t.Context(), h.scope, h.request("c1_1_0"))
		if answer.Allow || !errors.Is(err, policy.ErrNobody) {
			t.Errorf("got %+v, %v", answer, err)
		}
		if got := h.audit(); len(got) != 2 || got[1] != "decided c1_1_0 unavailable by" {
			t.Errorf("the log says %q", got)
		}
	})
}

func TestTheFirstAnswerCountsAndTheOthersAreTold(t *testing.T) {
	in(t, func(t *testing.T, dir string) {
		var told error
		h := newHouse(t, dir, map[string]policy.Answerer{"slow": waits(&told), "quick": says(policy.Answer{Reason: "not now"})})
		defer h.close()
		answer, err := h.asks.Ask(t.Context(), h.scope, h.request("c1_1_0"))
		if answer.Allow || answer.By != "quick" || answer.Reason != "not now" || err != nil {
			t.Errorf("got %+v, %v", answer, err)
		}
		synctest.Wait()
		var by *policy.AnsweredError
		if !errors.As(told, &by) || by.By != "quick" {
			t.Errorf("the slow one was told %v", told)
		}
		if got := h.audit(); len(got) != 2 || got[1] != "decided c1_1_0 rejected by quick" {
			t.Errorf("the log says %q", got)
		}
	})
}

func TestCancellingWithdrawsTheQuestion(t *testing.T) {
	in(t, func(t *testing.T, dir string) {
		h := newHouse(t, dir, map[string]policy.Answerer{"slow": waits(nil)})
		defer h.close()
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("the turn is over")
		go func() {
			synctest.Wait()
			cancel(gone)
		}()
		answer, err := h.asks.Ask(ctx, h.scope, h.request("c1_1_0"))
		if answer.Allow || !errors.Is(err, gone) || errors.Is(err, policy.ErrNobody) {
			t.Errorf("got %+v, %v", answer, err)
		}
		synctest.Wait()
		if got := h.audit(); len(got) != 2 || got[1] != "decided c1_1_0 withdrawn by" {
			t.Errorf("the log says %q", got)
		}
	})
}

// Two questions are open, and the second is answered first: each answer goes to its own question.
func TestCase_o_apr_04_QuestionsAreIndependent(t *testing.T) {
	in(t, func(t *testing.T, dir string) {
		open := map[string]chan policy.Answer{"c1_1_0": make(chan policy.Answer), "c1_1_1": make(chan policy.Answer)}
		ids := make(chan string, 2)
		h := newHouse(t, dir, map[string]policy.Answerer{"desk": person(func(ctx context.Context, r policy.Request) (policy.Answer, error) {
			ids <- r.ID
			return <-open[r.Call.ID], nil
		})})
		defer h.close()
		type got struct {
			answer policy.Answer
			err    error
		}
		first, second := make(chan got, 1), make(chan got, 1)
		for id, done := range map[string]chan got{"c1_1_0": first, "c1_1_1": second} {
			go func() {
				answer, err := h.asks.Ask(t.Context(), h.scope, h.request(id))
				done <- got{answer, err}
			}()
		}
		synctest.Wait()
		if one, two := <-ids, <-ids; one == two {
			t.Errorf("both questions are called %s", one)
		}
		open["c1_1_1"] <- policy.Answer{Allow: true}
		if g := <-second; !g.answer.Allow || g.err != nil {
			t.Errorf("the second call got %+v, %v", g.answer, g.err)
		}
		synctest.Wait()
		if len(first) > 0 {
			t.Error("the first call was answered with the second")
		}
		open["c1_1_0"] <- policy.Answer{Reason: "no"}
		if g := <-first; g.answer.Allow || g.answer.Reason != "no" || g.err != nil {
			t.Errorf("the first call got %+v, %v", g.answer, g.err)
		}
		lines := h.audit()
		if want := []string{"decided c1_1_1 allowed by desk", "decided c1_1_0 rejected by desk"}; len(lines) != 4 || !slices.Equal(lines[2:], want) {
			t.Errorf("the log says %q", lines)
		}
	})
}

func TestAnswersAreRemembered(t *testing.T) {
	for _, c := range []struct {
		answer  policy.Answer
		fails   error
		kept    string
		decided string
	}{
		{policy.Answer{Allow: true, Remember: policy.ForSession, Rule: "Bash(make)"}, nil, "allow Bash(make) session for c1_1_0", "decided c1_1_0 allowed by desk session Bash(make)"},
		{policy.Answer{Allow: true, Remember: policy.ForUser, Rule: "Bash(make)"}, nil, "allow Bash(make) user for c1_1_0", "decided c1_1_0 allowed by desk user Bash(make)"},
		{policy.Answer{Remember: policy.ForUser, Rule: "Bash(make)"}, nil, "deny Bash(make) user for c1_1_0", "decided c1_1_0 rejected by desk user Bash(make)"},
		// What cannot be kept holds for this call, and the log does not claim more.
		{policy.Answer{Allow: true, Remember: policy.ForUser, Rule: "Bash(make)"}, errors.New("the disk is full"), "allow Bash(make) user for c1_1_0", "decided c1_1_0 allowed by desk"},
	} {
		in(t, func(t *testing.T, dir string) {
			h := newHouse(t, dir, map[string]policy.Answerer{"desk": says(c.answer)})
			defer h.close()
			h.rules.err = c.fails
			answer, err := h.asks.Ask(t.Context(), h.scope, h.request("c1_1_0", "Bash(make)"))
			if answer.Allow != c.answer.Allow || err != nil {
				t.Errorf("got %+v, %v", answer, err)
			}
			if !slices.Equal(h.rules.kept, []string{c.kept}) {
				t.Errorf("kept %q, want %q", h.rules.kept, c.kept)
			}
			if got := h.audit(); len(got) != 2 || got[1] != c.decided {
				t.Errorf("the log says %q, want %q", got, c.decided)
			}
		})
	}
}

// What an answerer does to its request changes neither the call nor what may be answered.
func TestAnAnswererCannotChangeTheQuestion(t *testing.T) {
	in(t, func(t *testing.T, dir string) {
		h := newHouse(t, dir, map[string]policy.Answerer{"desk": person(func(_ context.Context, r policy.Request) (policy.Answer, error) {
			copy(r.Call.Arguments, `{"do":"no"}`)
			r.Call.Name = "other"
			r.Rules[0] = "Bash"
			r.Wider.Write[0] = "/"
			return policy.Answer{Allow: true, Remember: policy.ForUser, Rule: "Bash"}, nil
		})})
		defer h.close()
		r := h.request("c1_1_0", "Bash(make)")
		r.Wider = &workspace.Grant{Write: []string{"/a"}}
		answer, err := h.asks.Ask(t.Context(), h.scope, r)
		if answer.Allow || !errors.Is(err, policy.ErrNobody) {
			t.Errorf("got %+v, %v", answer, err)
		}
		if string(r.Call.Arguments) != `{"do":"it"}` || r.Call.Name != "work" || r.Rules[0] != "Bash(make)" || r.Wider.Write[0] != "/a" {
			t.Errorf("the request is %+v of %+v", r, r.Call)
		}
	})
}

// A call that has run cannot be edited any more.
func TestAWiderRunIsNotEdited(t *testing.T) {
	in(t, func(t *testing.T, dir string) {
		h := newHouse(t, dir, map[string]policy.Answerer{"desk": says(policy.Answer{Allow: true, Arguments: json.RawMessage(`{"do":"more"}`)})})
		defer h.close()
		r := h.request("c1_1_0")
		if answer, err := h.asks.Ask(t.Context(), h.scope, r); !answer.Allow || err != nil {
			t.Errorf("before it runs: got %+v, %v", answer, err)
		}
		r.Wider = &workspace.Grant{Hosts: []string{"example.org:443"}}
		if answer, err := h.asks.Ask(t.Context(), h.scope, r); answer.Allow || !errors.Is(err, policy.ErrNobody) {
			t.Errorf("after it ran: got %+v, %v", answer, err)
		}
	})
}
