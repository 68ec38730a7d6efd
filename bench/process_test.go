package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/dsh-harness/dsh/internal/testllm"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(floorEnv); url != "" {
		if err := runFloor(url, os.Args[1], os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, "floor:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// BenchmarkAnswer is a run with one answer.
func BenchmarkAnswer(b *testing.B) { compare(b, "text:1") }

// BenchmarkRead is a run of steps that each read a small file.
func BenchmarkRead(b *testing.B) {
	for _, steps := range []int{50, 200, 2000} {
		b.Run(fmt.Sprint(steps), func(b *testing.B) { compare(b, fmt.Sprint("tools:", steps)) })
	}
}

// BenchmarkStream is a run with an answer of 20,000 chunks.
func BenchmarkStream(b *testing.B) { compare(b, "text:20000") }

// BenchmarkResume is a run with one answer in a session that has many steps.
func BenchmarkResume(b *testing.B) {
	for _, steps := range []int{200, 2000} {
		b.Run(fmt.Sprint(steps), func(b *testing.B) {
			p := newPair(b)
			for _, program := range p.programs {
				p.run(b, program, fmt.Sprintf("[[mock tools:%d]] go", steps))
			}
			p.resumes = true
			p.programs[1].args = append(p.programs[1].args, "-c")
			p.compare(b, "[[mock text:1]] again")
		})
	}
}

func compare(b *testing.B, scenario string) {
	newPair(b).compare(b, "[[mock "+scenario+"]] go")
}

// pair is the floor and dsh, in one folder with one server.
type pair struct {
	srv      *testllm.Server
	dir      string
	programs [2]*program
	resumes  bool // the runs go on with a session
}

// program is how one of the two is run; the prompt follows.
type program struct {
	path string
	args []string
	env  []string
}

// run is what one run took.
type run struct{ cpu, wall time.Duration }

func newPair(b *testing.B) *pair {
	b.Helper()
	dir := b.TempDir()
	for i := range 2001 {
		check(b, os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%d.txt", i)), fmt.Appendf(nil, "line %d\n", i), 0o600))
	}
	binary := filepath.Join(b.TempDir(), "dsh")
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", binary, "github.com/dsh-harness/dsh/cmd/dsh")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("build dsh: %v\n%s", err, out)
	}
	srv := testllm.Start()
	b.Cleanup(srv.Close)
	srv.Strict(testllm.Rules{Unchecked: true})
	srv.Tool("read", `{"file_path":"f{{n}}.txt"}`)
	self, err := os.Executable()
	check(b, err)
	home := b.TempDir()
	return &pair{srv: srv, dir: dir, programs: [2]*program{
		{path: self, args: []string{filepath.Join(home, "floor.jsonl")}, env: []string{floorEnv + "=" + srv.URL}},
		{path: binary, args: []string{"run", "--permission-mode", "full-access"}, env: []string{
			"DSH_HOME=" + filepath.Join(home, "dsh"), "DEEPSEEK_API_KEY=sk-bench", "DEEPSEEK_BASE_URL=" + srv.URL,
		}},
	}}
}

func check(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (p *pair) run(b *testing.B, program *program, prompt string) run {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), 2*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, program.path, append(slices.Clone(program.args), prompt)...)
	c.Dir, c.Env, c.Stderr = p.dir, append(program.env, "PATH="+os.Getenv("PATH"), "HOME="+p.dir), os.Stderr
	begun := time.Now()
	if err := c.Run(); err != nil {
		b.Fatalf("%s: %v", filepath.Base(program.path), errors.Join(err, ctx.Err()))
	}
	return run{cpu: c.ProcessState.UserTime() + c.ProcessState.SystemTime(), wall: time.Since(begun)}
}

// compare runs the two in turns and reports medians and their ratio.
func (p *pair) compare(b *testing.B, prompt string) {
	var runs [2][]run
	for range b.N {
		for i, program := range p.programs {
			if i == 0 && !p.resumes {
				_ = os.Remove(program.args[0]) // the floor begins anew, as dsh does; at first there is none
			}
			runs[i] = append(runs[i], p.run(b, program, prompt))
		}
	}
	cpu := func(i int) float64 { return median(runs[i], func(r run) time.Duration { return r.cpu }) }
	wall := func(i int) float64 { return median(runs[i], func(r run) time.Duration { return r.wall }) }
	b.ReportMetric(cpu(1)/cpu(0), "floors-cpu")
	b.ReportMetric(cpu(0), "floor-cpu-ms")
	b.ReportMetric(cpu(1), "dsh-cpu-ms")
	b.ReportMetric(wall(1)-wall(0), "wall-above-floor-ms")
	b.ReportMetric(0, "ns/op")
}

func median(runs []run, of func(run) time.Duration) float64 {
	all := make([]time.Duration, len(runs))
	for i, r := range runs {
		all[i] = of(r)
	}
	slices.Sort(all)
	return float64(all[len(all)/2]) / float64(time.Millisecond)
}
