//go:build unix

package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/dsh-harness/dsh/workspace"
	"github.com/dsh-harness/dsh/workspace/sandbox"
)

// confined is how one command is confined, and what has to be done after it.
type confined struct {
	level   workspace.SandboxLevel
	spec    *sandbox.Spec // nil for a command that is not
	network workspace.Network
	env     []string
	limits  sandbox.Limits
	cgroups cgroups
	dir     string

	watched []watched
	bare    []string // roots that had no repository
	undo    []func()
}

// launcher is what the workspaces of a provider share: what this machine can do, and the caches.
type launcher struct {
	limits  LimitConfig
	caches  caches
	machine func() found
}

func newLauncher(c Config) *launcher {
	l := &launcher{limits: c.Limits, caches: newCaches(c.Caches)}
	l.machine = findOut(try, l.caches.trialLayer)
	return l
}

// Sandbox implements [workspace.Workspace].
func (l *launcher) Sandbox() (workspace.SandboxLevel, string) {
	f := l.machine()
	return f.level, f.why
}

// confine asks what the command may touch and prepares that.
func (w *local) confine(ctx context.Context, dir string, c workspace.Command) (*confined, error) {
	base := &workspace.Confinement{Session: w.session, Dir: w.files.dir, Command: c, Write: w.Roots()}
	conf, err := workspace.Confining.Run(ctx, w.scope, base, func(_ context.Context, conf *workspace.Confinement) (*workspace.Confinement, error) {
		return conf, nil
	})
	if err != nil {
		return nil, fmt.Errorf("find out what it may touch: %w", err)
	}
	made := &confined{level: workspace.SandboxNone, dir: dir}
	if conf.Unconfined != "" {
		return made, nil
	}
	found := w.launcher.machine()
	if found.level == workspace.SandboxNone {
		return made, nil // the policy has asked about it
	}
	made.level = found.level
	if found.by.Level == workspace.SandboxFull && hidden(dir, conf.Write) {
		return nil, fmt.Errorf("%w for a confined command, which has temporary folders of its own: %s; run in the folder of the session", workspace.ErrNoFolder, dir)
	}
	if err := made.prepare(w, conf, found); err != nil {
		made.release()
		return nil, fmt.Errorf("%w: %w", workspace.ErrSandbox, err)
	}
	return made, nil
}

// hidden reports whether a full sandbox shows something else at a path.
func hidden(path string, shown []string) bool {
	lies := func(dirs []string) bool {
		return slices.ContainsFunc(dirs, func(dir string) bool { return within(dir, path) })
	}
	return lies([]string{"/tmp", "/var/tmp", "/run", "/dev"}) && !lies(shown)
}

