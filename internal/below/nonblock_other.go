//go:build !unix

package below

// nonblock is nothing where no file can be a pipe.
const nonblock = 0
