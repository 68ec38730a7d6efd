package demo

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// What lists the newest file first goes by name among files of one time.
func TestAllFilesOfACopyHaveOneTime(t *testing.T) {
	dir := t.TempDir()
	if err := Copy(dir); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var times []time.Time
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		if times = append(times, info.ModTime()); !times[0].Equal(info.ModTime()) {
			t.Errorf("%s is of %v, another of %v", e.Name(), info.ModTime(), times[0])
		}
	}
	if len(times) < 2 {
		t.Errorf("the copy has %d files", len(times))
	}
}

func TestChangesAreInTheOrderOfNames(t *testing.T) {
	dir := t.TempDir()
	if err := Copy(dir); err != nil {
		t.Fatal(err)
	}
	if changes, err := Changes(dir); err != nil || len(changes) != 0 {
		t.Fatalf("a fresh copy differs: %v, %v", changes, err)
	}
	if err := os.Remove(filepath.Join(dir, "roman.sh")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "zero"), []byte("0"), 0o644); err != nil {
		t.Fatal(err)
	}
	changes, err := Changes(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := []Change{{"roman.sh", files()["roman.sh"], ""}, {"zero", "", "0"}}
	if diff := cmp.Diff(want, changes); diff != "" {
		t.Error(diff)
	}
}
