package llm

import (
	"fmt"
	"slices"
	"strings"
)

// Model is what is known about a model. Zero means unknown. A model that no
// provider lists may still be called.
type Model struct {
	Provider string `json:"provider" doc:"the row's provider; may be left out"`
	ID       string `json:"id" doc:"the model's name, as the provider knows it"`
	Name     string `json:"name,omitempty" doc:"its name for people"`
	// Window is the size of the context in tokens, input and output together.
	Window int64 `json:"window,omitempty" doc:"tokens of input and output together"`
	// MaxOutput is the highest output ceiling of a request, in tokens.
	MaxOutput int64 `json:"maxOutput,omitempty" doc:"highest output ceiling of a request, in tokens"`
	Price     Price `json:"price,omitzero" doc:"without it costs are unknown"`
	// Modalities are the kinds of input: "text", "image". Nil means unknown.
	Modalities []string `json:"modalities,omitempty" doc:"kinds of input: text, image"`
	// Efforts are the reasoning efforts that the model offers, weakest first.
	Efforts       []string `json:"efforts,omitempty" doc:"reasoning efforts, weakest first; any other is refused"`
	DefaultEffort string   `json:"defaultEffort,omitempty" doc:"effort of a request that names none"`
}

// CheckEffort returns nil when the model offers effort, when effort is empty, or
// when nothing is known about the model's efforts; otherwise an [*Error] with
// [CodeUnsupported] that names what there is. Adapters call it before they send.
func (m Model) CheckEffort(effort string) error {
	if effort == "" || m.Efforts == nil || slices.Contains(m.Efforts, effort) {
		return nil
	}
	if len(m.Efforts) == 0 {
		return &Error{Code: CodeUnsupported, Message: fmt.Sprintf("%s has no reasoning effort to choose, %q was asked for", m.Ref(), effort)}
	}
	return &Error{Code: CodeUnsupported, Message: fmt.Sprintf(
		"%s has no reasoning effort %q; choose one of %s", m.Ref(), effort, strings.Join(m.Efforts, ", "))}
}

// Ref is the model's name as a person types it, provider/model.
func (m Model) Ref() string { return m.Provider + "/" + m.ID }

// Price is in US dollars for a million tokens.
type Price struct {
	Input      float64 `json:"input,omitempty" doc:"US dollars for a million tokens"`
	Output     float64 `json:"output,omitempty" doc:"US dollars for a million tokens, reasoning included"`
	CacheRead  float64 `json:"cacheRead,omitempty" doc:"US dollars for a million tokens that were in the provider's cache"`
	CacheWrite float64 `json:"cacheWrite,omitempty" doc:"US dollars for a million tokens that it puts there"`
}

// Cost returns what u costs in US dollars, and false when the price is unknown.
func (p Price) Cost(u Usage) (float64, bool) {
	if p == (Price{}) {
		return 0, false
	}
	return (float64(u.Input)*p.Input + float64(u.Output)*p.Output +
		float64(u.CacheRead)*p.CacheRead + float64(u.CacheWrite)*p.CacheWrite) / 1e6, true
}
