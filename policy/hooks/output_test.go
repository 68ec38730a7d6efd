package hooks

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestUnderstand(t *testing.T) {
	for name, test := range map[string]struct {
		on       event
		stdout   string
		decision decision
		reason   string
		context  string
		halt     string
		fails    string
	}{
		"nothing":              {on: preToolUse},
		"text":                 {on: preToolUse, stdout: "all is well\n"},
		"text is context":      {on: userPromptSubmit, stdout: " all is well\n", context: "all is well"},
		"empty is no context":  {on: sessionStart, stdout: " \n"},
		"JSON":                 {on: sessionStart, stdout: `{"hookSpecificOutput":{"hookEventName":"SessionStart","additionalContext":"hello"}}`, context: "hello"},
		"an array is text":     {on: preToolUse, stdout: `["a"]`},
		"empty object":         {on: preToolUse, stdout: `{}`},
		"unknown members":      {on: preToolUse, stdout: `{"level":"info","n":[1,2]}`},
		"over lines":           {on: preToolUse, stdout: "{\n  \"decision\": \"block\",\n  \"reason\": \"no\"\n}\n", decision: deny, reason: "no"},
		"halt":                 {on: stop, stdout: `{"continue":false,"stopReason":"enough"}`, halt: "enough"},
		"goes on":              {on: stop, stdout: `{"continue":true}`},
		"message":              {on: stop, stdout: `{"systemMessage":"hi"}`},
		"null":                 {on: stop, stdout: `{"decision":null,"reason":null,"continue":null,"hookSpecificOutput":null}`},
		"a request is denied":  {on: permissionRequest, stdout: `{"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":{"behavior":"deny","message":"no","interrupt":true}}}`, decision: deny, reason: "no", halt: "no"},
		"block beats allow":    {on: preToolUse, stdout: `{"decision":"block","reason":"no","hookSpecificOutput":{"permissionDecision":"allow"}}`, decision: deny, reason: "no"},
		"ask beats approve":    {on: preToolUse, stdout: `{"decision":"approve","hookSpecificOutput":{"permissionDecision":"ask","permissionDecisionReason":"hm"}}`, decision: ask, reason: "hm"},
		"half":                 {on: preToolUse, stdout: `{"decision":"block"`, fails: "no JSON"},
		"half, within a line":  {on: preToolUse, stdout: `log: {"decision":"block"`, fails: "no JSON"},
		"not meant as answer":  {on: preToolUse, stdout: `map{a:1} done`},
		"a number":             {on: preToolUse, stdout: `{"decision":1}`, fails: "not understood"},
		"a text for the block": {on: preToolUse, stdout: `{"hookSpecificOutput":"deny"}`, fails: "not understood"},
		"unknown decision":     {on: preToolUse, stdout: `{"decision":"stop"}`, fails: `"stop"`},
		"unknown permission":   {on: preToolUse, stdout: `{"hookSpecificOutput":{"permissionDecision":"defer"}}`, fails: "defer"},
		"unknown behavior":     {on: permissionRequest, stdout: `{"hookSpecificOutput":{"decision":{"behavior":"maybe"}}}`, fails: "maybe"},
		"another event":        {on: preToolUse, stdout: `{"hookSpecificOutput":{"hookEventName":"Stop"}}`, fails: "Stop"},
		"like JSON too often":  {on: preToolUse, stdout: strings.Repeat("x {y}\n", 200), fails: "no JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := understand(test.on, []byte(test.stdout))
			if test.fails != "" {
				if err == nil || !strings.Contains(err.Error(), test.fails) {
					t.Errorf("the error is %v, want %q in it", err, test.fails)
				}
				return
			}
			if err != nil || o.decision != test.decision || o.reason("") != test.reason || strings.Join(o.context, "|") != test.context || o.why != test.halt {
				t.Errorf("%+v, %v", o, err)
			}
		})
	}
}

// noisy is what profiles and debug lines write.
func noisy() *rapid.Generator[string] {
	return rapid.SampledFrom([]string{"", "Shell ready\n", "\ufeff", "\n\n", "[debug] loaded {plugins}\n", `{"level":"info"}` + "\n", "a } b\n", "{}\n"})
}

// A block is never lost, whatever stands before and behind it: it is a block, or a failure.
func TestCase_o_hk_02_law(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		block := rapid.SampledFrom([]string{
			`{"decision":"block","reason":"no"}`, "{\"decision\" : \"block\",\n\"reason\":\"no\"}",
			`{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"no"}}`,
		}).Draw(t, "block")
		around := rapid.SliceOfN(noisy(), 0, 4)
		text := strings.Join(around.Draw(t, "before"), "") + block + "\n" + strings.Join(around.Draw(t, "behind"), "")
		o, err := understand(preToolUse, []byte(text))
		if err == nil && (o.decision != deny || o.reason("") != "no") {
			t.Fatalf("%q is %+v", text, o)
		}
	})
}

// The strictest decision wins in any order, with exactly its own reasons.
func TestMergeLaw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOf(rapid.Custom(func(t *rapid.T) outcome {
			d := decision(rapid.IntRange(int(silent), int(deny)).Draw(t, "decision"))
			return outcome{decision: d, reasons: []string{d.String()}}
		})).Draw(t, "outcomes")
		var o outcome
		strictest := silent
		for _, one := range all {
			o.add(one)
			strictest = max(strictest, one.decision)
		}
		if o.decision != strictest {
			t.Fatalf("%v of %v", o.decision, all)
		}
		for _, reason := range o.reasons {
			if reason != strictest.String() {
				t.Fatalf("the reason %q for %v", reason, strictest)
			}
		}
	})
}

// FuzzUnderstand: a hook may write anything; a decision comes from an object that says so.
func FuzzUnderstand(f *testing.F) {
	for _, seed := range []string{
		"", "{}", `{"decision":"block"}`, "ready\n{\"decision\":\"block\",\"reason\":\"no\"}\nbye", "\ufeff{\"continue\":false}",
		`{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","updatedInput":{"command":"ls"}}}`,
		`x {"decision":`, "[{\"decision\":\"block\"}]", strings.Repeat("{", 50),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, stdout []byte) {
		o, err := understand(preToolUse, stdout)
		if err == nil && o.updated != nil && !json.Valid(o.updated) {
			t.Errorf("the input is no JSON: %q", o.updated)
		}
		if err == nil && o.decision != silent && !strings.ContainsAny(string(stdout), "{") {
			t.Errorf("%v out of nothing", o.decision)
		}
	})
}
