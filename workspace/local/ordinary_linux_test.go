package local_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// asOrdinaryUser runs the test again in a process of a user without rights when this one is root's, and reports whether it did:
// what tries to get out must not be root when the sandbox, which is what is tested, does not hold.
func asOrdinaryUser(t *testing.T) (done bool) {
	t.Helper()
	if os.Geteuid() != 0 {
		return false
	}
	const user = 60001
	base := realDirBeside(t)
	for _, name := range []string{"home", "tmp"} {
		must(t, os.Mkdir(filepath.Join(base, name), 0o755))
		must(t, os.Chown(filepath.Join(base, name), user, user))
	}
	must(t, os.Chmod(base, 0o755))
	must(t, os.Chown(base, user, user))
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v", "-test.paniconexit0=false")
	cmd.Dir = base
	cmd.Env = append(os.Environ(), "HOME="+filepath.Join(base, "home"), "TMPDIR="+filepath.Join(base, "tmp"), "DSH_HOME="+filepath.Join(base, "dsh"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
		t.Fatalf("as user %d: %v\n%s", user, err, out)
	}
	return true
}
