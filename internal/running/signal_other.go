//go:build !unix

package running

const supported = false

func hangup(int) error { return ErrUnsupported }

func exists(int) bool { return false }
