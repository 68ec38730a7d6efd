// Package spill keeps results of tools that are too large for the model out of the
// conversation and out of the log: the model gets the head and the tail, the whole goes
// to a file that it can read in parts. It is the plugin "tool-spill":
//
//	# cordis.yml
//	- id: tool-spill
//	  plugin: tool-spill
//	  config:
//	    limit: 49152     # bytes of text that a result may have
//
// The file lies in the folder spill of the session, or in the workspace's temporary
// folder when nothing keeps the session. Nobody but the user can read it, and nothing
// deletes it before the session. The listener runs on the goroutines of agents.
package spill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/tool"
	"github.com/dsh-harness/dsh/workspace"
)

// Plugin bounds the results of all tools.
var Plugin = plugin.Plugin[Config]{
	Name:    "tool-spill",
	Doc:     "Bounds the results of tools: what is too large goes to a file, and the model gets its head and tail.",
	Default: func() Config { return Config{Limit: 48 << 10} },
	Start: func(_ context.Context, s *plugin.Scope, c Config) error {
		_, err := tool.PostExecute.On(s, c.listen, plugin.At(tool.Spill))
		return err
	},
}

// Config is the configuration of the plugin.
type Config struct {
	Limit int `json:"limit" doc:"how many bytes of text a result may have, at least 1024"`
}

// Validate reports the first thing that is wrong.
func (c *Config) Validate() error {
	if c.Limit < 1024 || c.Limit > 8<<20 {
		return fmt.Errorf("limit: %d is not between 1024 and %d bytes", c.Limit, 8<<20)
	}
	return nil
}

// maxMeta bounds what a result tells surfaces, in bytes of JSON.
const maxMeta = 256 << 10

func (c Config) listen(ctx context.Context, p *tool.Prepared, next plugin.Next[*tool.Prepared, tool.Result]) (tool.Result, error) {
	result, err := next(ctx, p)
	if err != nil {
		return result, err
	}
	c.boundText(p.Call, &result)
	boundMeta(&result)
	return result, nil
}

// boundText replaces the text of a result that is too large.
func (c Config) boundText(call *tool.Call, result *tool.Result) {
	size := 0
	for _, b := range result.Content {
		size += len(b.Text)
	}
	if size <= c.Limit {
		return
	}
	whole := llm.PlainText(result.Content)
	file, err := save(call, whole)
	where := fmt.Sprintf("the whole of %d bytes is in %s; read that in parts, or search in it", len(whole), file)
	if err != nil {
		where = fmt.Sprintf("the whole of %d bytes could not be kept: %v", len(whole), err)
	}
	others := slices.DeleteFunc(slices.Clone(result.Content), func(b llm.Block) bool { return b.Type == llm.BlockText })
	result.Content = append([]llm.Block{llm.Text(shorten(whole, c.Limit, where))}, others...)
}

// shorten keeps the head and the tail of a text that is longer than limit, and a
// notice between them, in limit bytes, or what the notice needs.
func shorten(whole string, limit int, where string) string {
	notice := func(left int) string {
		return fmt.Sprintf("\n\n[… %d bytes are left out here; %s …]\n\n", left, where)
	}
	keep := max(limit-len(notice(len(whole))), 0)
	head := cut(whole, keep/2)
	tail := whole[len(whole)-(keep-keep/2):]
	for tail != "" && !utf8.RuneStart(tail[0]) {
		tail = tail[1:]
	}
	return head + notice(len(whole)-len(head)-len(tail)) + tail
}

// cut returns at most n bytes of s, and ends where a letter begins.
func cut(s string, n int) string {
	for n > 0 && n < len(s) && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// boundMeta drops what is too large for the log from what a result tells surfaces.
func boundMeta(result *tool.Result) {
	if result.Meta == nil {
		return
	}
	meta, err := json.Marshal(result.Meta)
	switch {
	case err != nil: // the registry says so
	case len(meta) > maxMeta:
		result.Meta = json.RawMessage(fmt.Sprintf(`{"omitted":%d}`, len(meta)))
	default:
		result.Meta = json.RawMessage(meta)
	}
}

// save writes a text to a new file and returns its path.
func save(c *tool.Call, text string) (string, error) {
	if c.Session != nil && c.Session.Dir() != "" {
		dir := filepath.Join(c.Session.Dir(), "spill")
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", err
		}
		return unused(dir, c, func(path string) error { return writeNew(path, text) })
	}
	if c.Workspace != nil {
		return unused(c.Workspace.Temp(), c, func(path string) error {
			return c.Workspace.FS().WriteFile(path, []byte(text), workspace.WriteOptions{Mode: 0o600, MustBeNew: true})
		})
	}
	return "", errors.New("there is no session and no workspace to keep it in")
}

// unused calls write with names for the result of c until one is not taken.
func unused(dir string, c *tool.Call, write func(path string) error) (string, error) {
	const tries = 100
	for i := range tries {
		name := fileName(c)
		if i > 0 {
			name = fmt.Sprintf("%s-%d", name, i+1)
		}
		path := filepath.Join(dir, name+".txt")
		if err := write(path); !errors.Is(err, fs.ErrExist) {
			return path, err
		}
	}
	return "", fmt.Errorf("%s holds %d files of this call already", dir, tries)
}

// fileName is the call's id and tool, without what a file's name cannot hold.
func fileName(c *tool.Call) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '-'
	}, c.ID+"-"+c.Name)
	return name[:min(len(name), 100)]
}

// writeNew creates a file that was not there; a link in its place is not followed.
func writeNew(path, text string) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = f.WriteString(text)
	return err
}
