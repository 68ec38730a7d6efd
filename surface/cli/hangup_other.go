//go:build !unix

package cli

import "os"

func notifyHangup(chan<- os.Signal) {}
