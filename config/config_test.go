package config_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dsh-harness/dsh/config"
	"github.com/dsh-harness/dsh/plugin"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// wire is a config type with each kind of field.
type wire struct {
	common
	URL      string            `json:"url" doc:"Where the server is."`
	Timeout  time.Duration     `json:"timeout" doc:"How long to wait."`
	Retries  int               `json:"retries"`
	Port     uint16            `json:"port"`
	Ratio    float64           `json:"ratio"`
	Verbose  bool              `json:"verbose"`
	Level    level             `json:"level" doc:"One of low | high."`
	Headers  map[string]string `json:"headers" doc:"Sent with each request."`
	Stop     []string          `json:"stop"`
	Models   []model           `json:"models"`
	Servers  map[string]model  `json:"servers"`
	Fallback *model            `json:"fallback"`
	Extra    any               `json:"extra"`
	When     time.Time         `json:"when"`
	Plain    string
	Small    int8 `json:"small"`
	hidden   int
	Callback func() `json:"callback"`
	Skipped  string `json:"-"`
}

type common struct {
	Tags  []string          `json:"tags"`
	Waits []backoff         `json:"waits"`
	Grid  map[string][]bool `json:"grid"`
}

type backoff struct {
	First time.Duration `json:"first" doc:"Before the second attempt."`
	Any   []any         `json:"any"`
}

type model struct {
	Name   string `json:"name" doc:"As the server calls it."`
	Window int64  `json:"window"`
	Price  price  `json:"price"`
}

func (m *model) Validate() error {
	if strings.HasPrefix(m.Name, "no ") {
		return fmt.Errorf("name: there is %s", m.Name)
	}
	return nil
}

type price struct {
	In  float32 `json:"in"`
	Out float32 `json:"out"`
}

type level int

func (l *level) UnmarshalText(b []byte) error {
	switch string(b) {
	case "low":
		*l = 1
	case "high":
		*l = 2
	default:
		return fmt.Errorf("unknown level %q: expected low or high", b)
	}
	return nil
}

func (l level) MarshalText() ([]byte, error) {
	return []byte([]string{"", "low", "high"}[l]), nil
}

func (w *wire) Validate() error {
	if w.Retries < 0 {
		return errors.New("retries: must not be negative")
	}
	if strings.Contains(w.URL, " ") {
		return fmt.Errorf("url: %q has a space", w.URL)
	}
	return nil
}

// service is a need without a provider, to be told of in documents.
var service = plugin.NewKey[string]("llm")

// plugins returns the definitions that the tests compose. seen, if not nil, receives the config of
// each started wire.
func plugins(seen func(wire)) []plugin.Definition {
	return []plugin.Definition{
		plugin.Plugin[wire]{
			Name:  "wire",
			Doc:   "Talks to a model server.",
			Needs: []plugin.Need{service.Optional()},
			Default: func() wire {
				return wire{common: common{Waits: []backoff{{First: 90 * time.Second}}}, Timeout: 2 * time.Minute, Level: 1, Headers: map[string]string{"accept": "json"}, Stop: []string{"END"}, Fallback: &model{Name: "small", Window: 8}}
			},
			Start: func(_ context.Context, _ *plugin.Scope, c wire) error {
				if seen != nil {
					seen(c)
				}
				return nil
			},
		}.Definition(),
		plugin.Plugin[struct{}]{
			Name:  "tools",
			Doc:   "Holds the tools.",
			Start: func(context.Context, *plugin.Scope, struct{}) error { return nil },
		}.Definition(),
	}
}

// TestCompose runs the archives in testdata/compose: the layers, in the order of kinds, and what
// must come of them.
func TestCompose(t *testing.T) {
	folder, err := filepath.Abs("testdata/compose") // because composing changes the working folder
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatal("no archives")
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			archive := parseArchive(string(text))
			got := composeArchive(t, archive)
			if *update {
				keep := archive.members[:0]
				for _, f := range archive.members {
					if !strings.HasPrefix(f.name, "want/") {
						keep = append(keep, f)
					}
				}
				archive.members = append(keep, got...)
				if err := os.WriteFile(file, []byte(archive.String()), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			var want []member
			for _, f := range archive.members {
				if strings.HasPrefix(f.name, "want/") {
					want = append(want, f)
				}
			}
			if d := cmp.Diff(texts(want), texts(got)); d != "" {
				t.Error(d)
			}
		})
	}
}

// An archive is a comment and named texts, each after a line "-- name --".
type archive struct {
	comment string
	members []member
}

type member struct{ name, data string }

func parseArchive(text string) (a archive) {
	for line := range strings.Lines(text) {
		name, begins := strings.CutPrefix(strings.TrimSpace(line), "-- ")
		name, ends := strings.CutSuffix(name, " --")
		switch {
		case begins && ends:
			a.members = append(a.members, member{name: name})
		case len(a.members) == 0:
			a.comment += line
		default:
			a.members[len(a.members)-1].data += line
		}
	}
	return a
}

func (a archive) String() string {
	s := a.comment
	for _, m := range a.members {
		s += "-- " + m.name + " --\n" + m.data
	}
	return s
}

