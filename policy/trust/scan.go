package trust

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/dsh-harness/dsh/internal/below"
)

const (
	hashSize      = sha256.Size
	maxDefinition = 1 << 20  // bytes of one definition
	maxWords      = 4096     // words of one definition that may name files
	maxScripts    = 64       // files that one definition runs
	maxScript     = 16 << 20 // bytes of one of them
)

// Folder is what a folder brings to execution.
type Folder struct {
	Dir string // absolute, without links
	// Definitions are those that are there, in a fixed order; none when the folder brings nothing.
	Definitions []Definition
	// Hash names exactly this set, in hexadecimal; "" without a definition that can be trusted. It does not depend on
	// where the folder is.
	Hash string
}

// Definition is one file that says what is composed, allowed or run in a folder.
type Definition struct {
	Path    string // relative to the folder, with slashes
	Does    string // what it is for, in a few words
	Content []byte
	// Scripts are the files of the folder that its hooks run, relative to the folder: they belong to it.
	Scripts []string
	Hash    string // over the path, the content, and the scripts, in hexadecimal
	// Problem says why it cannot be trusted as it is, such as that it is a link that leads out; "" when it can. It
	// has no hash then.
	Problem string
}

// kind is a definition that folders may have.
type kind struct {
	path, does string
	brings     func(content []byte) bool // whether it says anything that counts
	hooks      bool
}

// kinds are all definitions that something in the harness uses, in the order in which they are shown.
func kinds() []kind {
	return []kind{
		{".dsh/cordis.yml", "rows of the composition", bringsYAML, false},
		{".dsh/permissions.yml", "rules of what may happen", bringsYAML, false},
		{".dsh/hooks.json", "commands that run at each turn or call", bringsHooks, true},
		{".claude/settings.json", "commands that run at each turn or call, and rules of what may happen", bringsSettings, true},
		{".claude/settings.local.json", "commands that run at each turn or call, and rules of what may happen", bringsSettings, true},
		{".codex/hooks.json", "commands that run at each turn or call", bringsHooks, true},
	}
}

func kindOf(path string) (kind, bool) {
	for _, k := range kinds() {
		if k.path == path {
			return k, true
		}
	}
	return kind{}, false
}

// Scan finds what the folder dir brings to execution. It reads files and does nothing else: it starts no process,
// writes nothing, and follows no link out of the folder. It fails when the folder cannot be opened, and when ctx ends.
func Scan(ctx context.Context, dir string) (Folder, error) {
	real, err := realPath(dir)
	if err != nil {
		return Folder{}, err
	}
	f := Folder{Dir: real}
	h := sha256.New()
	usable := false
	for _, k := range kinds() {
		d, err := scanOne(ctx, real, k)
		if err != nil {
			return Folder{}, err
		}
		if d == nil {
			continue
		}
		f.Definitions = append(f.Definitions, *d)
		if d.Problem == "" {
			usable = true
			put(h, []byte(d.Path), []byte(d.Hash))
		}
	}
	if usable {
		f.Hash = hex.EncodeToString(h.Sum(nil))
	}
	return f, nil
}

// scanOne returns one definition, nil when the folder has none of that kind or it says nothing.
func scanOne(ctx context.Context, dir string, k kind) (*Definition, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, fmt.Errorf("find out what %s brings along: %w", dir, err)
	}
	root, err := below.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("find out what %s brings along: %w", dir, err)
	}
	defer func() { _ = root.Close() }() // only read from
	content, size, err := root.Read(filepath.FromSlash(k.path), maxDefinition)
	d := &Definition{Path: k.path, Does: k.does, Content: content}
	switch {
	case missing(err):
		return nil, nil
	case err != nil:
		d.Problem = err.Error()
		return d, nil
	case size > int64(len(content)):
		d.Problem, d.Content = fmt.Sprintf("it is larger than %d bytes", maxDefinition), nil
		return d, nil
	case !k.brings(bytes.TrimPrefix(content, []byte("\ufeff"))):
		return nil, nil
	}
	h := sha256.New()
	put(h, []byte(k.path), content)
	if k.hooks {
		named := words(dir, content)
		if len(named) > maxWords {
			d.Problem = fmt.Sprintf("it has more than %d words that may be files", maxWords)
			return d, nil
		}
		if err := d.addScripts(h, root, named); err != nil {
			d.Problem = err.Error()
			return d, nil
		}
	}
	d.Hash = hex.EncodeToString(h.Sum(nil))
	return d, nil
}

