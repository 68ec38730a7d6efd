package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/dsh-harness/dsh/config"
)

// A project changes rows of the plugins that are left to it. All else in it is left out, and told of with its place.
func TestAProjectChangesOnlyWhatIsLeftToIt(t *testing.T) {
	base := "- {id: a, plugin: wire, config: {url: 'http://base', retries: 1}}\n- {id: b, plugin: tools}\n- {id: c, plugin: tools}\n- {id: d, plugin: wire}\n"
	project := `- {id: a, config: {retries: 5}}
- {id: b, disabled: true}
- {id: c, plugin: wire, config: {url: 'http://evil'}}
- {id: d, plugin: tools}
- {id: e, plugin: tools}
- {id: f, plugin: wire}
- {id: b2, plugin: elsewhere}
`
	c, err := config.Compose([]config.Layer{
		{Kind: config.Profile, Name: "base", Text: base},
		{Kind: config.Project, Path: "p/.dsh/cordis.yml", Text: project, Plugins: []string{"wire"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for _, r := range c.Rows() {
		rows = append(rows, fmt.Sprintf("%s=%s/%v", r.ID, r.Plugin, r.Disabled))
	}
	if got, want := strings.Join(rows, " "), "a=wire/false b=tools/false c=tools/false d=wire/false f=wire/false"; got != want {
		t.Errorf("rows %s, want %s", got, want)
	}
	var told []string
	for _, e := range c.Ignored() {
		told = append(told, strings.SplitN(e.Error(), ": ignored", 2)[0])
	}
	want := "p/.dsh/cordis.yml:2:8: b p/.dsh/cordis.yml:3:8: c p/.dsh/cordis.yml:4:8: d p/.dsh/cordis.yml:5:8: e p/.dsh/cordis.yml:7:8: b2"
	if got := strings.Join(told, " "); got != want {
		t.Errorf("told %s\nwant %s", got, want)
	}
	if shown, err := c.Show(); err != nil || strings.Contains(shown, "evil") || !strings.Contains(shown, "retries: 5 # project") {
		t.Errorf("%s, %v", shown, err)
	}
}

// What was read and trusted is what counts, also when the file changes later.
func TestTheTextOfAProjectGoesBeforeItsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cordis.yml")
	if err := os.WriteFile(path, []byte("- {id: a, plugin: wire, config: {url: later}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Compose([]config.Layer{{Kind: config.Project, Path: path, Text: "- {id: a, plugin: wire, config: {url: trusted}}", Plugins: []string{"wire"}}})
	if err != nil {
		t.Fatal(err)
	}
	if shown, err := c.Show(); err != nil || !strings.Contains(shown, "trusted") || strings.Contains(shown, "later") {
		t.Errorf("%s, %v", shown, err)
	}
}

// Whatever a project says, the rows of other plugins are as they were without it, and there are no new ones of them.
func TestNoRowOfAProjectReachesOtherPlugins(t *testing.T) {
	base := config.Layer{Kind: config.Profile, Name: "base", Text: "- {id: a, plugin: wire}\n- {id: b, plugin: tools, required: true}\n- {id: c, plugin: tools, disabled: true}\n"}
	rapid.Check(t, func(t *rapid.T) {
		var text strings.Builder
		for _, id := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}), 1, 5, rapid.ID).Draw(t, "ids") {
			body := rapid.SampledFrom([]string{", disabled: true", ", disabled: false", ", required: false", ", config: {}", ""}).Draw(t, "body")
			named := rapid.SampledFrom([]string{"", ", plugin: wire", ", plugin: tools", ", plugin: none"}).Draw(t, "plugin")
			if (id == "d" || id == "e") && named == "" {
				named = ", plugin: wire" // a new row needs one
			}
			tag := ""
			if named != "" {
				tag = rapid.SampledFrom([]string{"", "!replace "}).Draw(t, "tag")
			}
			fmt.Fprintf(&text, "- %s{id: %s%s%s}\n", tag, id, named, body)
		}
		c, err := config.Compose([]config.Layer{base, {Kind: config.Project, Text: text.String(), Plugins: []string{"wire"}}})
		if err != nil {
			t.Fatalf("%v in\n%s", err, text.String())
		}
		var others []string
		for _, r := range c.Rows() {
			if r.Plugin != "wire" {
				others = append(others, fmt.Sprintf("%s %s %v %v %s", r.ID, r.Plugin, r.Disabled, r.Required, r.Layer))
			}
		}
		if got, want := strings.Join(others, " "), "b tools false true profile base c tools true false profile base"; got != want {
			t.Fatalf("other rows are %s, want %s, after\n%s", got, want, text.String())
		}
	})
}
