package mode

import (
	"context"
	"fmt"

	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/tool"
)

// enforce refuses a call that nobody decided on, or that is not any more what was
// decided on: an approval is for exactly one call.
func enforce(ctx context.Context, p *tool.Prepared, next plugin.Next[*tool.Prepared, tool.Result]) (tool.Result, error) {
	switch {
	case p.Digest == [32]byte{}:
		return refused(p, "nobody decided about it"), nil
	case p.Digest != tool.Digest(p.Call):
		return refused(p, "it is not any more what was decided on"), nil
	case p.Verdict.Decision > tool.Confined:
		return refused(p, fmt.Sprintf("the decision is %s", p.Verdict.Decision)), nil
	}
	return next(ctx, p)
}

func refused(p *tool.Prepared, why string) tool.Result {
	return tool.Failure(tool.CodeDenied, fmt.Sprintf("denied: %s did not run, because %s", p.Call.Name, why))
}
