// Package jsonl keeps sessions as files: one folder a session, in it the log with
// one JSON object a line. It is the backend that dsh comes with.
//
//	sessions/<id>/log.jsonl     the log; line 1 is the header
//	sessions/<id>/lock          held by the one process that writes the log
//	sessions/<id>/spill/        tool output that was too large for the log
//	sessions/<id>/attachments/  files that messages refer to
//
// Each line carries a checksum over its bytes. A log appears whole or not at all, an
// append is one write and one fdatasync, and what a crash can leave behind is
// mended when the log is opened. Nothing else is ever cut off or rewritten.
//
// Only the plugin is public. The backend that it provides may be used from any goroutine.
package jsonl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/dsh-harness/dsh/internal/home"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/session"
)

// Config is the configuration of [Plugin].
type Config struct {
	Dir string `json:"dir,omitempty" doc:"folder of the sessions, absolute; by default sessions in the state folder"`
	// Address tells others, who find a session in use, where to reach it.
	Address string `json:"address,omitempty" doc:"where this process can be connected to, written into the lock of each session that it has open"`
}

// Validate checks what does not depend on the machine.
func (c Config) Validate() error {
	if c.Dir != "" && !filepath.IsAbs(c.Dir) {
		return fmt.Errorf("dir is %q: it must be an absolute path", c.Dir)
	}
	return nil
}

// Plugin provides sessionPersistence. Its row stands before that of the store:
//
//	# cordis.yml
//	- id: session-jsonl
//	  plugin: session-jsonl
//	  config:
//	    dir: /srv/dsh/sessions
//	- id: sessions
//	  plugin: sessions
var Plugin = plugin.Plugin[Config]{
	Name: "session-jsonl",
	Doc:  "Keeps sessions as files, one folder a session.",
	Start: func(_ context.Context, s *plugin.Scope, c Config) error {
		dir := c.Dir
		if dir == "" {
			dirs, err := home.Find(os.Getenv)
			if err != nil {
				return err
			}
			dir = filepath.Join(dirs.State, "sessions")
		}
		b := newBackend(dir, system{}, time.Now)
		b.address = c.Address
		if _, err := s.Defer("close logs", func(context.Context) error { return b.close() }); err != nil {
			return err
		}
		return session.PersistenceService.Provide(s, b)
	},
}

// Names in a session's folder.
const (
	logName  = "log.jsonl"
	newName  = "log.jsonl.new"
	lockName = "lock"
)

// place names a session and where it is, for errors.
func (b *backend) place(id string) (dir, path string) {
	dir = filepath.Join(b.dir, id)
	return dir, filepath.Join(dir, logName)
}

// found turns the absence of a file into the absence of a session.
func found(id string, err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("session %s: %w", id, session.ErrNotFound)
	}
	return err
}
