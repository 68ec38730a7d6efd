package hooks_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dsh-harness/dsh"
	"github.com/dsh-harness/dsh/policy"
	"github.com/dsh-harness/dsh/policy/hooks"
	"github.com/dsh-harness/dsh/session"
)

// blocked reports how a turn that a hook ended tells it.
func (w *world) blocked() string {
	var turn *dsh.TurnError
	if !errors.As(w.err, &turn) || turn.End.Reason != session.Blocked || turn.End.Error == nil {
		w.t.Errorf("the turn was not blocked: %v", w.err)
		return ""
	}
	return turn.End.Error.Message
}

// Context of SessionStart stands before the prompt of the first request, that of UserPromptSubmit behind it; JSON and text count.
func TestContextBeforeTheFirstRequest(t *testing.T) {
	w := newWorld(t)
	w.user(`{"hooks":{
		"SessionStart":[{"matcher":"startup","hooks":[{"type":"command","command":"echo the house rules"}]},
			{"matcher":"resume","hooks":[{"type":"command","command":"echo welcome back"}]}],
		"UserPromptSubmit":[{"matcher":"never looked at","hooks":[{"type":"command","command":` + quoted(specific("UserPromptSubmit", `"additionalContext":"it is late"`)) + `}]}]}}`)
	w.run("go", done)
	if diff := cmp.Diff([]string{"SessionStart: the house rules", "go", "UserPromptSubmit: it is late"}, w.inputs()); diff != "" {
		t.Error(diff)
	}
	w.resume = w.result.SessionID
	w.run("more", done, done)
	in := w.inputs()
	if diff := cmp.Diff([]string{"SessionStart: welcome back", "more", "UserPromptSubmit: it is late"}, in[max(0, len(in)-3):]); diff != "" {
		t.Error(diff)
	}
}

func TestUserPromptSubmitRejects(t *testing.T) {
	for name, test := range map[string]struct{ hook, more, says string }{
		"block":       {say(`{"decision":"block","reason":"not on fridays"}`), "", "not on fridays"},
		"2":           {"grep -o 'secret plan' >&2; exit 2", "", "secret plan"},
		"2, silently": {"exit 2", "", "blocked by UserPromptSubmit hook"},
		"continue":    {say(`{"continue":false,"stopReason":"enough for today"}`), "", "enough for today"},
		"failure":     {"exit 9", `,"on_failure":"block"`, "it ended with 9"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.user(hook("UserPromptSubmit", "", test.hook, test.more))
			w.run("the secret plan", done)
			if why := w.blocked(); !strings.Contains(why, test.says) {
				t.Errorf("the reason is %q, want %q in it", why, test.says)
			}
			if len(w.data(session.AssistantMessage)) != 0 || len(w.inputs()) != 0 {
				t.Error("the prompt reached the model")
			}
		})
	}
}

// A Stop hook that blocks keeps the turn going with its reason, and is told so the next time.
func TestStopKeepsTheTurnGoing(t *testing.T) {
	w := newWorld(t)
	w.user(hook("Stop", "", `grep -q '"stop_hook_active":true' && exit 0; echo run the tests first >&2; exit 2`))
	w.run("go", done, "    - text: tested\n")
	if w.err != nil || w.result.Text != "tested" {
		t.Fatalf("%v, %q\n%s", w.err, w.result.Text, w.log.String())
	}
	if diff := cmp.Diff([]string{"go", "Stop: run the tests first"}, w.inputs()); diff != "" {
		t.Error(diff)
	}
}

// One that always blocks does not keep it going for ever, and a failing one not at all.
func TestStopIsBounded(t *testing.T) {
	w := newWorld(t)
	w.user(hook("Stop", "", "exit 2"))
	w.run("go", strings.Repeat(done, 20))
	if n := len(w.data(session.AssistantMessage)); w.err != nil || n != 9 {
		t.Errorf("%d answers, %v", n, w.err)
	}
	if !strings.Contains(w.log.String(), "too often") {
		t.Error("nobody was told")
	}

	w = newWorld(t)
	w.user(hook("Stop", "", "exit 1", `,"on_failure":"block"`))
	w.run("go", strings.Repeat(done, 20))
	if n := len(w.data(session.AssistantMessage)); w.err != nil || n != 1 {
		t.Errorf("%d answers, %v", n, w.err)
	}
}

// continue false ends the turn with its reason, and no call of the step runs any more.
func TestContinueFalseEndsTheTurn(t *testing.T) {
	halt := say(`{"continue":false,"stopReason":"the budget is spent"}`)
	for event, ran := range map[string]bool{"PreToolUse": false, "PostToolUse": true, "Stop": true, "SessionStart": false} {
		t.Run(event, func(t *testing.T) {
			w := newWorld(t)
			w.user(hook(event, "", halt))
			answers := []string{bash("touch ran"), bash("touch more"), done}
			if event == "PreToolUse" {
				answers[0] = `    - calls: [{name: bash, arguments: {command: "touch ran"}}, {name: bash, arguments: {command: "touch more"}}]` + "\n"
			}
			if event == "Stop" {
				answers = []string{bash("touch ran"), done, bash("touch more"), done}
			}
			w.run("go", answers...)
			if why := w.blocked(); !strings.Contains(why, "the budget is spent") {
				t.Errorf("the reason is %q", why)
			}
			if w.exists("ran") != ran || w.exists("more") {
				t.Errorf("ran: %v, more: %v", w.exists("ran"), w.exists("more"))
			}
		})
	}
}

