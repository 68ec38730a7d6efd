package acp

import (
	"errors"
	"io/fs"

	"github.com/dsh-harness/dsh/internal/jsonrpc"
	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/protocol"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/surface/live"
)

// Codes of errors beside those of the standard.
const (
	codeLocked = -32010 // another process holds the session
	codeBusy   = -32011 // the session does something
)

// explain gives an error the code and the data that a client can act on.
func explain(err error) error {
	var (
		known   *jsonrpc.Error
		locked  *session.LockedError
		damage  *session.DamageError
		newer   *session.VersionError
		unknown *live.UnknownError
		busy    *live.BusyError
		model   *llm.Error
	)
	problem := func(code int, p protocol.Problem) error { return jsonrpc.NewError(code, p, "%s", err) }
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return err
	case errors.As(err, &locked):
		return problem(codeLocked, protocol.Problem{Code: "locked", Locked: &protocol.Owner{
			PID: locked.Owner.PID, Host: locked.Owner.Host, Address: locked.Owner.Address,
		}})
	case errors.As(err, &busy):
		return problem(codeBusy, protocol.Problem{Code: "busy"})
	case errors.Is(err, session.ErrNotFound):
		return problem(protocol.CodeNotFound, protocol.Problem{Code: "not-found"})
	case errors.As(err, &damage), errors.As(err, &newer):
		return problem(jsonrpc.CodeInternal, protocol.Problem{Code: "damaged"})
	case errors.As(err, &unknown):
		return problem(jsonrpc.CodeParams, protocol.Problem{Code: "unknown-" + unknown.What, Known: unknown.Known})
	case errors.Is(err, live.ErrAnswer), errors.Is(err, fs.ErrNotExist):
		return problem(jsonrpc.CodeParams, protocol.Problem{Code: "invalid"})
	case errors.As(err, &model):
		if model.Code == llm.CodeAuth || model.Code == llm.CodeMissingKey {
			return problem(protocol.CodeAuthRequired, protocol.Problem{Code: "missing-key"})
		}
		return problem(jsonrpc.CodeInternal, protocol.Problem{Code: string(model.Code)})
	case errors.Is(err, live.ErrClosed):
		return problem(jsonrpc.CodeInternal, protocol.Problem{Code: "closed"})
	}
	return jsonrpc.NewError(jsonrpc.CodeInternal, protocol.Problem{Code: "failed"}, "%s", err)
}

// invalid is the error of parameters that are understood and cannot be right.
func invalid(format string, a ...any) error {
	return jsonrpc.NewError(jsonrpc.CodeParams, protocol.Problem{Code: "invalid"}, format, a...)
}
