package local_test

import (
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dsh-harness/dsh/workspace"
)

func TestTrust_F02_NoWriteOutsideWhileFoldersAreSwapped(t *testing.T) {
	t.Parallel()
	base := realDir(t)
	dir, outside := filepath.Join(base, "app"), filepath.Join(base, "outside")
	must(t, os.MkdirAll(filepath.Join(dir, "sub"), 0o755))
	must(t, os.MkdirAll(outside, 0o755))
	must(t, os.Symlink(outside, filepath.Join(dir, "link")))
	w := open(t, workspace.Options{Dir: dir})
	stop, swaps := make(chan struct{}), 0
	var swapper sync.WaitGroup
	swapper.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := unix.Renameat2(unix.AT_FDCWD, dir+"/sub", unix.AT_FDCWD, dir+"/link", unix.RENAME_EXCHANGE); err != nil {
				t.Error(err)
				return
			}
			swaps++
		}
	})
	worked := 0
	n := times(2_000, 100_000)
	for i := range n {
		if w.FS().WriteFile("sub/f"+strconv.Itoa(i%10), []byte("x"), workspace.WriteOptions{}) == nil {
			worked++
		}
	}
	close(stop)
	swapper.Wait()
	entries, err := os.ReadDir(outside)
	if err != nil || len(entries) > 0 {
		t.Errorf("%d files were written outside, e.g. %v; %v", len(entries), entries[:min(len(entries), 3)], err)
	}
	t.Logf("%d writes, %d of them worked, during %d swaps", n, worked, swaps)
	if worked == 0 || swaps == 0 {
		t.Error("the race did not happen")
	}
}
