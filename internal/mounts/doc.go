// Package mounts says what is mounted below a folder, so that removing the folder does not
// empty a disk that somebody mounted there. Any goroutine may call it.
package mounts
