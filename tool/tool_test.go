package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/tool"
)

type headInput struct {
	Path  string `json:"path" doc:"the file"`
	Lines *int   `json:"lines,omitempty" doc:"how many lines"`
	Mode  string `json:"mode,omitempty" enum:"text,hex" doc:"how to show it"`
}

func head(run func(context.Context, *tool.Call, headInput) (tool.Result, error)) tool.Definition {
	return tool.New(tool.Spec{
		Name: "head", Description: "Reads the first lines of a file.\n", Effect: session.EffectRead, Parallel: true, Timeout: time.Second,
		Access: func(c *tool.Call) []tool.Access {
			var in headInput
			if err := json.Unmarshal(c.Arguments, &in); err != nil {
				return nil
			}
			return []tool.Access{{Kind: tool.AccessRead, Target: in.Path}}
		},
	}, run)
}

func ExampleNew() {
	shout := tool.New(tool.Spec{Name: "shout", Description: "Says it louder."},
		func(_ context.Context, _ *tool.Call, in struct {
			Text string `json:"text" doc:"what to say"`
		}) (tool.Result, error) {
			if in.Text == "" {
				return tool.Failure("nothing-to-say", "text is empty"), nil
			}
			return tool.Text(strings.ToUpper(in.Text) + "!"), nil
		})
	fmt.Println(string(shout.Schema()))

	arguments, err := shout.Check(`{"text": "hello"}`)
	if err != nil {
		fmt.Println(err)
	}
	body, err := shout.Bind(&tool.Call{Arguments: arguments})
	if err != nil {
		fmt.Println(err)
	}
	result, err := body(context.Background())
	fmt.Println(llm.PlainText(result.Content), err)

	_, err = shout.Check(`{"txt": 1}`)
	fmt.Println(err)
	// Output:
	// {"type":"object","properties":{"text":{"type":"string","description":"what to say"}},"required":["text"],"additionalProperties":false}
	// HELLO! <nil>
	// "txt" is not known; did you mean "text"?; "text" is missing
}

func TestATypedToolGetsItsInput(t *testing.T) {
	var got headInput
	d := head(func(_ context.Context, _ *tool.Call, in headInput) (tool.Result, error) {
		got = in
		return tool.Text("ok"), nil
	})
	arguments, err := d.Check(`{"mode":"hex","path":"a","lines":3.0}`)
	if err != nil {
		t.Fatal(err)
	}
	c := &tool.Call{Name: "head", Arguments: arguments}
	if r, err := d.Run(context.Background(), c); err != nil || llm.PlainText(r.Content) != "ok" {
		t.Errorf("got %+v, %v", r, err)
	}
	three := 3
	if d := cmp.Diff(headInput{"a", &three, "hex"}, got); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]tool.Access{{Kind: tool.AccessRead, Target: "a"}}, d.Access(c)); d != "" {
		t.Error(d)
	}
	if _, err := d.Run(context.Background(), &tool.Call{Arguments: []byte(`{"path":1}`)}); err == nil {
		t.Error("arguments that nobody checked were accepted")
	}
}

func TestARawToolKeepsTheSchemaThatItWasGiven(t *testing.T) {
	for parameters, want := range map[string]string{
		`{ "type": "object", "properties": {"b": {}, "a": {"$ref": "#/x"}} }`: `{"type":"object","properties":{"b":{},"a":{"$ref":"#/x"}}}`,
		`nonsense`: `{"type":"object","properties":{}}`,
		``:         `{"type":"object","properties":{}}`,
	} {
		var got string
		d := tool.NewRaw(tool.Spec{Name: "mcp__x-y"}, json.RawMessage(parameters), func(_ context.Context, _ *tool.Call, arguments json.RawMessage) (tool.Result, error) {
			got = string(arguments)
			return tool.Result{}, nil
		})
		if s := string(d.Schema()); s != want {
			t.Errorf("the schema is %s, want %s", s, want)
		}
		arguments, err := d.Check(` {"z" : [1] } `)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Run(context.Background(), &tool.Call{Arguments: arguments}); err != nil || got != `{"z":[1]}` {
			t.Errorf("the tool saw %s, %v", got, err)
		}
		var invalid *tool.InvalidArgumentsError
		if _, err := d.Check(`[]`); !errors.As(err, &invalid) || len(invalid.Violations) != 1 {
			t.Errorf("got %v", err)
		}
	}
}

