//go:build amd64 || arm64

package sandbox

import (
	"encoding/binary"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/dsh-harness/dsh/workspace"
)

// call is a system call as a filter sees it.
type call struct {
	arch, number uint32
	args         [6]uint64
}

// judge runs a filter as the kernel does, and fails where the kernel would refuse it.
func judge(t interface{ Fatalf(string, ...any) }, p program, c call) uint32 {
	data := make([]byte, 64)
	binary.LittleEndian.PutUint32(data[offsetNumber:], c.number)
	binary.LittleEndian.PutUint32(data[offsetArch:], c.arch)
	for i, a := range c.args {
		binary.LittleEndian.PutUint64(data[offsetArgs+8*i:], a)
	}
	var word uint32
	for at := 0; ; at++ {
		if at >= len(p) {
			t.Fatalf("the filter ends without a decision for %+v", c)
		}
		in := p[at]
		var holds bool
		switch in.Code {
		case loadWord:
			if in.K%4 != 0 || in.K+4 > uint32(len(data)) {
				t.Fatalf("instruction %d loads at %d", at, in.K)
			}
			word = binary.LittleEndian.Uint32(data[in.K:])
			continue
		case returnWord:
			return in.K
		case ifEqual:
			holds = word == in.K
		case ifAtLeast:
			holds = word >= in.K
		case ifAnyBit:
			holds = word&in.K != 0
		default:
			t.Fatalf("instruction %d has the code %#x", at, in.Code)
		}
		if holds {
			at += int(in.Jt)
		} else {
			at += int(in.Jf)
		}
	}
}

func TestTrust_S07_WhatTheFilterDecides(t *testing.T) {
	const eperm, enosys, family = uint32(unix.SECCOMP_RET_ERRNO) | uint32(unix.EPERM), uint32(unix.SECCOMP_RET_ERRNO) | uint32(unix.ENOSYS), uint32(unix.SECCOMP_RET_ERRNO) | uint32(unix.EAFNOSUPPORT)
	socket := func(domain uint64) call {
		return call{auditArch, unix.SYS_SOCKET, [6]uint64{domain, unix.SOCK_STREAM}}
	}
	ioctl := func(request uint64) call { return call{auditArch, unix.SYS_IOCTL, [6]uint64{0, request}} }
	clone := func(flags uint64) call { return call{auditArch, unix.SYS_CLONE, [6]uint64{flags}} }
	for _, c := range []struct {
		name          string
		call          call
		full, partial uint32
	}{
		{"read", call{auditArch, unix.SYS_READ, [6]uint64{}}, pass, pass},
		{"execve", call{auditArch, unix.SYS_EXECVE, [6]uint64{}}, pass, pass},
		{"i386", call{unix.AUDIT_ARCH_I386, 1, [6]uint64{}}, kill, kill},
		{"arm", call{unix.AUDIT_ARCH_ARM, 1, [6]uint64{}}, kill, kill},
		{"mount", call{auditArch, unix.SYS_MOUNT, [6]uint64{}}, eperm, eperm},
		{"ptrace", call{auditArch, unix.SYS_PTRACE, [6]uint64{}}, eperm, eperm},
		{"io_uring", call{auditArch, unix.SYS_IO_URING_SETUP, [6]uint64{}}, eperm, eperm},
		{"unshare", call{auditArch, unix.SYS_UNSHARE, [6]uint64{}}, eperm, eperm},
		{"clone3", call{auditArch, unix.SYS_CLONE3, [6]uint64{}}, enosys, enosys},
		{"clone of a thread", clone(unix.CLONE_VM | unix.CLONE_THREAD | unix.CLONE_SIGHAND), pass, pass},
		{"clone with a namespace of users", clone(unix.CLONE_NEWUSER | uint64(unix.SIGCHLD)), eperm, eperm},
		{"newer than we know", call{auditArch, firstUnknown + 7, [6]uint64{}}, enosys, enosys},
		{"TIOCSTI", ioctl(unix.TIOCSTI), eperm, eperm},
		{"TIOCSTI with high bits", ioctl(1<<32 | unix.TIOCSTI), eperm, eperm},
		{"TIOCLINUX", ioctl(tioclinux), eperm, eperm},
		{"TIOCGWINSZ", ioctl(unix.TIOCGWINSZ), pass, pass},
		{"unix socket", socket(unix.AF_UNIX), pass, pass},
		{"IPv4", socket(unix.AF_INET), pass, family},
		{"IPv6", socket(unix.AF_INET6), pass, family},
		{"netlink", socket(unix.AF_NETLINK), pass, family},
		{"IPv4 with high bits", socket(1<<32 | unix.AF_INET), pass, family},
		{"packet", socket(unix.AF_PACKET), family, family},
		{"vsock", socket(unix.AF_VSOCK), family, family},
		{"algorithm", socket(unix.AF_ALG), family, family},
	} {
		if got := judge(t, compile(workspace.SandboxFull), c.call); got != c.full {
			t.Errorf("%s, full: %#x, want %#x", c.name, got, c.full)
		}
		if got := judge(t, compile(workspace.SandboxPartial), c.call); got != c.partial {
			t.Errorf("%s, partial: %#x, want %#x", c.name, got, c.partial)
		}
	}
	if foreignFrom != 0 {
		if got := judge(t, compile(workspace.SandboxFull), call{auditArch, foreignFrom + 39, [6]uint64{}}); got != kill {
			t.Errorf("a call of x32: %#x", got)
		}
	}
}

// Every call gets a decision, and the same one however its arguments look where they do not count.
func TestTheFilterAlwaysDecides(t *testing.T) {
	p := compile(workspace.SandboxPartial)
	if len(p) > unix.BPF_MAXINSNS {
		t.Fatalf("the filter has %d instructions", len(p))
	}
	rapid.Check(t, func(t *rapid.T) {
		c := call{arch: rapid.SampledFrom([]uint32{auditArch, unix.AUDIT_ARCH_I386, 0}).Draw(t, "architecture"), number: rapid.Uint32Range(0, firstUnknown+10).Draw(t, "number")}
		for i := range c.args {
			c.args[i] = rapid.Uint64().Draw(t, "argument")
		}
		got := judge(t, p, c)
		switch c.number {
		case unix.SYS_CLONE, unix.SYS_IOCTL, unix.SYS_SOCKET, unix.SYS_SOCKETPAIR:
			return
		}
		if plain := judge(t, p, call{arch: c.arch, number: c.number}); plain != got {
			t.Fatalf("%+v: %#x, without arguments %#x", c, got, plain)
		}
		if c.arch != auditArch && got != kill {
			t.Fatalf("%+v of another architecture: %#x", c, got)
		}
	})
}
