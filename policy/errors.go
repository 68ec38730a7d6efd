package policy

import "errors"

// ErrNobody is in the chain of the error of an [Approver] that nobody can
// answer.
var ErrNobody = errors.New("nobody could approve")