func TestNewPanicsOnABadName(t *testing.T) {
	for name, ok := range map[string]bool{
		"read": true, "web_fetch2": true, "": false, "Read": false, "a-b": false, "a b": false, "é": false,
		strings.Repeat("a", 64): true, strings.Repeat("a", 65): false,
	} {
		func() {
			defer func() {
				if r := recover(); (r == nil) != ok {
					t.Errorf("%q: %v", name, r)
				}
			}()
			tool.New(tool.Spec{Name: name}, func(context.Context, *tool.Call, struct{}) (tool.Result, error) { return tool.Result{}, nil })
		}()
	}
}

func TestTheZeroDefinitionIsNoTool(t *testing.T) {
	var d tool.Definition
	if d.Name() != "" || d.Parallel() || d.Effect() != session.EffectUnknown {
		t.Errorf("it is %q, parallel %v, effect %s", d.Name(), d.Parallel(), d.Effect())
	}
}

func TestAddKeepsNamesUnique(t *testing.T) {
	tree := plugin.New(nil)
	one := tool.NewRaw(tool.Spec{Name: "one"}, nil, nil)
	n, err := tree.Root().Mount("tools", nil, func(_ context.Context, s *plugin.Scope) error { return tool.Add(s, one, one) })
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Settle(context.Background()); err == nil {
		t.Error("two tools have one name")
	}
	if _, ok := tool.Tools.Get(tree.Root(), "one"); ok {
		t.Error("the tool of a plugin that failed stays")
	}
	if err := tree.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

// The decision only ever becomes stricter, whatever the order, but for an answer to Ask.
func TestDecisionsOnlyBecomeStricter(t *testing.T) {
	decisions := []tool.Decision{tool.Allow, tool.Confined, tool.Ask, tool.Deny}
	rapid.Check(t, func(t *rapid.T) {
		p := &tool.Pending{Call: &tool.Call{Name: "x"}}
		strictest, reason := tool.Decision(-1), ""
		for i := range rapid.IntRange(1, 6).Draw(t, "raises") {
			d := rapid.SampledFrom(decisions).Draw(t, "decision")
			if d > strictest {
				strictest, reason = d, fmt.Sprint(i)
			}
			p.Raise(d, "by", fmt.Sprint(i))
			if p.Verdict.Decision != strictest || p.Verdict.Reason != reason {
				t.Fatalf("after %v: %+v, want %v because of %s", d, p.Verdict, strictest, reason)
			}
		}
		if p.DecidedOn() != tool.Digest(p.Call) {
			t.Fatal("the call that was decided on is not known")
		}
		allow := rapid.Bool().Draw(t, "allow")
		p.Settle(allow, "person", "because")
		want := strictest
		if strictest == tool.Ask {
			want = map[bool]tool.Decision{true: tool.Allow, false: tool.Deny}[allow]
		}
		if p.Verdict.Decision != want {
			t.Fatalf("answered, the decision is %v, want %v", p.Verdict.Decision, want)
		}
	})
}

func TestDigestsTellCallsApart(t *testing.T) {
	seen := map[[32]byte]string{}
	for _, c := range []tool.Call{
		{Name: "a", Arguments: []byte(`{}`)}, {Name: "b", Arguments: []byte(`{}`)}, {Name: "a", Arguments: []byte(`{"x":1}`)},
		{Name: "a{", Arguments: []byte(`}`)}, {Name: "", Arguments: []byte(`a{}`)},
	} {
		d := tool.Digest(&c)
		if other, ok := seen[d]; ok {
			t.Errorf("%s %s has the digest of %s", c.Name, c.Arguments, other)
		}
		seen[d] = c.Name + " " + string(c.Arguments)
	}
}

func TestReference(t *testing.T) {
	var b strings.Builder
	nothing := tool.New(tool.Spec{Name: "wait", Description: "Waits.", Timeout: -1}, func(context.Context, *tool.Call, struct{}) (tool.Result, error) { return tool.Result{}, nil })
	if err := tool.WriteReference(&b, []tool.Definition{head(nil), nothing}); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/reference.golden")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), b.String()); d != "" {
		t.Error(d)
	}
}
