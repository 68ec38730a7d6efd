// Package home says where dsh keeps its files, following the XDG convention on Linux and
// macOS and the known folders on Windows. It only computes paths: it reads no file, makes
// no folder, and may be used from any goroutine.
package home

import (
	"fmt"
	"path"
	"path/filepath"
	"runtime"
	"strings"
)

// Dirs are the folders of one user, all absolute. They need not exist.
type Dirs struct {
	Config string // cordis.yml and what people write by hand
	State  string // sessions, index, logs, trust: lost work if it is lost
	Cache  string // what can be made again
}

// Find computes the folders from the environment, in which a variable that is blank
// counts as unset. The first that is set decides:
//
//   - DSH_CONFIG and DSH_STATE: that folder itself;
//   - DSH_HOME: its subfolders config, state and cache;
//   - XDG_CONFIG_HOME, XDG_STATE_HOME and XDG_CACHE_HOME where they are absolute (on
//     Windows APPDATA and LOCALAPPDATA): the subfolder dsh;
//   - ~/.config/dsh, ~/.local/state/dsh and ~/.cache/dsh.
//
// A leading ~ in a DSH variable is the user's home folder. Find fails when such a variable
// holds a relative path, which would mean another folder after each change of directory, and
// when neither it nor a home folder is set. lookup is usually [os.Getenv].
func Find(lookup func(name string) string) (Dirs, error) {
	dirs, err := find(runtime.GOOS, lookup)
	return Dirs{filepath.FromSlash(dirs.Config), filepath.FromSlash(dirs.State), filepath.FromSlash(dirs.Cache)}, err
}

func find(goos string, lookup func(string) string) (Dirs, error) {
	e := environment{goos, lookup}
	config, err := e.dir("DSH_CONFIG", "config", e.userConfig)
	if err != nil {
		return Dirs{}, err
	}
	state, err := e.dir("DSH_STATE", "state", e.userState)
	if err != nil {
		return Dirs{}, err
	}
	cache, err := e.dir("", "cache", e.userCache)
	if err != nil {
		return Dirs{}, err
	}
	return Dirs{config, state, cache}, nil
}

type environment struct {
	goos   string
	lookup func(string) string
}

// dir is the folder that own or DSH_HOME names, else the one that fallback finds.
func (e environment) dir(own, below string, fallback func() (string, error)) (string, error) {
	if own != "" && e.get(own) != "" {
		return e.expand(own)
	}
	if e.get("DSH_HOME") != "" {
		home, err := e.expand("DSH_HOME")
		return path.Join(home, below), err
	}
	return fallback()
}

func (e environment) userConfig() (string, error) {
	if e.goos == "windows" {
		return e.known("APPDATA", "")
	}
	return e.xdg("XDG_CONFIG_HOME", ".config")
}

func (e environment) userState() (string, error) {
	if e.goos == "windows" {
		return e.known("LOCALAPPDATA", "state")
	}
	return e.xdg("XDG_STATE_HOME", ".local/state")
}

func (e environment) userCache() (string, error) {
	if e.goos == "windows" {
		return e.known("LOCALAPPDATA", "cache")
	}
	return e.xdg("XDG_CACHE_HOME", ".cache")
}

func (e environment) xdg(name, below string) (string, error) {
	// The convention says that a relative path in an XDG variable is to be ignored.
	if dir := e.get(name); e.isAbs(dir) {
		return path.Join(dir, "dsh"), nil
	}
	home, err := e.home()
	return path.Join(home, below, "dsh"), err
}

func (e environment) known(name, below string) (string, error) {
	dir := e.get(name)
	if dir == "" {
		return "", fmt.Errorf("find dsh's folders: %s is not set: set it, or DSH_HOME to a folder for all of dsh's files", name)
	}
	return path.Join(dir, "dsh", below), nil
}

func (e environment) home() (string, error) {
	name := "HOME"
	if e.goos == "windows" {
		name = "USERPROFILE"
	}
	dir := e.get(name)
	if dir == "" {
		return "", fmt.Errorf("find dsh's folders: %s is not set: set it, or DSH_HOME to a folder for all of dsh's files", name)
	}
	if !e.isAbs(dir) {
		return "", fmt.Errorf("find dsh's folders: %s is %q: it must be an absolute path", name, dir)
	}
	return dir, nil
}

// expand reads a variable of ours that holds a folder.
func (e environment) expand(name string) (string, error) {
	dir := e.get(name)
	if dir == "~" || strings.HasPrefix(dir, "~/") {
		home, err := e.home()
		if err != nil {
			return "", fmt.Errorf("expand ~ in %s: %w", name, err)
		}
		return path.Join(home, dir[1:]), nil
	}
	if !e.isAbs(dir) {
		return "", fmt.Errorf("find dsh's folders: %s is %q: it must be an absolute path", name, dir)
	}
	return path.Clean(dir), nil
}

func (e environment) get(name string) string { return strings.TrimSpace(e.lookup(name)) }

func (e environment) isAbs(dir string) bool {
	if e.goos != "windows" {
		return strings.HasPrefix(dir, "/")
	}
	drive := len(dir) >= 3 && dir[1] == ':' && (dir[2] == '\\' || dir[2] == '/')
	return drive || strings.HasPrefix(dir, `\\`)
}
