//go:build unix

package local

import (
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/dsh-harness/dsh/internal/home"
	"github.com/dsh-harness/dsh/workspace"
	"github.com/dsh-harness/dsh/workspace/sandbox"
)

// caches are folders that programs fill and read again. A confined command sees them through a layer: it
// reads what is there, and what it writes is kept apart, so that nothing that a command puts
// into a cache is ever run outside of a sandbox.
type caches struct {
	home    string
	paths   []string // absolute or from ~/
	layered string   // where the layers are; "" for nowhere
}

// newCaches finds where layers can be: in the harness's state, which no cache holds.
func newCaches(paths []string) caches {
	c := caches{paths: paths}
	if home, err := os.UserHomeDir(); err == nil {
		c.home = home
	}
	if dirs, err := home.Find(os.Getenv); err == nil {
		c.layered = filepath.Join(dirs.State, "sandbox")
	}
	return c
}

// used is what a command gets.
type used struct {
	layers []sandbox.Layer
	env    []string
}

// maxSlots is how many commands may write into layers at once; more of them see their caches read-only.
const maxSlots = 64

// use takes a set of layers that no other running command has, also of other harnesses, until release is called.
func (c *caches) use(level workspace.SandboxLevel, layers bool) (u used, release func(), err error) {
	release = func() {}
	if level != workspace.SandboxFull || !layers || c.layered == "" {
		return u, release, nil
	}
	slot, release, err := c.takeSlot()
	if err != nil || slot == "" {
		return u, release, err
	}
	for _, target := range c.existing() {
		layer, err := newLayer(slot, target)
		if err != nil {
			release()
			return used{}, func() {}, err
		}
		u.layers = append(u.layers, layer)
	}
	u.env = c.elsewhere()
	return u, release, nil
}

// takeSlot locks a folder for layers.
func (c *caches) takeSlot() (dir string, release func(), err error) {
	for n := range maxSlots {
		dir = filepath.Join(c.layered, strconv.Itoa(n))
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", func() {}, fmt.Errorf("make a folder for what the command caches: %w", err)
		}
		lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return "", func() {}, fmt.Errorf("lock a folder for what the command caches: %w", err)
		}
		if err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
			return dir, func() { _ = lock.Close() }, nil // closing unlocks
		}
		_ = lock.Close() // somebody else has it
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return "", func() {}, fmt.Errorf("lock a folder for what the command caches: %w", err)
		}
	}
	return "", func() {}, nil
}

// newLayer is named by its target, so that the next command finds what the last one cached.
func newLayer(slot, target string) (sandbox.Layer, error) {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(target)) // it never fails
	dir := filepath.Join(slot, fmt.Sprintf("%s-%x", filepath.Base(target), hash.Sum64()))
	l := sandbox.Layer{Target: target, Upper: filepath.Join(dir, "upper"), Work: filepath.Join(dir, "work")}
	for _, d := range []string{l.Upper, l.Work} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return l, fmt.Errorf("make a layer for %s: %w", target, err)
		}
	}
	return l, nil
}

// existing lists the caches that there are. ~/.cache is made, since everybody expects it.
func (c *caches) existing() (paths []string) {
	if c.home != "" {
		_ = os.Mkdir(filepath.Join(c.home, ".cache"), 0o700) // a home that cannot be written has no caches
	}
	for _, path := range append(slices.Clone(c.paths), os.Getenv("GOCACHE"), os.Getenv("GOMODCACHE"), os.Getenv("GOPATH")) {
		if rest, ok := strings.CutPrefix(path, "~/"); ok && c.home != "" {
			path = filepath.Join(c.home, rest)
		}
		if !filepath.IsAbs(path) {
			continue
		}
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			continue
		}
		info, err := os.Stat(real)
		if err != nil || !info.IsDir() || within(real, c.layered) || slices.ContainsFunc(paths, func(p string) bool { return within(p, real) }) {
			continue // a layer cannot be laid over its own parts
		}
		paths = append(slices.DeleteFunc(paths, func(p string) bool { return within(real, p) }), real)
	}
	return paths
}

// elsewhere points programs whose cache does not exist into ~/.cache, which does.
func (c *caches) elsewhere() (env []string) {
	for _, v := range []struct{ name, dir, instead string }{
		{"GOPATH", "go", "go"}, {"npm_config_cache", ".npm", "npm"}, {"CARGO_HOME", ".cargo", "cargo"}, {"GRADLE_USER_HOME", ".gradle", "gradle"},
	} {
		if _, err := os.Stat(filepath.Join(c.home, v.dir)); err != nil && os.Getenv(v.name) == "" {
			env = append(env, v.name+"="+filepath.Join(c.home, ".cache", v.instead))
		}
	}
	return env
}

// cachesIn points programs into a folder, where there are no layers.
func cachesIn(dir string) []string {
	cache := filepath.Join(dir, "cache")
	return []string{
		"XDG_CACHE_HOME=" + cache, "GOCACHE=" + filepath.Join(cache, "go-build"), "npm_config_cache=" + filepath.Join(cache, "npm"),
		"PIP_CACHE_DIR=" + filepath.Join(cache, "pip"),
	}
}

// trialLayer is a layer to find out whether there can be any.
func (c *caches) trialLayer() (sandbox.Layer, func(), error) {
	if c.layered == "" {
		return sandbox.Layer{}, nil, errors.New("there is no place for layers")
	}
	slot, release, err := c.takeSlot()
	if err != nil {
		return sandbox.Layer{}, nil, err
	}
	target := filepath.Join(slot, "trial")
	err = os.MkdirAll(target, 0o700)
	l := sandbox.Layer{Target: target}
	if err == nil {
		l, err = newLayer(slot, target)
	}
	if err != nil {
		release()
	}
	return l, release, err
}
