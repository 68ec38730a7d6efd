package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
)

func TestDump(t *testing.T) {
	inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
		server := Plugin[int]{Name: "http", Start: func(_ context.Context, s *Scope, _ int) error {
			must(s.Mount("first", nil, provides(keyB, 1)))
			must(s.Mount("second", []Need{keyA.Required(), NewKey[int]("c").Required(), keyB.Required(), NewKey[int]("d").Optional()}, idle))
			return nil
		}}.Definition()
		broken := Plugin[int]{Name: "broken", Start: func(context.Context, *Scope, int) error { return errors.New("no disk") }}.Definition()
		l := NewLoader(tr.Root())
		apply(t, l, row("web", server, 1).required(), row("broken", broken, 1))
		must(tr.Root().Mount("slow", nil, func(ctx context.Context, _ *Scope) error { <-ctx.Done(); return nil }))
		synctest.Wait()
		want(t, tr.Dump().String(), `root active
  web (http) active, required
    first active, provides b
    second pending, waits for a, c
  broken failed: no disk
  slow starting
`)
		got, err := json.Marshal(tr.Dump().Children[0])
		want(t, string(got), `{"name":"web","plugin":"http","state":"active","required":true,"children":[`+
			`{"name":"first","state":"active","provides":["b"]},{"name":"second","state":"pending","waits":["a","c"]}]}`)
		if err != nil {
			t.Error(err)
		}
	})
}

func TestStateNames(t *testing.T) {
	for st, name := range map[State]string{Pending: "pending", Starting: "starting", Active: "active", Stopping: "stopping", Failed: "failed", Closed: "closed", 9: "State(9)"} {
		want(t, st.String(), name)
	}
}
