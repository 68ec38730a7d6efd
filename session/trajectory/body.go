package trajectory

import (
	"encoding/json"

	"github.com/dsh-harness/dsh/llm"
)

// Body returns the bytes that r is sent as. exact is false when its provider is not configured here, or cannot tell; then they are the request in
// the harness's own form.
func Body(r *llm.Request, provider func(name string) (llm.Provider, bool)) (body []byte, exact bool, err error) {
	if p, ok := provider(r.Header.Provider); ok {
		if e, ok := p.Adapter.(llm.Encoder); ok {
			body, err = e.Encode(r)
			return body, err == nil, err
		}
	}
	body, err = json.MarshalIndent(struct {
		Header   *llm.Header    `json:"header"`
		Messages []*llm.Message `json:"messages"`
	}{r.Header, r.History.Messages()}, "", "  ")
	return body, false, err
}