// addScripts hashes the files that hooks run: those that can be executed, that a program in front of them runs, or that are
// scripts by name. Other files that they name, such as a log, may change. What is not there is no such file, so one that appears later changes the hash.
func (d *Definition) addScripts(h hash.Hash, root *below.Root, named []word) error {
	for _, w := range named {
		name := filepath.FromSlash(w.name)
		info, err := root.Stat(name)
		switch {
		case missing(err), err == nil && info.IsDir():
			continue
		case err != nil:
			return fmt.Errorf("its hooks name %q: %w", w.name, err)
		case !w.runs && info.Mode().Perm()&0o111 == 0:
			continue
		}
		one := sha256.New()
		if _, err := root.Copy(one, name, maxScript); err != nil {
			return fmt.Errorf("its hooks run %q: %w", w.name, err)
		}
		if d.Scripts = append(d.Scripts, w.name); len(d.Scripts) > maxScripts {
			return fmt.Errorf("its hooks run more than %d files", maxScripts)
		}
		put(h, []byte(w.name), one.Sum(nil))
	}
	return nil
}

// missing reports whether there is nothing at a name, nor could be as long as the folder stays as it is.
func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// put hashes texts so that no others hash alike: each behind its length.
func put(h hash.Hash, texts ...[]byte) {
	for _, text := range texts {
		var n [8]byte
		binary.LittleEndian.PutUint64(n[:], uint64(len(text)))
		h.Write(n[:])
		h.Write(text)
	}
}

// bringsYAML reports whether a text holds more than comments.
func bringsYAML(content []byte) bool {
	for line := range bytes.Lines(content) {
		line = bytes.TrimSpace(line)
		if len(line) > 0 && line[0] != '#' && !bytes.Equal(line, []byte("---")) && !bytes.Equal(line, []byte("[]")) && !bytes.Equal(line, []byte("{}")) {
			return true
		}
	}
	return false
}

// bringsHooks reports whether a file that is for hooks alone holds anything. What is not understood counts.
func bringsHooks(content []byte) bool {
	if len(bytes.TrimSpace(content)) == 0 {
		return false
	}
	var file map[string]json.RawMessage
	if json.Unmarshal(content, &file) != nil {
		return true
	}
	for _, value := range file { // the member "hooks", or one for each occasion
		if value = bytes.TrimSpace(value); says(value) && (value[0] == '[' || value[0] == '{') {
			return true
		}
	}
	return false
}

// bringsSettings reports whether settings hold hooks or rules: the other settings are not used. What is not understood counts.
func bringsSettings(content []byte) bool {
	if len(bytes.TrimSpace(content)) == 0 {
		return false
	}
	var file struct {
		Hooks       json.RawMessage `json:"hooks"`
		Permissions json.RawMessage `json:"permissions"`
	}
	if json.Unmarshal(content, &file) != nil || says(file.Hooks) {
		return true
	}
	var rules struct {
		Allow json.RawMessage `json:"allow"`
		Ask   json.RawMessage `json:"ask"`
		Deny  json.RawMessage `json:"deny"`
	}
	if file.Permissions == nil {
		return false
	}
	return json.Unmarshal(file.Permissions, &rules) != nil || says(rules.Allow) || says(rules.Ask) || says(rules.Deny)
}

// says reports whether a JSON value is more than nothing.
func says(value json.RawMessage) bool {
	var b bytes.Buffer
	if json.Compact(&b, value) != nil {
		return len(value) > 0
	}
	switch b.String() {
	case "null", "{}", "[]", `""`:
		return false
	}
	return true
}