func texts(files []member) map[string]string {
	m := map[string]string{}
	for _, f := range files {
		m[f.name] = f.data
	}
	return m
}

// composeArchive writes an archive's files to a folder, composes them there and returns what came
// of it.
func composeArchive(t *testing.T, a archive) []member {
	t.Chdir(t.TempDir())
	var layers []config.Layer
	environment := map[string]string{}
	var allowed []string
	for _, f := range a.members {
		kind, _, _ := strings.Cut(strings.TrimSuffix(f.name, ".yml"), "-")
		switch {
		case strings.HasPrefix(f.name, "want/"):
			continue
		case f.name == "env":
			for line := range strings.Lines(f.data) {
				name, v, _ := strings.Cut(strings.TrimSpace(line), "=")
				environment[name] = v
			}
			continue
		case f.name == "allow":
			allowed = strings.Fields(f.data)
			continue
		case f.name == "set":
			for line := range strings.Lines(f.data) {
				layers = append(layers, config.Layer{Kind: config.Set, Text: strings.TrimSuffix(line, "\n")})
			}
			continue
		case kind == "profile":
			layers = append(layers, config.Layer{Kind: config.Profile, Name: "base", Text: f.data})
			continue
		case kind == "user":
			layers = append(layers, config.Layer{Kind: config.User, Path: f.name})
		case kind == "patch":
			layers = append(layers, config.Layer{Kind: config.Patch, Path: f.name})
		case f.name == "project/.dsh/cordis.yml":
			root, err := filepath.Abs("project")
			if err != nil {
				t.Fatal(err)
			}
			layers = append(layers, config.Layer{Kind: config.Project, Path: filepath.Join(root, ".dsh", "cordis.yml"), Root: root, Plugins: []string{"wire"}})
		}
		if err := os.MkdirAll(filepath.Dir(f.name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(f.name, []byte(f.data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile("binary", []byte{0xff}, 0o600); err != nil {
		t.Fatal(err)
	}
	folder, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	anonymous := func(s string) string { return strings.ReplaceAll(s, folder, "/tmp") + "\n" }
	c, err := config.Compose(layers)
	if err != nil {
		return []member{{name: "want/error", data: anonymous(err.Error())}}
	}
	shown, err := c.Show()
	if err != nil {
		t.Fatal(err)
	}
	got := []member{{name: "want/show", data: shown}}
	var started []wire
	rows, err := c.Prepare(plugins(func(w wire) { started = append(started, w) }), config.Environment{
		Lookup:  func(name string) (string, bool) { v, ok := environment[name]; return v, ok },
		Project: allowed,
	})
	if err != nil {
		return append(got, member{name: "want/error", data: anonymous(err.Error())})
	}
	for _, row := range rows { // one by one, because nothing says in which order rows of one batch start
		tree := plugin.New(nil)
		if _, err := plugin.NewLoader(tree.Root()).Apply(t.Context(), []plugin.Row{row}); err != nil {
			t.Fatal(err)
		}
		if err := tree.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := config.Check(config.Options{Layers: layers, Plugins: plugins(nil), Environment: config.Environment{
		Lookup:  func(name string) (string, bool) { v, ok := environment[name]; return v, ok },
		Project: allowed,
	}}); err != nil {
		t.Errorf("Check: %v", err)
	}
	var b strings.Builder
	for _, w := range started {
		fmt.Fprintf(&b, "%s\n", describe(w))
	}
	if b.Len() > 0 {
		got = append(got, member{name: "want/started", data: anonymous(strings.TrimSuffix(b.String(), "\n"))})
	}
	return got
}

// describe prints the fields that differ from the zero value.
func describe(w wire) string {
	var b strings.Builder
	add := func(name string, v any, zero bool) {
		if !zero {
			fmt.Fprintf(&b, "%s %v\n", name, v)
		}
	}
	add("tags", w.Tags, w.Tags == nil)
	add("waits", fmt.Sprintf("%+v", w.Waits), len(w.Waits) == 1 && w.Waits[0].First == 90*time.Second)
	add("hidden", w.hidden, w.hidden == 0)
	add("url", fmt.Sprintf("%q", w.URL), w.URL == "")
	add("timeout", w.Timeout, w.Timeout == 0)
	add("retries", w.Retries, w.Retries == 0)
	add("port", w.Port, w.Port == 0)
	add("plain", w.Plain, w.Plain == "")
	add("small", w.Small, w.Small == 0)
	add("ratio", w.Ratio, w.Ratio == 0)
	add("verbose", w.Verbose, !w.Verbose)
	add("level", int(w.Level), w.Level == 0)
	add("headers", fmt.Sprintf("%q", w.Headers), w.Headers == nil)
	add("stop", fmt.Sprintf("%q", w.Stop), w.Stop == nil)
	add("models", fmt.Sprintf("%+v", w.Models), w.Models == nil)
	add("servers", fmt.Sprintf("%+v", w.Servers), w.Servers == nil)
	if w.Fallback != nil {
		add("fallback", fmt.Sprintf("%+v", *w.Fallback), false)
	}
	add("extra", fmt.Sprintf("%#v", w.Extra), w.Extra == nil)
	add("when", w.When.Format(time.RFC3339), w.When.IsZero())
	return b.String()
}
