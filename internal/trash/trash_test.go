package trash

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// put makes a file of n bytes and moves it into the bin.
func put(t testing.TB, b Bin, dir *os.Root, name string, n int) (Item, error) {
	t.Helper()
	must(t, dir.WriteFile(name, make([]byte, n), 0o600))
	size, err := Measure(dir, name)
	must(t, err)
	return b.Put(dir, name, filepath.Join(dir.Name(), name), size)
}

func TestWhatIsTooLargeStays(t *testing.T) {
	dir, err := os.OpenRoot(t.TempDir())
	must(t, err)
	defer func() { must(t, dir.Close()) }()
	for _, limit := range []int64{0, 9} {
		b := Bin{Dir: filepath.Join(t.TempDir(), "bin"), Max: limit}
		if _, err := put(t, b, dir, "f", 10); !errors.Is(err, ErrTooLarge) {
			t.Errorf("with room for %d: %v", limit, err)
		}
		if _, err := dir.Stat("f"); err != nil {
			t.Error(err)
		}
	}
}

func TestTheOldGoes(t *testing.T) {
	dir, err := os.OpenRoot(t.TempDir())
	must(t, err)
	defer func() { must(t, dir.Close()) }()
	b := Bin{Dir: filepath.Join(t.TempDir(), "bin"), Keep: time.Nanosecond, Max: 100}
	item, err := put(t, b, dir, "f", 10)
	must(t, err)
	must(t, b.Prune())
	if items, err := b.List(); err != nil || len(items) != 0 {
		t.Errorf("after its time %s is there: %v %v", item.ID, items, err)
	}
}

func TestRestoringReplacesNothing(t *testing.T) {
	dir, err := os.OpenRoot(t.TempDir())
	must(t, err)
	defer func() { must(t, dir.Close()) }()
	b := Bin{Dir: filepath.Join(t.TempDir(), "bin"), Max: 100}
	item, err := put(t, b, dir, "f", 10)
	must(t, err)
	must(t, dir.WriteFile("f", []byte("new"), 0o600))
	if _, err := b.Restore(item.ID, ""); !errors.Is(err, os.ErrExist) {
		t.Errorf("over another file: %v", err)
	}
	_, err = b.Restore(item.ID, filepath.Join(dir.Name(), "deep", "f"))
	must(t, err)
	if info, err := dir.Stat("deep/f"); err != nil || info.Size() != 10 {
		t.Errorf("restored %v, %v", info, err)
	}
}

// A link that was planted on the way back is not followed, whether it leads somewhere or not; a person may say where to.
func TestTrust_F06_RestoringFollowsNoPlantedLink(t *testing.T) {
	for name, plant := range map[string]func(work, outside string) error{
		"folder": func(work, outside string) error { return os.Symlink(outside, filepath.Join(work, "d")) },
		"dangling": func(work, outside string) error {
			return os.Symlink(filepath.Join(outside, "new"), filepath.Join(work, "d"))
		},
		"above": func(work, outside string) error { return errors.Join(os.Remove(work), os.Symlink(outside, work)) },
		"chain": func(work, outside string) error {
			return errors.Join(os.Symlink(outside, filepath.Join(work, "e")), os.Symlink("e", filepath.Join(work, "d")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			base, err := filepath.EvalSymlinks(t.TempDir())
			must(t, err)
			work, outside := filepath.Join(base, "work"), filepath.Join(base, "outside")
			must(t, errors.Join(os.MkdirAll(filepath.Join(work, "d"), 0o700), os.Mkdir(outside, 0o700)))
			dir, err := os.OpenRoot(filepath.Join(work, "d"))
			must(t, err)
			b := Bin{Dir: filepath.Join(base, "bin"), Max: 100}
			must(t, dir.WriteFile("authorized_keys", []byte("mine"), 0o600))
			item, err := b.Put(dir, "authorized_keys", filepath.Join(work, "d", "authorized_keys"), Size{Files: 1, Bytes: 4})
			must(t, err)
			must(t, errors.Join(dir.Close(), os.Remove(filepath.Join(work, "d")), plant(work, outside)))
			if _, err := b.Restore(item.ID, ""); !errors.Is(err, ErrElsewhere) {
				t.Errorf("it was restored: %v", err)
			}
			if found, err := os.ReadDir(outside); err != nil || len(found) > 0 {
				t.Errorf("outside: %v, %v", found, err)
			}
			_, err = b.Restore(item.ID, filepath.Join(outside, "chosen"))
			must(t, err)
		})
	}
}

// Copying across disks moves all that renaming would.
func TestMoveByCopy(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	must(t, os.MkdirAll(filepath.Join(from, "d", "closed"), 0o755))
	must(t, os.WriteFile(filepath.Join(from, "d", "closed", "f"), []byte("x"), 0o640))
	must(t, os.Symlink("../nowhere", filepath.Join(from, "d", "link")))
	must(t, os.Chmod(filepath.Join(from, "d", "closed"), 0o500))
	dir, err := os.OpenRoot(from)
	must(t, err)
	defer func() { must(t, dir.Close()) }()
	err = moveByCopy(dir, "d", filepath.Join(to, "content"))
	must(t, os.Chmod(filepath.Join(to, "content", "closed"), 0o700))
	if err != nil && os.Getuid() == 0 {
		t.Error(err) // others may not empty a folder that is closed
	}
	if b, err := os.ReadFile(filepath.Join(to, "content", "closed", "f")); err != nil || string(b) != "x" {
		t.Errorf("file %q, %v", b, err)
	}
	if link, err := os.Readlink(filepath.Join(to, "content", "link")); err != nil || link != "../nowhere" {
		t.Errorf("link %q, %v", link, err)
	}
	if os.Getuid() != 0 {
		must(t, os.Chmod(filepath.Join(from, "d", "closed"), 0o700))
	}
}

// Laws: the bin never holds more than it may, and what it holds is the newest.
func TestBinIsBounded(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		root := t.TempDir()
		dir, err := os.OpenRoot(root)
		must(t, err)
		defer func() { must(t, dir.Close()) }()
		b := Bin{Dir: filepath.Join(root, "bin"), Max: 100}
		var last string
		for i, n := range rapid.SliceOfN(rapid.IntRange(0, 60), 1, 8).Draw(rt, "sizes") {
			item, err := put(t, b, dir, fmt.Sprint("f", i), n)
			must(t, err)
			last = item.ID
			items, err := b.List()
			must(t, err)
			var total int64
			for _, it := range items {
				total += it.Bytes
			}
			if total > b.Max || len(items) == 0 || items[0].ID != last {
				rt.Fatalf("the bin holds %d bytes of %d: %v, last %s", total, b.Max, items, last)
			}
		}
		must(t, b.Empty())
		if items, err := b.List(); err != nil || len(items) > 0 {
			rt.Fatalf("after emptying: %v, %v", items, err)
		}
	})
}
