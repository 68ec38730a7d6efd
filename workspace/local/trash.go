package local

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/dsh-harness/dsh/internal/home"
	"github.com/dsh-harness/dsh/internal/trash"
)

// TrashConfig says how long what was deleted can be restored.
type TrashConfig struct {
	Hours     int `json:"hours" doc:"For how many hours it is kept, 0 for ever."`
	Megabytes int `json:"megabytes" doc:"How many megabytes (10^6 bytes) are kept altogether; 0 keeps nothing."`
}

// Validate refuses negative numbers.
func (c TrashConfig) Validate() error {
	switch {
	case c.Hours < 0:
		return fmt.Errorf("hours is %d: it cannot be negative", c.Hours)
	case c.Megabytes < 0:
		return fmt.Errorf("megabytes is %d: it cannot be negative", c.Megabytes)
	}
	return nil
}

func defaultTrash() TrashConfig { return TrashConfig{Hours: 7 * 24, Megabytes: 2000} }

// bin is where deletions go. Without a home folder nothing is kept.
func (c TrashConfig) bin() trash.Bin {
	dirs, err := home.Find(os.Getenv)
	if err != nil {
		return trash.Bin{}
	}
	return trash.Bin{Dir: filepath.Join(dirs.State, "trash"), Keep: time.Duration(c.Hours) * time.Hour, Max: int64(c.Megabytes) * 1e6}
}
