package cli

import (
	"errors"
	"testing"

	"github.com/dsh-harness/dsh"
	"github.com/dsh-harness/dsh/session"
)

// 130 or 143 come first and are not the result's; then 2, 1, 4, 3.
func TestVerdict(t *testing.T) {
	waiting := []dsh.Denial{{CallID: "c", Tool: "t", Unanswered: true}}
	denied := []dsh.Denial{{CallID: "c", Tool: "t"}}
	failure := func(code string) *session.ErrorData { return &session.ErrorData{Code: code, Message: "m"} }
	broken := errors.New("broken")
	for _, test := range []struct {
		name string
		r    dsh.Result
		err  error
		want int
	}{
		{"completed", dsh.Result{Reason: session.Completed}, nil, 0},
		{"completed, then something else failed", dsh.Result{Reason: session.Completed}, broken, 1},
		{"completed after a denial", dsh.Result{Reason: session.Completed, Denied: denied}, nil, 0},
		{"completed without an approval", dsh.Result{Reason: session.Completed, Denied: append(denied, waiting...)}, nil, 3},
		{"error", dsh.Result{Reason: session.Failed, Error: failure("server")}, broken, 1},
		{"error without an approval", dsh.Result{Reason: session.Failed, Error: failure("plugin"), Denied: waiting}, broken, 1},
		{"missing key", dsh.Result{Reason: session.Failed, Error: failure("missing-key"), Steps: 1}, broken, 2},
		{"a key that went missing", dsh.Result{Reason: session.Failed, Error: failure("missing-key"), Steps: 3}, broken, 1},
		{"a model that the provider does not know", dsh.Result{Reason: session.Failed, Error: &session.ErrorData{Code: "unknown-model", Status: 404}, Steps: 1}, broken, 1},
		{"budget", dsh.Result{Reason: session.Budget, Denied: waiting}, broken, 4},
		{"output ceiling", dsh.Result{Reason: session.MaxTokens}, broken, 4},
		{"blocked", dsh.Result{Reason: session.Blocked, Error: failure("blocked")}, broken, 1},
		{"aborted", dsh.Result{Reason: session.Aborted}, broken, 1},
		{"disposed", dsh.Result{Reason: session.Disposed}, broken, 1},
		{"nothing began", dsh.Result{}, broken, 1},
	} {
		if got, _ := verdict(test.r, test.err); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
}
