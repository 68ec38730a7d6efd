package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/dsh-harness/dsh"
	"github.com/dsh-harness/dsh/config"
	"github.com/dsh-harness/dsh/internal/home"
	"github.com/dsh-harness/dsh/internal/nearest"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/profiles"
)

// composition holds the flags that say what is composed, and where.
type composition struct {
	dir     string
	profile string
	patches []string
	sets    []string

	accept string // the hash of what the folder may bring along in this run
	asks   bool   // a person at the terminal may be asked whether to trust the folder
	told   bool   // which files are not used was said
	warned bool   // which rows are not used was said
}

func (c *composition) register(flags *pflag.FlagSet) {
	flags.StringVarP(&c.dir, "cd", "C", "", "work in this `folder` instead of the current one")
	flags.StringVar(&c.profile, "profile", "", "start from this shipped composition: `name` of "+strings.Join(profiles.Names(), ", "))
	flags.StringArrayVar(&c.patches, "patch", nil, "lay the rows of this `file` over the configuration; may be repeated")
	flags.StringArrayVar(&c.sets, "set", nil, "set one value, `id.key=value`; may be repeated")
}

// get returns an environment variable; a blank one counts as unset.
func (p *program) get(name string) string {
	value, _ := p.lookup(name)
	return strings.TrimSpace(value)
}

// home returns the folders of the user.
func (p *program) home() (home.Dirs, error) { return home.Find(p.get) }

// options returns what to compose, and says on standard error what is left out.
func (c *composition) options(p *program) (dsh.Options, error) {
	dirs, err := p.home()
	if err != nil {
		return dsh.Options{}, err
	}
	o := dsh.Options{
		Profile: c.profile,
		Plugins: p.plugins,
		Lookup:  p.lookup,
		Layers:  []config.Layer{{Kind: config.User, Path: filepath.Join(dirs.Config, "cordis.yml"), Optional: true}},
		Set:     c.sets,
	}
	if o.Profile == "" {
		o.Profile = p.get("DSH_PROFILE")
	}
	if o.Agent.Dir, err = c.folder(); err != nil {
		return dsh.Options{}, err
	}
	project, patched := filepath.Join(o.Agent.Dir, filepath.FromSlash(projectFile)), false
	var patches []config.Layer
	for _, path := range c.patches {
		full, err := filepath.Abs(path)
		if err != nil {
			return dsh.Options{}, fmt.Errorf("find the patch %s: %w", path, err)
		}
		patched = patched || full == project
		patches = append(patches, config.Layer{Kind: config.Patch, Path: full})
	}
	if err := c.bring(p, dirs.State, &o, patched); err != nil {
		return dsh.Options{}, err
	}
	o.Layers = append(o.Layers, patches...)
	return o, c.tellIgnored(p, o)
}

// tellIgnored says which rows of the folder's layer are left out. What is wrong with the layers is told by who composes them.
func (c *composition) tellIgnored(p *program, o dsh.Options) error {
	if c.warned || !slices.ContainsFunc(o.Layers, func(l config.Layer) bool { return l.Kind == config.Project }) {
		return nil
	}
	c.warned = true
	configuration, err := o.Configuration()
	if err != nil {
		return err
	}
	if composed, err := config.Compose(configuration.Layers); err == nil {
		for _, e := range composed.Ignored() {
			p.note("%s", plain(e.Error()))
		}
	}
	return nil
}

// folder is the absolute folder to work in.
func (c *composition) folder() (string, error) {
	dir, err := filepath.Abs(c.dir)
	if err != nil {
		return "", fmt.Errorf("find the folder to work in: %w", err)
	}
	info, err := os.Stat(dir)
	if cause := (*fs.PathError)(nil); errors.As(err, &cause) {
		return "", fmt.Errorf("work in %s: %w", dir, cause.Err)
	}
	if err == nil && !info.IsDir() {
		return "", fmt.Errorf("work in %s: it is not a folder", dir)
	}
	return dir, err
}

// folders are the absolute names of folders that are there.
func folders(dirs []string) ([]string, error) {
	var all []string
	for _, dir := range dirs {
		full, err := (&composition{dir: dir}).folder()
		if err != nil {
			return nil, fmt.Errorf("--add-dir: %w", err)
		}
		all = append(all, full)
	}
	return all, nil
}

// compose reads the configuration without starting anything.
func (c *composition) compose(p *program) (dsh.Options, *config.Composition, error) {
	o, err := c.options(p)
	if err != nil {
		return o, nil, err
	}
	configuration, err := o.Configuration()
	if err != nil {
		return o, nil, err
	}
	composed, err := config.Compose(configuration.Layers)
	return o, composed, err
}

// start starts the composition without an agent. What is not required and fails is said.
func (p *program) start(ctx context.Context, o dsh.Options) (*dsh.Harness, error) {
	h, err := dsh.New(ctx, o)
	if err != nil {
		return nil, err
	}
	for _, row := range h.Started().Rows {
		switch row.Outcome {
		case plugin.RowFailed, plugin.RowPending:
			p.note("%s; the rest runs", plain(row.String()))
		case plugin.RowKept, plugin.RowStarted, plugin.RowRestarted, plugin.RowReconfigured, plugin.RowStopped, plugin.RowDisabled:
		}
	}
	return h, nil
}

// within starts the composition, calls use, and stops it again.
func (p *program) within(ctx context.Context, c *composition, use func(context.Context, *dsh.Harness) error) error {
	o, err := c.options(p)
	if err != nil {
		return err
	}
	h, err := p.start(ctx, o)
	if err != nil {
		return err
	}
	err = use(ctx, h)
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), plugin.CleanupTimeout)
	defer cancel()
	return errors.Join(err, failed(h.Close(bounded)))
}

// oneOf returns an error that names what is known, and what was meant, when word is not known.
func oneOf(what, word string, known []string) error {
	for _, k := range known {
		if word == k {
			return nil
		}
	}
	if near := nearest.Name(word, known); near != "" {
		return fmt.Errorf("unknown %s %q: did you mean %q?", what, plain(word), near)
	}
	return fmt.Errorf("unknown %s %q: expected one of %s", what, plain(word), strings.Join(known, ", "))
}