func (m *confined) prepare(w *local, conf *workspace.Confinement, found found) error {
	if slices.Contains(conf.Write, "/") {
		return errors.New("the root of the file system is a folder of the session, so that nothing would be confined; work in a folder below it")
	}
	git := findGit(w.files.roots)
	if !slices.Contains(conf.Write, w.files.dir) || slices.Contains(conf.Protect, w.files.dir) {
		git.write = nil // whoever may not change the folder may not commit either
	}
	full := found.by.Level == workspace.SandboxFull
	m.spec = &sandbox.Spec{
		Level: found.by.Level, WithoutLandlock: found.by.WithoutLandlock, Dir: m.dir,
		Write: slices.Concat(conf.Write, git.write), Mask: conf.Mask, Limits: w.launcher.limits.limits(machineMemory()),
	}
	if full {
		m.spec.Mask = slices.Concat(m.spec.Mask, socketsOutside(m.spec.Write))
	} else { // without mounts nothing is protected below what can be written
		m.spec.Write = slices.DeleteFunc(m.spec.Write, func(p string) bool { return slices.Contains(conf.Protect, p) })
	}
	if err := m.spec.Check(); err != nil {
		return err
	}
	for _, path := range slices.Concat(conf.Protect, conf.Reserve) {
		if !filepath.IsAbs(path) {
			return fmt.Errorf("%q is no absolute path", path)
		}
	}
	granted := slices.DeleteFunc(slices.Clone(conf.Write), func(p string) bool { return slices.Contains(w.files.roots, p) })
	for _, root := range git.none {
		if !slices.ContainsFunc(granted, func(p string) bool { return within(root, p) }) {
			m.bare = append(m.bare, root)
		}
	}
	protect := slices.Concat(without(git.protect, granted), conf.Protect)
	reserve := slices.Concat(without(git.reserve, granted), conf.Reserve)
	if full {
		release, err := reserveAll(reserve, w.files.roots)
		m.undo = append(m.undo, release)
		if err != nil {
			return err
		}
	}
	for _, path := range slices.Concat(protect, reserve) {
		seen := look(path)
		m.watched = append(m.watched, seen)
		if real, ok := seen.bindable(); ok && full {
			m.spec.Protect = append(m.spec.Protect, real)
		}
	}
	caches, release, err := w.launcher.caches.use(m.spec.Level, found.layers)
	if err != nil {
		return err
	}
	m.undo = append(m.undo, release)
	m.spec.Layers, m.env = caches.layers, caches.env
	if len(m.spec.Layers) == 0 {
		m.env = append(m.env, cachesIn(w.temp)...)
	}
	if conf.Network != nil && full {
		m.network, m.spec.ProxyPort = conf.Network, proxyPort
		m.env = append(m.env, proxyEnv()...)
	}
	if os.Getuid() == 0 {
		m.env = append(m.env, "TAR_OPTIONS=--no-same-owner") // there is no other owner in there
	}
	m.limits = m.spec.Limits
	m.cgroups = newCgroups(m.limits)
	m.undo = append(m.undo, m.cgroups.remove)
	m.cgroups.relieve(&m.spec.Limits)
	return nil
}

// without returns what of the protected paths stays so, when some were granted: of a folder that one is in, what is there beside it.
func without(protected, granted []string) (rest []string) {
	for _, path := range protected {
		switch {
		case slices.Contains(granted, path):
		case slices.ContainsFunc(granted, func(g string) bool { return within(path, g) }):
			entries, err := os.ReadDir(path)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				rest = append(rest, path)
				continue
			}
			var parts []string
			for _, e := range entries {
				parts = append(parts, filepath.Join(path, e.Name()))
			}
			rest = append(rest, without(parts, granted)...)
		default:
			rest = append(rest, path)
		}
	}
	return rest
}

// release undoes what was prepared, newest first. It may be called twice.
func (m *confined) release() {
	for _, undo := range slices.Backward(m.undo) {
		undo()
	}
	m.undo = nil
}

// refused returns what the sandbox kept the command from writing: what it made where it must
// not, which is put aside, and what it says itself that it could not write, where that is so because of the sandbox.
func (m *confined) refused(result workspace.Result, said messages) (all []workspace.Refusal) {
	if m.spec == nil {
		return nil
	}
	for _, seen := range m.watched {
		if what, err := seen.putBack(); err != nil {
			all = append(all, workspace.Refusal{Kind: workspace.RefusedWrite, Target: seen.path, Rule: "control file; it could not be put aside: " + err.Error()})
		} else if what != "" {
			all = append(all, workspace.Refusal{Kind: workspace.RefusedWrite, Target: seen.path, Rule: "control file; " + what})
		}
	}
	for _, root := range m.bare {
		for _, path := range planted(root) {
			what, err := (watched{path: path}).putBack()
			if err != nil {
				what = "it could not be put aside: " + err.Error()
			}
			all = append(all, workspace.Refusal{Kind: workspace.RefusedWrite, Target: path, Rule: "git would run what is in it; " + what})
		}
	}
	if result.Code == 0 && result.Signal == "" {
		return all
	}
	for _, path := range said.paths(m.dir) {
		if len(all) >= maxMessages {
			break
		}
		real, ok := m.keptFrom(path)
		if ok && !slices.ContainsFunc(all, func(r workspace.Refusal) bool { return r.Target == real }) {
			all = append(all, workspace.Refusal{Kind: workspace.RefusedWrite, Target: real, Rule: "outside of the folders that may be written"})
		}
	}
	return all
}

