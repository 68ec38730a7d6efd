package tui

import "os"

// notifyResize tells nothing: there is no signal for it here.
func notifyResize(chan<- os.Signal) {}

// suspend is not possible here.
func (u *ui) suspend() { u.message = "there is no suspending here" }
