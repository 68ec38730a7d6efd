package sharedfile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gofrs/flock"
)

func number(path string) *File[int] {
	return New(path, func(text []byte) (int, error) { return strconv.Atoi(strings.TrimSpace(string(text))) })
}

func plus(n int) func(int) ([]byte, error) {
	return func(value int) ([]byte, error) { return []byte(strconv.Itoa(value + n)), nil }
}

// Many that change it at once, as processes would, lose nothing.
func TestChangesAreNotLost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "n")
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if err := number(path).Change(t.Context(), plus(1)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n, err := number(path).Load(); err != nil || n != 20 {
		t.Errorf("%d, %v", n, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestWhatOthersChangeIsSeen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "n")
	f := number(path)
	if n, err := f.Load(); err != nil || n != 0 {
		t.Fatalf("without a file: %d, %v", n, err)
	}
	for want := 1; want < 4; want++ {
		if err := number(path).Change(t.Context(), plus(1)); err != nil {
			t.Fatal(err)
		}
		if n, err := f.Load(); err != nil || n != want {
			t.Errorf("%d, %v, want %d", n, err, want)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if n, err := f.Load(); err != nil || n != 0 {
		t.Errorf("after it went: %d, %v", n, err)
	}
}

func TestWhatIsNotUnderstoodStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "n")
	for _, content := range []string{"x", strings.Repeat("1", MaxBytes+1)} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := number(path).Load(); err == nil || !strings.Contains(err.Error(), "mend the file") {
			t.Errorf("%.10s: %v", content, err)
		}
		if err := number(path).Change(t.Context(), plus(1)); err == nil {
			t.Errorf("%.10s was changed", content)
		}
		if now, err := os.ReadFile(path); err != nil || string(now) != content {
			t.Errorf("%.10s became %.10s, %v", content, now, err)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	refused := errors.New("no")
	if err := number(path).Change(t.Context(), func(int) ([]byte, error) { return nil, refused }); !errors.Is(err, refused) {
		t.Error(err)
	}
	if err := number(path).Change(t.Context(), func(int) ([]byte, error) { return make([]byte, MaxBytes), nil }); err == nil {
		t.Error("it was made too large")
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func TestAChangeWaitsNotForEver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "n")
	lock := flock.New(path + ".lock")
	if held, err := lock.TryLock(); err != nil || !held {
		t.Fatal(held, err)
	}
	defer func() { _ = lock.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := number(path).Change(ctx, plus(1)); err == nil || !strings.Contains(err.Error(), "another process is at it") {
		t.Error(fmt.Sprint(err))
	}
}
