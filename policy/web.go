package policy

import (
	"context"
	"fmt"
	"net/http"

	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/tool"
	"github.com/dsh-harness/dsh/workspace"
)

// Web is the key of the service by which tools reach other machines. A tool has no other way.
var Web = plugin.NewKey[WebClient]("web")

// WebClient makes HTTP requests for tools. It may be used by many goroutines at once.
type WebClient interface {
	// Do sends r, whose address is http or https, for the call c and returns the answer, whatever its status. The
	// host of each request, those that redirects lead to included, has to be allowed by a rule or by
	// [workspace.GrantOf] of ctx, and lead to no private address. The body is decoded; reading it fails where a
	// limit is reached, and the caller closes it. Errors have a [*RefusedError] or a [*LimitError] in their chain when it was not
	// the network that failed. Cancelling ctx ends the request and the reading of its body.
	Do(ctx context.Context, c *tool.Call, r *http.Request) (*http.Response, error)
}

// RefusedError says that a host may not be reached.
type RefusedError struct {
	Refusal workspace.Refusal
	Allow   string // what would allow it, "" when nothing does
}

func (e *RefusedError) Error() string {
	text := fmt.Sprintf("reaching %s is refused: %s", e.Refusal.Target, e.Refusal.Rule)
	if e.Allow != "" {
		text += "; to allow it: " + e.Allow
	}
	return text
}

// LimitError says that an answer was cut because it reached a limit.
type LimitError struct {
	Limit Limit
	Max   int64 // bytes, milliseconds, hops, or decoded bytes for each byte sent
}

func (e *LimitError) Error() string {
	switch e.Limit {
	case LimitBytes:
		return fmt.Sprintf("the answer is longer than %d bytes", e.Max)
	case LimitTime:
		return fmt.Sprintf("the answer took longer than %d ms", e.Max)
	case LimitRedirects:
		return fmt.Sprintf("more than %d redirects", e.Max)
	case LimitRatio:
		return fmt.Sprintf("the answer unpacks to more than %d times its size", e.Max)
	case LimitUpload:
		return fmt.Sprintf("the request sends more than %d bytes", e.Max)
	}
	return fmt.Sprintf("limit %q of %d", e.Limit, e.Max)
}

// Limit names what a [LimitError] is about.
type Limit string

const (
	LimitBytes     Limit = "bytes"     // of the body, decoded
	LimitTime      Limit = "time"      // from the request to the end of the body
	LimitRedirects Limit = "redirects" // followed
	LimitRatio     Limit = "ratio"     // of decoded to sent bytes
	LimitUpload    Limit = "upload"    // of the request's body
)