func TestSessionEnd(t *testing.T) {
	w := newWorld(t)
	w.user(hook("SessionEnd", "", "cat > ended"))
	w.run("go", done)
	var told map[string]any
	if err := json.Unmarshal([]byte(w.read("ended")), &told); err != nil || told["reason"] != "other" || told["session_id"] != w.result.SessionID {
		t.Errorf("it was told %v, %v\n%s", told, err, w.log.String())
	}
	if o := w.outcomes(); len(o) != 1 || o[0].Event != "SessionEnd" || o[0].Error != "" {
		t.Errorf("%+v", o)
	}
}

// What hooks are told, in both styles.
func TestPayload(t *testing.T) {
	write := func(event string) string { return `cat > "$CLAUDE_PROJECT_DIR/` + event + `.json"` }
	var groups []string
	for _, event := range []string{"SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure", "Stop"} {
		groups = append(groups, quoted(event)+`:[{"hooks":[{"type":"command","command":`+quoted(write(event))+`}]}]`)
	}
	file := `{"hooks":{` + strings.Join(groups, ",") + `}}`
	answers := []string{
		`    - calls: [{name: write, arguments: {file_path: a/b.txt, content: x}}, {name: read, arguments: {file_path: none}}, {name: bash, arguments: {command: "echo hi"}}]` + "\n", done,
	}
	for style, want := range map[hooks.Style]map[string]map[string]any{
		hooks.Claude: {
			"SessionStart":       {"source": "startup"},
			"UserPromptSubmit":   {"prompt": "go"},
			"PreToolUse":         {"tool_name": "Bash", "tool_input": map[string]any{"command": "echo hi"}, "tool_use_id": "c1_1_2"},
			"PostToolUse":        {"tool_name": "Bash", "tool_input": map[string]any{"command": "echo hi"}, "tool_use_id": "c1_1_2", "tool_response": "hi\n[exit code 0]"},
			"PostToolUseFailure": {"tool_name": "Read", "tool_input": map[string]any{"file_path": "DIR/none"}, "tool_use_id": "c1_1_1", "error": "Error: open none: file does not exist", "is_interrupt": false},
			"Stop":               {"stop_hook_active": false, "last_assistant_message": "done"},
		},
		hooks.Codex: {
			"SessionStart":     {"source": "startup", "turn_id": "1"},
			"UserPromptSubmit": {"prompt": "go", "turn_id": "1"},
			"PreToolUse":       {"tool_name": "Bash", "tool_input": map[string]any{"command": "echo hi"}, "tool_use_id": "c1_1_2", "turn_id": "1"},
			"PostToolUse":      {"tool_name": "Bash", "tool_input": map[string]any{"command": "echo hi"}, "tool_use_id": "c1_1_2", "tool_response": "hi\n[exit code 0]", "turn_id": "1"},
			"Stop":             {"stop_hook_active": false, "last_assistant_message": "done", "turn_id": "1"},
		},
	} {
		t.Run(string(style), func(t *testing.T) {
			w := newWorld(t)
			w.project(map[hooks.Style]string{hooks.Claude: ".claude/settings.json", hooks.Codex: ".codex/hooks.json"}[style], file)
			w.run("go", answers...)
			if w.err != nil {
				t.Fatalf("%v\n%s", w.err, w.log.String())
			}
			for event, fields := range want {
				text := w.read(event + ".json")
				if strings.HasSuffix(text, "\n") != (style == hooks.Claude) {
					t.Errorf("%s: the end of %q", event, text)
				}
				var got map[string]any
				check(t, json.Unmarshal([]byte(strings.ReplaceAll(text, w.dir, "DIR")), &got))
				fields["session_id"], fields["cwd"], fields["hook_event_name"] = w.result.SessionID, "DIR", event
				fields["permission_mode"], fields["transcript_path"] = "bypassPermissions", ""
				if style == hooks.Codex {
					fields["transcript_path"], fields["model"] = nil, "replay/scripted"
				}
				if diff := cmp.Diff(fields, got); diff != "" {
					t.Errorf("%s: %s", event, diff)
				}
			}
		})
	}
}

// A hook in the background is waited for by nobody and is in the log.
func TestAsyncHooksAreNotWaitedFor(t *testing.T) {
	w := newWorld(t)
	w.user(hook("PreToolUse", "", "while [ ! -e ran ]; do sleep 0.01; done; exit 2", `,"async":true,"timeout":5`))
	w.run("go", bash("touch ran; sleep 0.2"), done)
	if w.err != nil || !w.exists("ran") || len(w.data(hooks.Invoked)) != 1 {
		t.Errorf("%v, %q\n%s", w.err, w.results(), w.log.String())
	}
}

// Without hooks nothing is run and nothing logged.
func TestNoHooksNoCost(t *testing.T) {
	w := newWorld(t)
	w.file(".claude/settings.json", `{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"touch ran"}]}]}}`) // not trusted
	w.mode = policy.WorkspaceWrite
	w.run("go", done)
	if w.err != nil || w.exists("ran") || len(w.data(hooks.Invoked))+len(w.data(hooks.Resulted)) != 0 {
		t.Errorf("%v\n%s", w.err, w.log.String())
	}
}
