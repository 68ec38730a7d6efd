package files_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/tool"
	"github.com/dsh-harness/dsh/tools/files"
)

// What a session has read goes with the session: a later one of the same id reads again.
func TestWhatWasReadGoesWithTheSession(t *testing.T) {
	h := newHands(t)
	tree := plugin.New(slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		if err := tree.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	var children []plugin.Child
	for _, def := range []plugin.Definition{session.StorePlugin.Definition(), files.Plugin.Definition()} {
		prepared, err := def.Bind(def.NewConfig())
		if err != nil {
			t.Fatal(err)
		}
		children = append(children, prepared.Child(def.Name()))
	}
	if _, err := tree.Root().MountAll(children...); err != nil {
		t.Fatal(err)
	}
	var store session.Store
	_, err := tree.Root().Mount("test", []plugin.Need{session.Service.Required()}, func(_ context.Context, s *plugin.Scope) error {
		store = session.Service.From(s)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := tree.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	enter := func(id string) (s *session.Session, detach func()) {
		s, err := store.Prepare(t.Context(), session.PrepareOptions{ID: id, Cwd: h.dir, NoPersist: true})
		if err != nil {
			t.Fatal(err)
		}
		leave, err := store.Enter(s)
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Announce(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		return s, func() {
			if err := leave(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	edit := func(s *session.Session, name, old, new string) string {
		t.Helper()
		d, _ := tool.Tools.Get(tree.Root(), name)
		arguments, err := json.Marshal(args{"file_path": "f", "old_string": old, "new_string": new})
		if name == "read" {
			arguments, err = json.Marshal(args{"file_path": "f"})
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := d.Bind(&tool.Call{Name: name, Arguments: arguments, Session: s, Workspace: h.w, Progress: func(string) {}})
		if err != nil {
			t.Fatal(err)
		}
		result, err := body(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if result.IsError {
			return result.Error.Code
		}
		return "ok"
	}
	h.put("f", "1")
	first, closeFirst := enter("one")
	want(t, edit(first, "read", "", ""), "ok")
	want(t, edit(first, "edit", "1", "2"), "ok")
	other, closeOther := enter("two")
	want(t, edit(other, "edit", "2", "3"), "not-read")
	closeOther()
	closeFirst()
	again, closeAgain := enter("one")
	want(t, edit(again, "edit", "2", "3"), "not-read")
	closeAgain()
}
