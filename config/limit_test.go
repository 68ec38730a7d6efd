package config_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/dsh-harness/dsh/config"
)

// What a hostile file can make us do is bounded.
func TestLimits(t *testing.T) {
	many := func(n int, line string) string { return strings.Repeat(line, n) }
	bomb := "- id: a\n  plugin: wire\n  config:\n    l0: &l0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < 9; i++ {
		bomb += fmt.Sprintf("    l%d: &l%d [%s*l%d]\n", i, i, many(9, fmt.Sprintf("*l%d, ", i-1)), i-1)
	}
	var rows strings.Builder
	for i := range 200 {
		fmt.Fprintf(&rows, "- id: UPPER%d\n", i)
	}
	for _, c := range []struct{ name, text, want string }{
		{"aliases that multiply", bomb, "more than 100000 values, aliases counted"},
		{"deep flow", "- id: a\n  config: " + many(100_000, "["), "nested deeper than 50 levels"},
		{"deep flow, closed", "- id: a\n  plugin: wire\n  config: {extra: " + many(60, "[") + many(60, "]") + "}", "nested deeper than 50 levels"},
		{"deep blocks", "- id: a\n  config:\n    " + many(2000, "- ") + "x", "nested deeper than 50 levels"},
		{"many values", "- id: a\n  plugin: wire\n  config: {extra: [" + many(150_000, "1, ") + "]}", "more than 100000 values"},
		{"many errors", rows.String(), "more is wrong from here on"},
		{"not UTF-8", "- id: a\n  plugin: \xff\n", "user.yml:2:11: the text is not UTF-8: save the file as UTF-8"},
		{"UTF-16", "\xff\xfe-\x00 \x00", "user.yml:1:1: the text is not UTF-8"},
		{"control characters", "- id: a\n  plugin: é\x1b[2J\n", "user.yml:2:12: the control character U+001B is not allowed"},
		{"large", many(1<<20+1, "#"), "user.yml: cannot read the configuration: it is larger than 1 MiB"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			if err := os.WriteFile("user.yml", []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := config.Compose([]config.Layer{{Kind: config.User, Path: "user.yml"}})
			var all config.Errors
			if !errors.As(err, &all) || len(all) > 51 || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %.300v, want %s", err, c.want)
			}
		})
	}
}

func TestFilesThatCannotBeRead(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("folder", 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path     string
		optional bool
		want     string
	}{
		{"missing.yml", false, "missing.yml: cannot read the configuration: no such file or directory"},
		{"missing.yml", true, ""},
		{filepath.Join("nowhere", "missing.yml"), true, ""},
		{"folder", true, "folder: cannot read the configuration: it is not a regular file"},
		{"a\x1b[2J.yml", false, `"a\x1b[2J.yml": cannot read the configuration: no such file or directory`},
	} {
		layers := []config.Layer{{Kind: config.User, Path: c.path, Optional: c.optional}}
		got, err := config.Compose(layers)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%q: %v", c.path, err)
		case c.want == "" && len(got.Layers()) != 0:
			t.Errorf("%q: it counts as there", c.path)
		case c.want != "" && err == nil:
			t.Errorf("%q: no error", c.path)
		case c.want != "" && runtime.GOOS != "windows" && err.Error() != c.want:
			t.Errorf("%q: %v, want %s", c.path, err, c.want)
		}
	}
	if _, err := config.Compose([]config.Layer{{Kind: config.Patch, Path: "missing.yml"}}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the cause is lost: %v", err)
	}
}

// A file that is written with a byte order mark and Windows line ends counts as any other.
func TestCase_o_cfg_01_byte_order_mark(t *testing.T) {
	const path = "testdata/o-cfg-01/cordis.yml"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(text), "\ufeff") || !strings.Contains(string(text), "\r\n") {
		t.Fatal("the test file lost its byte order mark or its line ends")
	}
	got, err := config.Check(config.Options{
		Layers:  []config.Layer{{Kind: config.User, Path: path}},
		Plugins: plugins(nil),
	})
	if err != nil {
		t.Fatal(err)
	}
	shown, err := got.Show()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(shown, "url: https://a.example # user\n") {
		t.Errorf("the values did not take effect:\n%s", shown)
	}
	if _, err := config.Compose([]config.Layer{{Kind: config.User, Path: path}, {Kind: config.Patch, Path: "testdata/o-cfg-01/broken.yml"}}); err == nil ||
		err.Error() != `testdata/o-cfg-01/broken.yml:1:4: server: unknown key "plugn" of a row; did you mean "plugin"?` {
		t.Errorf("the mark moves the places in errors: %v", err)
	}
}

// A link cannot take a project's reference out of the project.
func TestProjectLinks(t *testing.T) {
	outside, project := t.TempDir(), t.TempDir()
	put := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(filepath.Join(outside, "secret"), "s")
	put(filepath.Join(project, "inside"), "fine")
	for link, target := range map[string]string{"out": filepath.Join(outside, "secret"), "folder": outside, "in": "inside"} {
		if err := os.Symlink(target, filepath.Join(project, link)); err != nil {
			t.Skip("no links here: " + err.Error())
		}
	}
	for file, ok := range map[string]bool{"out": false, "folder/secret": false, "in": true, "inside": true} {
		path := filepath.Join(project, ".dsh", "cordis.yml")
		put(path, "- id: a\n  plugin: wire\n  config: {url: '${file:../"+file+"}'}\n")
		layer := config.Layer{Kind: config.Project, Path: path, Root: project, Plugins: []string{"wire"}}
		_, err := config.Check(config.Options{Layers: []config.Layer{layer}, Plugins: plugins(nil)})
		if ok != (err == nil) {
			t.Errorf("%s: error %v", file, err)
		}
		layer.Root = ""
		if _, err := config.Check(config.Options{Layers: []config.Layer{layer}, Plugins: plugins(nil)}); err == nil {
			t.Errorf("%s is read by a project without a root", file)
		}
	}
}