// word is a word of a hook that may be a file of the folder.
type word struct {
	name string
	runs bool // by its extension, or by the program before it
}

// words returns the words of hooks that may be files of the folder dir, without doubles and in order.
func words(dir string, content []byte) []word {
	var value any
	if json.Unmarshal(bytes.TrimPrefix(content, []byte("\ufeff")), &value) != nil {
		return nil
	}
	runs := map[string]bool{}
	look := func(line []string) {
		program := ""
		for _, text := range line {
			if name := inFolder(dir, text); name != "" {
				runs[name] = runs[name] || interprets(program) || isScript(name)
			}
			if text != "" && text[0] != '-' && text[0] != '$' { // an option or a folder may stand between a program and its script
				program = path.Base(filepath.ToSlash(text))
			}
		}
	}
	var walk func(value any)
	walk = func(value any) {
		switch v := value.(type) {
		case string:
			look(strings.FieldsFunc(v, separates))
		case []any:
			var line []string
			for _, item := range v {
				text, isText := item.(string)
				if isText {
					line = append(line, text)
				}
				walk(item)
			}
			look(line)
		case map[string]any:
			for _, item := range v {
				walk(item)
			}
			// A program and its arguments.
			if program, ok := v["command"].(string); ok {
				line := []string{program}
				args, _ := v["args"].([]any) // none is none
				for _, arg := range args {
					if text, ok := arg.(string); ok {
						line = append(line, text)
					}
				}
				look(line)
			}
		}
	}
	walk(value)
	all := make([]word, 0, len(runs))
	for _, name := range slices.Sorted(maps.Keys(runs)) {
		all = append(all, word{name, runs[name]})
	}
	return all
}

// interprets reports whether a program runs the file that is named behind it.
func interprets(program string) bool {
	program = strings.TrimRight(strings.TrimSuffix(program, ".exe"), "0123456789.")
	switch program {
	case "sh", "bash", "dash", "zsh", "ksh", "fish", "source", "python", "pypy", "uv", "run", "node", "deno", "bun", "tsx", "ruby", "perl", "php", "lua",
		"pwsh", "powershell", "make", "just", "task", "java", "Rscript", "awk", "exec", "env":
		return true
	}
	return program == "" // nothing is in front of it, or "." is
}

// isScript reports whether a file is run by its name.
func isScript(name string) bool {
	switch strings.ToLower(path.Ext(name)) {
	case ".sh", ".bash", ".zsh", ".fish", ".py", ".js", ".mjs", ".cjs", ".ts", ".mts", ".rb", ".pl", ".php", ".lua", ".ps1", ".bat", ".cmd", ".exe", ".jar", ".awk":
		return true
	}
	return false
}

// separates reports whether a shell takes r for the end of a word, or for its quoting.
func separates(r rune) bool { return strings.ContainsRune(" \t\r\n;|&<>()=\"'`", r) }

// inFolder returns the path in the folder that a word means, "" when it can be none.
func inFolder(dir, word string) string {
	for _, variable := range []string{"$CLAUDE_PROJECT_DIR", "${CLAUDE_PROJECT_DIR}", "$PWD", "${PWD}"} {
		if rest, ok := strings.CutPrefix(word, variable); ok {
			word = "." + rest
			break
		}
	}
	// What follows "$CLAUDE_PROJECT_DIR" in quotes begins with a slash, and so does an absolute path.
	if filepath.IsAbs(word) {
		if rel, err := filepath.Rel(dir, word); err == nil && filepath.IsLocal(rel) {
			word = rel
		} else {
			word = strings.TrimLeft(word, `/\`)
		}
	}
	if strings.ContainsRune(word, 0) || len(word) > 1000 {
		return ""
	}
	word = filepath.Clean(filepath.FromSlash(word))
	if word == "." || !filepath.IsLocal(word) {
		return ""
	}
	return filepath.ToSlash(word)
}
