package spill

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/session/jsonl"
	"github.com/dsh-harness/dsh/tool"
	"github.com/dsh-harness/dsh/workspace"
	"github.com/dsh-harness/dsh/workspace/local"
	"github.com/dsh-harness/dsh/workspace/workspacetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bound passes a result through the plugin.
func bound(t *testing.T, limit int, c *tool.Call, r tool.Result) (tool.Result, error) {
	t.Helper()
	tree := plugin.New(nil)
	defer func() {
		if err := tree.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	_, err := tree.Root().Mount("tool-spill", nil, func(ctx context.Context, s *plugin.Scope) error {
		return Plugin.Start(ctx, s, Config{Limit: limit})
	})
	if err == nil {
		err = tree.Settle(context.Background())
	}
	if err != nil {
		t.Fatal(err)
	}
	return tool.PostExecute.Run(context.Background(), tree.Root(), &tool.Prepared{Call: c}, func(context.Context, *tool.Prepared) (tool.Result, error) {
		return r, nil
	})
}

// kept is a session that is kept in files.
func kept(t *testing.T) *session.Session {
	t.Helper()
	dir := t.TempDir()
	tree := plugin.New(nil)
	t.Cleanup(func() {
		if err := tree.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	var s *session.Session
	_, err := tree.Root().MountAll(
		plugin.Child{Name: "session-jsonl", Start: func(ctx context.Context, s *plugin.Scope) error {
			return jsonl.Plugin.Start(ctx, s, jsonl.Config{Dir: dir})
		}},
		plugin.Child{Name: "sessions", Needs: session.StorePlugin.Needs, Start: func(ctx context.Context, s *plugin.Scope) error {
			return session.StorePlugin.Start(ctx, s, struct{}{})
		}},
		plugin.Child{
			Name: "test", Needs: []plugin.Need{session.Service.Required(), session.PersistenceService.Required()},
			Start: func(ctx context.Context, scope *plugin.Scope) (err error) {
				store := session.Service.From(scope)
				if s, err = store.Prepare(ctx, session.PrepareOptions{Cwd: dir}); err != nil {
					return err
				}
				if _, err = store.Enter(s); err != nil {
					return err
				}
				if _, err = s.Append(session.Draft{Type: session.TurnStart, Data: session.TurnStartData{Turn: 1}}); err != nil {
					return err
				}
				return s.Flush(ctx)
			},
		},
	)
	if err == nil {
		err = tree.Settle(context.Background())
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestCase_o_ses_06_WhatIsTooLargeGoesToAFile(t *testing.T) {
	s := kept(t)
	whole := "first\n" + strings.Repeat("x", 12<<20) + "\nlast"
	c := &tool.Call{ID: "c1_2_0", Name: "bash", Session: s}
	var files []string
	for range 2 {
		r, err := bound(t, 48<<10, c, tool.Text(whole))
		if err != nil {
			t.Fatal(err)
		}
		text := llm.PlainText(r.Content)
		if len(text) > 48<<10 || !strings.HasPrefix(text, "first\n") || !strings.HasSuffix(text, "\nlast") {
			t.Errorf("the text has %d bytes: %.100s", len(text), text)
		}
		_, after, _ := strings.Cut(text, "the whole of 12582923 bytes is in ")
		file, _, _ := strings.Cut(after, ";")
		files = append(files, file)
		got, err := os.ReadFile(file)
		if err != nil || string(got) != whole {
			t.Errorf("the file has %d bytes, %v", len(got), err)
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("the file may be read by others: %v, %v", info.Mode(), err)
		}
	}
	dir := filepath.Join(s.Dir(), "spill")
	if want := []string{filepath.Join(dir, "c1_2_0-bash.txt"), filepath.Join(dir, "c1_2_0-bash-2.txt")}; !cmp.Equal(want, files) {
		t.Errorf("the files are %q", files)
	}
}

func TestAnUnkeptSessionSpillsIntoTheWorkspace(t *testing.T) {
	w := workspacetest.Open(t, local.Plugin.Definition(), workspace.Options{})
	whole := strings.Repeat("é", 3000)
	r, err := bound(t, 1024, &tool.Call{ID: "c1_1_0", Name: "../x", Workspace: w}, tool.Text(whole))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(w.Temp(), "c1_1_0----x.txt")
	if text := llm.PlainText(r.Content); !strings.Contains(text, file) {
		t.Errorf("the text does not name %s: %s", file, text)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != whole {
		t.Errorf("the file has %d bytes, %v", len(got), err)
	}
}

func TestWhatCannotBeKeptIsStillBounded(t *testing.T) {
	r, err := bound(t, 1024, &tool.Call{ID: "c1_1_0", Name: "x"}, tool.Result{
		IsError: true,
		Content: []llm.Block{llm.Text(strings.Repeat("a", 700)), {Type: llm.BlockImage, MediaType: "image/png"}, llm.Text(strings.Repeat("b", 700))},
		Meta:    strings.Repeat("m", maxMeta),
	})
	if err != nil {
		t.Fatal(err)
	}
	text := llm.PlainText(r.Content)
	if !strings.Contains(text, "the whole of 1400 bytes could not be kept: there is no session and no workspace to keep it in") || len(text) > 1024 {
		t.Errorf("the text has %d bytes: %s", len(text), text)
	}
	if len(r.Content) != 2 || r.Content[1].MediaType != "image/png" || !r.IsError {
		t.Errorf("the result became %+v", r)
	}
	if got := string(r.Meta.(json.RawMessage)); got != `{"omitted":262146}` {
		t.Errorf("the meta is %s", got)
	}
}

func TestWhatFitsStaysAsItIs(t *testing.T) {
	want := tool.Result{Content: []llm.Block{llm.Text(strings.Repeat("a", 1024))}}
	got, err := bound(t, 1024, &tool.Call{}, want)
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Error(d, err)
	}
}

func TestAFailedListenerFurtherInIsPassedOn(t *testing.T) {
	want := errors.New("no")
	_, err := Config{Limit: 1024}.listen(context.Background(), &tool.Prepared{}, func(context.Context, *tool.Prepared) (tool.Result, error) {
		return tool.Result{}, want
	})
	if !errors.Is(err, want) {
		t.Errorf("got %v", err)
	}
}

func TestShortenedTextFitsAndKeepsItsLetters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole := strings.Repeat(rapid.StringN(1, 40, -1).Draw(t, "text"), 100)
		limit := rapid.IntRange(1, len(whole)-1).Draw(t, "limit")
		where := rapid.StringN(0, 300, -1).Draw(t, "where")
		got := shorten(whole, limit, where)
		head, rest, _ := strings.Cut(got, "\n\n[… ")
		_, tail, _ := strings.Cut(rest, where+" …]\n\n")
		if !utf8.ValidString(got) && utf8.ValidString(whole+where) {
			t.Errorf("letters are cut: %q", got)
		}
		if len(got) > max(limit, len(where)+100) {
			t.Errorf("it has %d bytes", len(got))
		}
		if where != "" && (!strings.HasPrefix(whole, head) || !strings.HasSuffix(whole, tail)) {
			t.Errorf("head %q and tail %q are not those of the text", head, tail)
		}
	})
}

func TestConfigurationIsChecked(t *testing.T) {
	for limit, want := range map[int]string{
		1024:     "",
		48 << 10: "",
		1023:     "limit: 1023 is not between 1024 and 8388608 bytes",
		1 << 30:  "limit: 1073741824 is not between 1024 and 8388608 bytes",
	} {
		got := ""
		if err := (&Config{Limit: limit}).Validate(); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%d: got %q", limit, got)
		}
	}
}
