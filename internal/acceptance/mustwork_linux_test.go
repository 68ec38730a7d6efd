package acceptance

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dsh-harness/dsh/internal/need"
	"github.com/dsh-harness/dsh/internal/testllm"
)

// TestTrust_S03_TheMustWorkList runs what programmers run, each line as a call of the shell tool in the full sandbox, and as root also
// for an ordinary user: a sandbox that breaks daily work is one that people turn off.
func TestTrust_S03_TheMustWorkList(t *testing.T) {
	for _, program := range [][2]string{
		{"git", "git"}, {"go", "golang"}, {"npm", "npm"}, {"node", "nodejs"}, {"/usr/bin/python3", "python3"}, {"/usr/bin/pip3", "python3-pip"},
		{"pytest-3", "python3-pytest"}, {"gcc", "gcc"}, {"make", "make"}, {"tar", "tar"}, {"curl", "curl"},
	} {
		need.Program(t, program[0], program[1])
	}
	t.Run("who starts the test", func(t *testing.T) { mustWork(t, os.Getuid()) })
	if os.Getuid() == 0 {
		t.Run("an ordinary user", func(t *testing.T) { mustWork(t, 60001) })
	}
}

// mustWork runs the list as the user uid.
func mustWork(t *testing.T, uid int) {
	p := newPlace(t)
	const inside = "http://127.0.0.1:4873" // each command has a loopback of its own
	outside := httptest.NewServer(http.FileServer(http.Dir(filepath.Join(p.home, "mirror"))))
	t.Cleanup(outside.Close)
	mirror(t, filepath.Join(p.work, "mirror"), inside)
	mirror(t, filepath.Join(p.home, "mirror"), outside.URL)
	moduleProxy(t, filepath.Join(p.work, "modules"))
	for name, content := range map[string]string{
		"work/app/go.mod":       "module example.test/app\n\ngo 1.21\n\nrequire example.test/dep v1.0.0\n",
		"work/app/main.go":      "package main\n\nimport \"example.test/dep\"\n\nfunc main() { println(dep.Answer()) }\n",
		"work/app/main_test.go": "package main\n\nimport (\n\t\"testing\"\n\n\t\"example.test/dep\"\n)\n\nfunc TestAnswer(t *testing.T) {\n\tif dep.Answer() != 42 {\n\t\tt.Fail()\n\t}\n}\n",
		"work/test_dep.py":      "import unittest\nclass Test(unittest.TestCase):\n    def test_sum(self):\n        self.assertEqual(1 + 1, 2)\n",
		"work/Makefile":         "all: hello\n\t./hello\nhello: hello.c\n\tgcc -o $@ $<\n",
		"work/hello.c":          "#include <stdio.h>\nint main(void) { puts(\"compiled\"); return 0; }\n",
		"work/network.yml":      fmt.Sprintf("- id: network\n  config:\n    allow: [%q]\n", strings.TrimPrefix(outside.URL, "http://")),
	} {
		path := filepath.Join(filepath.Dir(p.work), name)
		check(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)))
	}
	npm := func(name, url string) {
		check(t, os.Mkdir(filepath.Join(p.work, name), 0o755))
		p.file(name+"/package.json", `{"name":"app","version":"1.0.0","dependencies":{"dep":"1.0.0"}}`)
		p.file(name+"/package-lock.json", fmt.Sprintf(`{"name":"app","version":"1.0.0","lockfileVersion":3,"requires":true,"packages":{
			"":{"name":"app","version":"1.0.0","dependencies":{"dep":"1.0.0"}},
			"node_modules/dep":{"version":"1.0.0","resolved":"%s/dep-1.0.0.tgz","integrity":%q}}}`, url, integrity(tarball(t))))
	}
	npm("clean", inside)
	npm("proxied", outside.URL)

	const (
		serve = "/usr/bin/python3 -m http.server 4873 --bind 127.0.0.1 --directory mirror >/dev/null 2>&1 & trap 'kill $!' EXIT; " +
			"curl -sf --retry 40 --retry-connrefused --retry-delay 1 --retry-max-time 20 -o /dev/null " + inside + "/dep; "
		git     = "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b.c GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b.c; "
		goEnv   = "cd app; export GOPROXY=file://$PWD/../modules GOSUMDB=off GOFLAGS=-mod=mod GOTOOLCHAIN=local CGO_ENABLED=0; "
		pip     = "/usr/bin/python3 -m pip install --quiet --disable-pip-version-check --no-cache-dir "
		npmArgs = " --no-audit --no-fund --no-update-notifier --registry "
		direct  = "env -u NO_PROXY -u no_proxy " // what is outside has the name of the loopback
	)
	steps := []struct{ name, command, want string }{
		{"git commit", git + "git init -q -b main repo; cd repo; echo a > a; git add a; git commit -qm one; git log --format=%s", "one"},
		{"git branch and merge", git + "cd repo; git switch -qc side; echo b > b; git add b; git commit -qm two; git switch -q main; git merge -q --no-ff -m three side; git log --format=%s --merges", "three"},
		{"git worktree", git + "cd repo; git worktree add -q ../tree -b tree; cd ../tree; echo c > c; git add c; git commit -qm four; git -C ../repo log --format=%s tree -1", "four"},
		{"git in the folder itself", git + "git init -q -b main; git add Makefile; git commit -qm top; git status --short Makefile; git log --format=%s", "top"},
		{"go build", goEnv + "go build -o ../app.bin .; ../app.bin", "42"},
		{"npm ci", serve + "cd clean; npm ci" + npmArgs + inside + "; node -e 'console.log(require(\"dep\"))'", "from the mirror"},
		{"npm install", serve + "mkdir fresh; cd fresh; echo '{}' > package.json; npm install dep" + npmArgs + inside + "; node -p 'require(\"dep\")'", "from the mirror"},
		{"npm ci through the proxy", "cd proxied; " + direct + "npm ci" + npmArgs + outside.URL + "; node -p 'require(\"dep\")'", "from the mirror"},
		{"pip install of a wheel", pip + "--no-index --target one mirror/simple/dep/dep-1.0-py3-none-any.whl; PYTHONPATH=one /usr/bin/python3 -c 'import dep; print(dep.answer)'", "of the wheel"},
		{"pip install from an index", serve + pip + "--index-url " + inside + "/simple --target two dep; PYTHONPATH=two /usr/bin/python3 -c 'import dep; print(dep.answer)'", "of the wheel"},
		{"pip install through the proxy", direct + pip + "--index-url " + outside.URL + "/simple --target three dep; PYTHONPATH=three /usr/bin/python3 -c 'import dep; print(dep.answer)'", "of the wheel"},
		{"venv", "/usr/bin/python3 -m venv --without-pip v; v/bin/python -c 'import sys; print(sys.prefix != sys.base_prefix)'", "True"},
		{"unittest", "/usr/bin/python3 -m unittest -v test_dep 2>&1", "OK"},
		{"pytest", "pytest-3 -q test_dep.py", "1 passed"},
		{"a server on localhost", serve + "curl -sf " + strings.Replace(inside, "127.0.0.1", "localhost", 1) + "/dep-1.0.0.tgz | tar -tz", "package/index.js"},
		{"a unix socket", `node -e '
			const net = require("net"), s = net.createServer(c => c.end("by the socket")).listen("s.sock", () =>
				net.connect("s.sock").on("data", d => console.log(String(d))).on("close", () => s.close()))'`, "by the socket"},
		{"rename across folders", "mkdir -p from to; echo moved > from/a; mv from/a to/b; mv to from/; cat from/to/b", "moved"},
		{"a file in memory", `/usr/bin/python3 -c '
import os, shutil
fd = os.memfd_create("x", 0)
with open("/bin/echo", "rb") as f: os.write(fd, f.read())
os.execv("/proc/self/fd/%d" % fd, ["echo", "from memory"])'`, "from memory"},
		{"no terminal", "if (: < /dev/tty) 2>/dev/null; then echo a terminal; else echo none; fi", "none"},
		{"make", "make -s", "compiled"},
		{"node", "node -e 'console.log([1, 2].map(n => n * 2).join())'", "2,4"},
		{"tar", "tar -czf a.tar.gz app; mkdir x; tar -xzf a.tar.gz -C x; diff -r app x/app; echo same", "same"},
		{"find", "find app -name '*.go' -newer /etc/passwd -exec grep -l testing {} +", "app/main_test.go"},
		{"sed", "cp Makefile m.txt; sed -i s/hello/world/ m.txt; head -1 m.txt", "all: world"},
		{"temporary files", "f=$(mktemp); echo t > $f; d=$(mktemp -d -p /tmp); cp $f $d/t; cat $d/t", "t"},
		{"pipes and jobs", "yes | head -3 | wc -l; sleep 0.01 & wait; echo waited", "waited"},
	}
	if uid == os.Getuid() || os.Getenv("DSH_TEST_FULL") != "" { // it compiles the package testing, for long, so once is enough
		steps = append(steps, struct{ name, command, want string }{"go test", goEnv + "go test -vet=off .", "ok"})
	}
	var calls []testllm.Call
	for _, s := range steps {
		calls = append(calls, shell(s.name, "set -e; "+s.command))
	}
	p.srv.Script(testllm.Calls(calls...), testllm.Text("done"))

	p.give(uid)
	if doctor := p.as(uid, "doctor", "--offline"); !strings.Contains(doctor.Stdout, "ok   commands ") {
		need.Missing(t, "commands are not confined here: allow user namespaces: %s%s", doctor.Stdout, doctor.Stderr)
	}
	p.ok(p.as(uid, "run", "--patch", "network.yml", "hi"), "done")
	got := results(p.requests(2)[1])
	for _, s := range steps {
		lines := strings.Split(got[s.name], "\n")
		starts := func(line string) bool { return strings.HasPrefix(line, s.want) }
		if !strings.Contains(got[s.name], "[exit code 0]") || !slices.ContainsFunc(lines, starts) {
			t.Errorf("%s: %q, want a line %q", s.name, got[s.name], s.want)
		}
	}
}