// keptFrom reports whether the sandbox, and not the system, keeps a command from writing at a path.
func (m *confined) keptFrom(path string) (real string, ok bool) {
	exists := path
	for {
		if found, err := filepath.EvalSymlinks(exists); err == nil {
			exists, real = found, filepath.Join(found, path[len(exists):])
			break
		}
		if exists == "/" {
			return "", false
		}
		exists = filepath.Dir(exists)
	}
	inside := func(dirs []string) bool {
		return slices.ContainsFunc(dirs, func(dir string) bool { return within(dir, real) })
	}
	switch {
	case inside(m.spec.Mask), slices.ContainsFunc([]string{"/proc", "/sys", "/dev", "/run"}, func(d string) bool { return within(d, real) }):
		return "", false
	case inside(m.spec.Write) && !inside(m.spec.Protect):
		return "", false
	}
	if exists != real && exists != filepath.Dir(real) {
		return "", false // the folder is missing, too
	}
	for isPlaceholder(exists) {
		exists = filepath.Dir(exists)
	}
	return real, syscall.Access(exists, 2) == nil
}

// limit names the limit that a command ran into.
func (m *confined) limit(result workspace.Result) string {
	if m.spec == nil {
		return ""
	}
	if name := m.cgroups.hit(); name != "" {
		return name
	}
	if result.Signal == "SIGXFSZ" || result.Code == 128+int(syscall.SIGXFSZ) {
		return fmt.Sprintf("file size: %d bytes", m.limits.FileSize)
	}
	return ""
}

// found is what this machine can do.
type found struct {
	level  workspace.SandboxLevel
	why    string       // it is not full
	by     sandbox.Spec // its level and whether it has Landlock
	layers bool
}

// findOut returns a function that finds it out by trying, once.
func findOut(trial func(sandbox.Spec) error, layer func() (sandbox.Layer, func(), error)) func() found {
	return sync.OnceValue(func() found {
		f := found{level: workspace.SandboxFull, by: sandbox.Spec{Level: workspace.SandboxFull}}
		full := trial(f.by)
		if errors.Is(full, sandbox.ErrNoLandlock) {
			f.by.WithoutLandlock = true
			if err := trial(f.by); err == nil {
				f.level, f.why, full = workspace.SandboxPartial, full.Error()+", so that mounts, seccomp and limits hold alone", nil
			} else {
				full = fmt.Errorf("%w; without it: %w", full, err)
			}
		}
		if full == nil {
			if l, release, err := layer(); err == nil {
				with := f.by
				with.Layers = []sandbox.Layer{l}
				f.layers = trial(with) == nil
				release()
			}
			return f
		}
		f.by = sandbox.Spec{Level: workspace.SandboxPartial}
		partial := trial(f.by)
		if partial == nil {
			f.level, f.why = workspace.SandboxPartial, "a full sandbox is refused here: "+full.Error()
			return f
		}
		return found{level: workspace.SandboxNone, why: fmt.Sprintf("a sandbox is refused here: %v; without namespaces: %v", full, partial)}
	})
}

// trialBound is how long finding out may take.
const trialBound = 10 * time.Second

// try confines a guardian that runs nothing.
func try(spec sandbox.Spec) error {
	if err := sandbox.Probe(spec.Level); err != nil && !(spec.WithoutLandlock && errors.Is(err, sandbox.ErrNoLandlock)) {
		return err
	}
	if !guarded.Load() {
		return errors.New("this program cannot watch commands: its main function must call Guard first")
	}
	r := &run{
		command: workspace.Command{Args: []string{probeName}, Merged: true}, grace: defaultGrace,
		spec: &spec,
	}
	spec.Dir = "/"
	if err := r.start("/", os.Environ()); err != nil {
		return cause(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), trialBound)
	defer cancel()
	result, err := r.wait(ctx)
	if err == nil && result.Canceled {
		err = fmt.Errorf("it did not answer in %v", trialBound)
	}
	return err
}
