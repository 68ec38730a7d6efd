package testllm

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

func post(t *testing.T, s *Server, body string) (status int, answer string, err error) {
	t.Helper()
	resp, err := http.Post(s.URL+"/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

const user = `{"role":"user","content":"hi"}`

func request(messages string) string {
	return `{"model":"m","stream":true,"messages":[` + messages + `]}`
}

func TestScript(t *testing.T) {
	s := New(t)
	s.Script(Text("one"), Fail(429, "later"), Answer{Reasoning: "why", Calls: []Call{{Name: "read", Arguments: `{"a":"b"}`}}}.Turn())
	for i, want := range []struct {
		status int
		has    string
	}{{200, `"content":"one"`}, {429, "later"}, {200, `"arguments":"{\"a\":\"b\"}"`}, {500, "no more turns"}} {
		status, answer, err := post(t, s, request(user))
		if status != want.status || !strings.Contains(answer, want.has) || err != nil {
			t.Errorf("request %d: %d %q %v", i+1, status, answer, err)
		}
	}
	if got := s.Requests(); len(got) != 4 || got[0].Chat.Messages[0].Text() != "hi" || got[0].Path != "/v1/chat/completions" {
		t.Errorf("%+v", got)
	}
}

func TestEnds(t *testing.T) {
	s := New(t)
	for _, end := range []End{Close, Reset, Hold, Ping} {
		turn := Stream("data: x\n\n")
		turn.End = end
		s.Script(turn)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/chat/completions", strings.NewReader(request(user)))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		late := ctx.Err() != nil
		cancel()
		switch end {
		case Close:
			if err != nil || string(body) != "data: x\n\n" {
				t.Errorf("%s: %q %v", end, body, err)
			}
		case Reset:
			if err == nil || late {
				t.Errorf("%s: %q %v", end, body, err)
			}
		case Hold, Ping:
			if !late {
				t.Errorf("%s: it ended with %q %v", end, body, err)
			}
		}
	}
}

func TestCasesLoad(t *testing.T) {
	for _, name := range []string{"o-str-01", "o-str-16", "o-his-07"} {
		if c, err := LoadCase(name); err != nil || len(c.Turns) == 0 || len(c.Turns[0].Packets) == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := LoadCase("o-str-99"); err == nil {
		t.Error("a case that is not there was loaded")
	}
	s := New(t)
	c, err := LoadCase("o-str-07")
	if err != nil {
		t.Fatal(err)
	}
	s.Play(c)
	for range 3 {
		if _, answer, err := post(t, s, request(user)); err != nil || !strings.Contains(answer, "length") {
			t.Errorf("%q %v", answer, err)
		}
	}
}

// TestStrictness: what a strict provider refuses is refused here.
func TestStrictness(t *testing.T) {
	assistant := `{"role":"assistant","content":"ok"}`
	call := func(ids ...string) string {
		var calls []string
		for _, id := range ids {
			calls = append(calls, `{"id":"`+id+`","type":"function","function":{"name":"f","arguments":"{}"}}`)
		}
		return `{"role":"assistant","content":"","tool_calls":[` + strings.Join(calls, ",") + `]}`
	}
	result := func(id string) string { return `{"role":"tool","tool_call_id":"` + id + `","content":"x"}` }
	messages := func(m ...string) string { return request(strings.Join(m, ",")) }
	for body, want := range map[string]string{
		messages(user): "",
		messages(user, call("a", "b"), result("b"), result("a"), user):     "",
		messages(`{"role":"system","content":"s"}`, user, assistant, user): "",
		`{`: "the body",
		`{"model":"m","stream":true,"messages":[]}`:                                                   "no messages",
		`{"model":"m","messages":[` + user + `]}`:                                                     "only streams",
		`{"stream":true,"messages":[` + user + `]}`:                                                   "no model",
		messages(user, user):                                                                          "neighbouring",
		messages(user, `{"role":"system","content":"s"}`):                                             "system message",
		messages(`{"role":"user","content":""}`):                                                      "empty",
		messages(`{"role":"user","content":null}`):                                                    "no string",
		messages(`{"role":"robot","content":"x"}`):                                                    "unknown role",
		messages(user, `{"role":"assistant","content":""}`, user):                                     "neither content nor calls",
		messages(user, `{"role":"assistant","content":null,"tool_calls":[]}`):                         "no string",
		messages(user, call("a"), user):                                                               "1 results too few",
		messages(user, call("a")):                                                                     "no result",
		messages(user, call("a", "b"), result("a"), user):                                             "1 results too few",
		messages(user, result("a")):                                                                   "no open call",
		messages(user, call("a"), result("a"), result("a")):                                           "no open call",
		messages(user, call("a"), result("b")):                                                        "no open call",
		messages(user, call("a", "a"), result("a")):                                                   "not unique",
		messages(user, call("a"), result("a"), call("a"), result("a")):                                "not unique",
		messages(user, call(""), result("")):                                                          "not unique",
		messages(user, assistant):                                                                     "last message",
		messages(user, strings.Replace(call("a"), `"{}"`, `"{"`, 1), result("a")):                     "no object",
		messages(user, strings.Replace(call("a"), `"{}"`, `"null"`, 1), result("a")):                  "no object",
		messages(user, strings.Replace(call("a"), `"{}"`, `{}`, 1), result("a")):                      "the body",
		messages(user, strings.Replace(call("a"), `"f"`, `"a b"`, 1), result("a")):                    "no name of a function",
		strings.Replace(messages(user), `{"model"`, `{"tools":[{"type":"function"}],"model"`, 1):      "no tool of its own",
		messages(user, call("a"), strings.Replace(result("a"), `"content":"x"`, `"content":""`, 1)):   "empty",
		messages(user, call("a"), strings.Replace(result("a"), `"content":"x"`, `"content":[]`, 1)):   "the body",
		messages(user, call("a"), strings.Replace(result("a"), `"content":"x"`, `"content":null`, 1)): "no string",
	} {
		s := New(t)
		s.Tolerate()
		s.Script(Text("fine"))
		status, answer, err := post(t, s, body)
		if err != nil {
			t.Fatal(err)
		}
		if want == "" && (status != 200 || len(s.Violations()) > 0) || want != "" && (status != 400 || !strings.Contains(answer, want)) {
			t.Errorf("%s\nwant %q, got %d %s", body, want, status, answer)
		}
		s.Strict(Rules{Reasoning: true})
		if _, _, err := post(t, s, messages(user, call("a"), result("a"))); err != nil {
			t.Fatal(err)
		}
		if v := s.Violations(); len(v) == 0 || !strings.Contains(v[len(v)-1], "must be passed back") {
			t.Errorf("violations %q", v)
		}
	}
}

func TestCheckPrefix(t *testing.T) {
	chat := func(body string) Request {
		c, _ := check([]byte(body), Rules{})
		return Request{Body: []byte(body), Chat: c}
	}
	one := chat(request(user))
	for body, ok := range map[string]bool{
		request(user): true,
		request(user + `,{"role":"assistant","content":"x"}`):   true,
		request(`{"role":"user","content":"hi there"}`):         true,
		request(`{"role":"user","content":"ho"}`):               false,
		`{"model":"n","stream":true,"messages":[` + user + `]}`: false,
		request(`{"role":"system","content":"hi"}`):             false,
		request(`{"role":"assistant","content":"hi"},` + user):  false,
	} {
		if err := CheckPrefix([]Request{one, chat(body)}); (err == nil) != ok {
			t.Errorf("%s: %v", body, err)
		}
	}
}

func TestScenario(t *testing.T) {
	s := New(t)
	s.Strict(Rules{})
	prompt := `{"role":"user","content":"[[mock tools:2,par:2,reason:1]] go"}`
	status, answer, err := post(t, s, request(prompt))
	if status != 200 || err != nil || strings.Count(answer, `"id":"call_`) != 2 || !strings.Contains(answer, "true") || !strings.Contains(answer, "reasoning_content") {
		t.Errorf("%d %s %v", status, answer, err)
	}
	_, answer, err = post(t, s, request(`{"role":"user","content":"[[mock text:3,size:8]]"}`))
	if err != nil || strings.Count(answer, `"tok tok "`) != 3 || !strings.HasSuffix(answer, "data: [DONE]\n\n") {
		t.Errorf("%s %v", answer, err)
	}
	for _, fail := range []string{"503", "cut", "malformed"} {
		body := request(`{"role":"user","content":"[[mock fail:` + fail + `,id:` + fail + `]]"}`)
		status, answer, err := post(t, s, body)
		if strings.Contains(answer, "[DONE]") || (fail == "503") != (status == 503) || (fail != "503") != (err != nil) {
			t.Errorf("%s: %d %q %v", fail, status, answer, err)
		}
		if status, answer, err := post(t, s, body); status != 200 || err != nil || !strings.Contains(answer, "[DONE]") {
			t.Errorf("after %s: %d %q %v", fail, status, answer, err)
		}
	}
	for _, bad := range []string{"x", "text", "text:x", "text:-1", "what:1"} {
		if _, err := ParseScenario(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func TestAwait(t *testing.T) {
	s := New(t)
	gate := make(chan struct{})
	turn := Text("x")
	turn.Wait = gate
	s.Script(turn)
	answered := make(chan error)
	go func() {
		_, _, err := post(t, s, request(user))
		answered <- err
	}()
	if err := s.Await(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-answered:
		t.Fatalf("answered before its time: %v", err)
	default:
	}
	close(gate)
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Await(ctx, 2); err == nil {
		t.Error("waited for nothing")
	}
}