// give makes a place that of another user.
func (p *place) give(uid int) {
	p.t.Helper()
	if uid == os.Getuid() {
		return
	}
	top := filepath.Dir(p.work)
	check(p.t, errors.Join(os.Chmod(filepath.Dir(binary), 0o755), os.Chmod(filepath.Dir(top), 0o755)))
	check(p.t, filepath.WalkDir(top, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, uid, uid))
	}))
}

// as runs dsh as a user, for at most four minutes, with programs that all users have.
func (p *place) as(uid int, args ...string) outcome {
	p.t.Helper()
	goProgram, err := exec.LookPath("go")
	check(p.t, err)
	ctx, cancel := context.WithTimeout(p.t.Context(), 4*time.Minute)
	defer cancel()
	c := p.command(ctx, args...)
	c.Env = append(c.Env, "PATH="+filepath.Dir(goProgram)+":/usr/local/bin:/usr/bin:/bin")
	if uid != os.Getuid() {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
	return p.finish(ctx, c, func() error { return c.Run() })
}

// mirror lays out packages as their registries do, to be served at url.
func mirror(t *testing.T, dir, url string) {
	t.Helper()
	packed := tarball(t)
	for name, content := range map[string]string{
		"dep": fmt.Sprintf(`{"name":"dep","dist-tags":{"latest":"1.0.0"},"versions":{"1.0.0":{"name":"dep","version":"1.0.0","dist":{"tarball":"%s/dep-1.0.0.tgz","integrity":%q}}}}`,
			url, integrity(packed)),
		"dep-1.0.0.tgz":         string(packed),
		"simple/dep/index.html": `<!DOCTYPE html><html><body><a href="dep-1.0-py3-none-any.whl">dep-1.0-py3-none-any.whl</a></body></html>`,
		"simple/dep/dep-1.0-py3-none-any.whl": zipped(t, map[string]string{
			"dep.py":                     "answer = 'of the wheel'\n",
			"dep-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: dep\nVersion: 1.0\n",
			"dep-1.0.dist-info/WHEEL":    "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
			"dep-1.0.dist-info/RECORD":   "dep.py,,\ndep-1.0.dist-info/METADATA,,\ndep-1.0.dist-info/WHEEL,,\ndep-1.0.dist-info/RECORD,,\n",
		}),
	} {
		path := filepath.Join(dir, name)
		check(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)))
	}
}

