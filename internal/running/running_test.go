//go:build unix

package running

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func me(dir string) Process {
	return Process{PID: os.Getpid(), Started: time.Unix(1, 0).UTC(), Dir: dir, Session: "s"}
}

func TestAnEntryIsThereAsLongAsItsProcessHoldsIt(t *testing.T) {
	ctx, dir := within(t), filepath.Join(t.TempDir(), "running")
	if live, err := List(dir); err != nil || live != nil {
		t.Fatalf("of a folder that does not exist: %v, %v", live, err)
	}
	e, err := Register(ctx, dir, me("/x"))
	if err != nil {
		t.Fatal(err)
	}
	live, err := List(dir)
	if diff := cmp.Diff([]Process{me("/x")}, live); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	e.Remove()
	if live, err = List(dir); err != nil || live != nil {
		t.Errorf("after its removal: %v, %v", live, err)
	}
}

func TestAnEntryOfAKilledProcessIsSweptAway(t *testing.T) {
	dir := t.TempDir()
	gone := exec.Command("sh", "-c", "exit")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(dir, strconv.Itoa(gone.Process.Pid))
	ours := filepath.Join(dir, strconv.Itoa(os.Getpid())) // somebody else's, before this process had the number
	for _, path := range []string{left, left + ".reloaded", ours} {
		if err := os.WriteFile(path, []byte(`{"pid":1}`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if live, err := List(dir); err != nil || live != nil {
		t.Errorf("%v, %v", live, err)
	}
	for path, want := range map[string]bool{left: false, left + ".reloaded": false, ours: true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s is there: %v, want %v", filepath.Base(path), err == nil, want)
		}
	}
}

func TestReloadIsAnswered(t *testing.T) {
	ctx, dir := within(t), t.TempDir()
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	e, err := Register(ctx, dir, me("/x"))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Remove()
	outcomes := []error{nil, errors.New("cordis.yml:3:1: unknown key")}
	var wg sync.WaitGroup
	wg.Go(func() {
		for _, failed := range outcomes {
			select {
			case <-hangups:
			case <-ctx.Done():
				return
			}
			if err := e.Answer([]string{"deepseek restarted"}, failed); err != nil {
				t.Error(err)
			}
		}
	})
	want := []Answer{
		{Count: 1, Rows: []string{"deepseek restarted"}},
		{Count: 2, Rows: []string{"deepseek restarted"}, Error: "cordis.yml:3:1: unknown key"},
	}
	for _, w := range want {
		got, err := Reload(ctx, dir, me("/x"))
		if diff := cmp.Diff(w, got); diff != "" || err != nil {
			t.Errorf("%v\n%s", err, diff)
		}
	}
	wg.Wait()
}

func TestReloadEndsWithItsContextAndWithTheProcess(t *testing.T) {
	dir := t.TempDir()
	silent := exec.Command("sh", "-c", `trap : HUP; echo ready; read line`)
	in, err := silent.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := silent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := silent.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("too slow"))
	defer cancel()
	p := Process{PID: silent.Process.Pid}
	if _, err := Reload(ctx, dir, p); err == nil || err.Error() != "process "+strconv.Itoa(p.PID)+" was asked to reload and has not answered: too slow" {
		t.Error(err)
	}
	_ = in.Close() // it reads the end and exits
	_ = silent.Wait()
	if _, err := Reload(within(t), dir, p); !errors.Is(err, syscall.ESRCH) {
		t.Error(err)
	}
}
