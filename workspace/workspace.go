// Package workspace is the seam for where an agent's hands are: files below
// named roots, and commands. Tools and the harness's own calls of programs use
// it and nothing else, so that a sandbox or a remote machine can stand behind it.
//
// A [Workspace] may be used by many goroutines at once.
package workspace

import (
	"context"
	"io/fs"
	"time"

	"github.com/dsh-harness/dsh/plugin"
)

// Service is the key of the provider of workspaces.
var Service = plugin.NewKey[Provider]("workspace")

// Provider opens workspaces.
type Provider interface {
	// Open returns the workspace of a session. It is closed with s.
	Open(ctx context.Context, s *plugin.Scope, o Options) (Workspace, error)
}

// Options say where a workspace is.
type Options struct {
	Dir  string   // the session's folder, absolute; links are resolved
	Dirs []string // further roots (--add-dir), absolute
	// Session is the id of the session that works here, "" when there is none.
	Session string
	// Env holds further environment for commands, NAME=value, allow-listed by
	// who configures it.
	Env []string
}

// Workspace is one session's files and commands.
type Workspace interface {
	// Dir is the session's folder with links resolved. Relative paths of tools
	// are below it.
	Dir() string
	// Roots are the folders that may be written by the policy, Dir first, then
	// the added ones, then the private temporary folder.
	Roots() []string
	// Temp is a private folder for temporary files; it goes with the workspace.
	Temp() string
	FS() FS
	Exec() Exec
	// Sandbox says how strongly commands are confined, and in one line why not more.
	Sandbox() (level SandboxLevel, why string)
	// Widen lets [FS] write at path, which may be a folder or a file, until undo is
	// called. The policy calls it for a call that it let write there.
	Widen(path string) (undo func(), err error)
}

// SandboxLevel says how strongly commands are confined.
type SandboxLevel string

const (
	SandboxNone    SandboxLevel = "none"
	SandboxPartial SandboxLevel = "partial"
	SandboxFull    SandboxLevel = "full"
)

// Place is a path after links were followed as far as they exist.
type Place struct {
	Path string // absolute, clean, without links
	Root string // the root that Path lies below, "" when it is outside of all
	// Rel is Path below Root with forward slashes, "." for the root itself.
	Rel string
	// Exists tells whether something is there.
	Exists bool
}

// FS is the files of a workspace. Names are absolute, relative to
// [Workspace.Dir], or begin with ~/ for the home folder. Writes stay below the roots, through links too: a name that
// leads outside fails with [ErrOutside]. Reads may leave the roots where the
// policy let them; what an FS guarantees is that it opens the very file that
// [FS.Locate] described, or fails.
type FS interface {
	// Locate resolves name without opening it. It fails for an invalid name and
	// where it may not look. A name that exists only in another Unicode spelling is
	// that file.
	Locate(name string) (Place, error)
	// Open opens a regular file or folder for reading. Devices, pipes, sockets and
	// files that the kernel makes up are refused with [ErrSpecial].
	Open(name string) (fs.File, error)
	Stat(name string) (fs.FileInfo, error)
	Lstat(name string) (fs.FileInfo, error)
	ReadDir(name string) ([]fs.DirEntry, error)
	// WriteFile replaces or creates a file atomically: readers see the old or
	// the new content. The mode and the link of an existing file are kept
	// (a link is followed inside the roots), missing folders are made.
	WriteFile(name string, data []byte, o WriteOptions) error
	// Remove removes a file or an empty folder for good.
	Remove(name string) error
	// Delete removes a file, or a folder with all that is in it, and keeps it
	// restorable where it can. It follows no link, and fails with [ErrKept], having removed
	// nothing, for the root of the file system, the home folder, a root of the workspace, what holds one of
	// them, and what something is mounted in.
	Delete(name string) (Deleted, error)
}

// Deleted tells what [FS.Delete] did.
type Deleted struct {
	Files int   // files and links
	Bytes int64 // in them
	// Trash names what was kept, for whoever restores it; "" when nothing was, because it was too large.
	Trash string
}

// WriteOptions refine [FS.WriteFile].
type WriteOptions struct {
	Mode      fs.FileMode // of a new file, less the umask; 0 means 0666
	MustExist bool        // fail with fs.ErrNotExist when there is nothing to replace
	MustBeNew bool        // fail with fs.ErrExist when something is there
	// Expect, when not nil, is what the file must still hold.
	Expect []byte
}

// Exec runs commands.
type Exec interface {
	// Run runs a command to its end and returns the facts about it. The error is
	// for a command that could not be started; how it ended is in the Result.
	// When ctx ends, or after Timeout, the command and everything that it started
	// is ended: asked first, killed after [Command.Grace]. Nothing that it started
	// is alive when Run returns; an error that says otherwise names what may be.
	Run(ctx context.Context, c Command) (Result, error)
}

// Command is a program to run.
type Command struct {
	Args []string // the program and its arguments; no shell is added
	Dir  string   // relative to the session's folder, or absolute; "" is the folder
	// Env is added to the allow-listed environment, NAME=value.
	Env []string
	// Stdin is what the command can read; after it, and when it is empty, comes the
	// end of the input.
	Stdin []byte
	// Output receives what the command writes as it comes; stderr says where to. Its
	// calls do not overlap, p is only valid during the call, and a call must not block
	// for long: the command waits meanwhile. Nil throws the output away.
	Output func(p []byte, stderr bool)
	// Merged lets stdout and stderr share one pipe, so that their order is exact;
	// Output then gets all of it with stderr false.
	Merged  bool
	Timeout time.Duration // 0 means none beyond ctx
	Grace   time.Duration // between asking and killing; 0 means 2 s
}

// Result is how a command ended. The facts are independent of each other.
type Result struct {
	Code     int    // exit code, -1 when a signal ended the command
	Signal   string // e.g. "SIGKILL", "" when it exited
	TimedOut bool   // Timeout passed before it ended
	Canceled bool   // ctx ended before it did
	// Leftover counts processes that were still running when the command itself
	// had ended, and were ended with it.
	Leftover int
	Duration time.Duration

	Sandbox SandboxLevel // how it was confined
	Refused []Refusal    // what the sandbox is known to have refused
	// Limit names the limit that ended the command or something in it, such as
	// "memory: 8 GiB"; "" when none is known to have.
	Limit string
}