// tarball is a package as npm wants it.
func tarball(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, f := range [][2]string{
		{"package/package.json", `{"name":"dep","version":"1.0.0","main":"index.js"}`},
		{"package/index.js", "module.exports = 'from the mirror';\n"},
	} {
		check(t, w.WriteHeader(&tar.Header{Name: f[0], Mode: 0o644, Size: int64(len(f[1]))}))
		_, err := w.Write([]byte(f[1]))
		check(t, err)
	}
	check(t, errors.Join(w.Close(), z.Close()))
	return b.Bytes()
}

func integrity(packed []byte) string {
	sum := sha512.Sum512(packed)
	return "sha512-" + base64.StdEncoding.EncodeToString(sum[:])
}

// moduleProxy lays out a Go module as GOPROXY wants it.
func moduleProxy(t *testing.T, dir string) {
	t.Helper()
	const mod = "module example.test/dep\n\ngo 1.21\n"
	for name, content := range map[string]string{
		"list":        "v1.0.0\n",
		"v1.0.0.info": `{"Version":"v1.0.0","Time":"2020-01-01T00:00:00Z"}`,
		"v1.0.0.mod":  mod,
		"v1.0.0.zip": zipped(t, map[string]string{
			"example.test/dep@v1.0.0/go.mod": mod,
			"example.test/dep@v1.0.0/dep.go": "package dep\n\nfunc Answer() int { return 42 }\n",
		}),
	} {
		path := filepath.Join(dir, "example.test/dep/@v", name)
		check(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)))
	}
}

func zipped(t *testing.T, files map[string]string) string {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for name, content := range files {
		f, err := w.Create(name)
		check(t, err)
		_, err = f.Write([]byte(content))
		check(t, err)
	}
	check(t, w.Close())
	return b.String()
}
