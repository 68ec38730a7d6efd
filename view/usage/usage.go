// Package usage shows what a session has used: tokens, how full the context is, and money. It is the plugin "view-usage",
// without configuration, and the example of a capability that brings its own view: it adds the projection "usage" to [view.Projections], with a
// panel for terminals and the editor's usage_update.
//
//	# cordis.yml
//	- {id: view-usage, plugin: view-usage}
//
// Folds are used by one goroutine at a time, everything else from any.
package usage

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/protocol"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/view"
)

// Name is the name of the projection.
const Name = "usage"

// Usage is the value of the projection.
type Usage struct {
	Model  string `json:"model,omitempty" doc:"provider/model of the last request"`
	Effort string `json:"effort,omitempty" doc:"of the last request"`
	// Context is how many tokens the last request and its answer had: what the next one begins with.
	Context int64 `json:"context" doc:"tokens of the last request and its answer"`
	Window  int64 `json:"window,omitempty" doc:"tokens that the model can take; absent when unknown"`

	Requests   int64 `json:"requests" doc:"answered requests"`
	Input      int64 `json:"input" doc:"tokens that were not cached"`
	CacheRead  int64 `json:"cacheRead" doc:"tokens that the provider had in its cache"`
	CacheWrite int64 `json:"cacheWrite" doc:"tokens that it put there"`
	Output     int64 `json:"output" doc:"tokens, reasoning included"`
	Reasoning  int64 `json:"reasoning" doc:"tokens of the output"`
	// Cost is nil when the price of a model is not known, or a provider did not tell what was used.
	Cost *float64 `json:"cost,omitempty" doc:"US dollars; absent when unknown"`
}

// Plugin adds the projection.
var Plugin = plugin.Plugin[struct{}]{
	Name:  "view-usage",
	Doc:   "Shows tokens, context and cost of a session.",
	Needs: []plugin.Need{llm.Service.Optional()},
	Start: func(_ context.Context, s *plugin.Scope, _ struct{}) error {
		_, err := view.Projections.Add(s, Name, view.Projection{
			Doc:    "Tokens, context and cost of the session.",
			Type:   reflect.TypeFor[Usage](),
			New:    func(of *plugin.Scope) view.Fold { return newFold(prices(s, of)) },
			Panel:  func(value any) protocol.Panel { return panel(value.(Usage)) },
			Update: func(value any) protocol.Update { return update(value.(Usage)) },
		})
		return err
	},
}

// prices looks up what a model costs, with the services that s may use and the providers that of sees.
func prices(s, of *plugin.Scope) func(ref string) llm.Price {
	return func(ref string) llm.Price {
		runtime, ok := llm.Service.Current(s)
		if !ok {
			return llm.Price{}
		}
		m, err := runtime.Resolve(of, ref)
		if err != nil {
			return llm.Price{} // a model that is gone has no price
		}
		return m.Price
	}
}

// fold follows one session.
type fold struct {
	price func(ref string) llm.Price
	value Usage
	cost  float64
	// unpriced is set once something cannot be counted in money.
	unpriced bool
	// priced is the model that cost stands for.
	priced string
	per    llm.Price
}

func newFold(price func(ref string) llm.Price) *fold { return &fold{price: price} }

// Value returns the value as it is.
func (f *fold) Value() any { return f.value }

// Apply counts an event.
func (f *fold) Apply(e session.Event) bool {
	switch e.Type {
	case session.RequestContext:
		var d session.RequestContextData
		if json.Unmarshal(e.Data, &d) != nil {
			return false
		}
		f.value.Model, f.value.Window = d.Provider+"/"+d.Model, d.Window
		return true
	case session.RequestHeader:
		var d struct {
			Params struct{ Effort string }
		}
		if json.Unmarshal(e.Data, &d) != nil || d.Params.Effort == f.value.Effort {
			return false
		}
		f.value.Effort = d.Params.Effort
		return true
	case session.AssistantMessage:
		var d struct {
			Provider, Model string
			Usage           *llm.Usage
		}
		if json.Unmarshal(e.Data, &d) != nil {
			return false
		}
		f.count(d.Provider+"/"+d.Model, d.Usage)
		return true
	case session.Rewound:
		f.value.Context = 0 // what is left is counted with the next answer
		return true
	}
	return false
}

func (f *fold) count(ref string, u *llm.Usage) {
	v := &f.value
	v.Requests++
	if u == nil {
		f.unpriced, v.Cost = true, nil
		return
	}
	v.Input += u.Input
	v.CacheRead += u.CacheRead
	v.CacheWrite += u.CacheWrite
	v.Output += u.Output
	v.Reasoning += u.Reasoning
	v.Context = u.Total()
	if f.priced != ref {
		f.priced, f.per = ref, f.price(ref)
	}
	cost, known := f.per.Cost(*u)
	f.cost += cost
	f.unpriced = f.unpriced || !known
	v.Cost = nil
	if !f.unpriced {
		sum := f.cost
		v.Cost = &sum
	}
}

// update tells an editor how full the context is. It needs the size of the window.
func update(u Usage) protocol.Update {
	if u.Window == 0 {
		return protocol.Update{}
	}
	body := protocol.Usage{Used: u.Context, Size: u.Window}
	if u.Cost != nil {
		body.Cost = &protocol.Cost{Amount: *u.Cost, Currency: "USD"}
	}
	return protocol.Update{Kind: protocol.UsageUpdate, Body: body}
}

// panel shows a value to people.
func panel(u Usage) protocol.Panel {
	p := protocol.Panel{Title: "Usage"}
	if u.Requests == 0 {
		p.Lines = []protocol.PanelLine{{Text: "Nothing has been sent yet."}}
		return p
	}
	var status []string
	line := func(text, note string) { p.Lines = append(p.Lines, protocol.PanelLine{Text: text, Note: note}) }
	if u.Model != "" {
		line("Model", strings.TrimSpace(u.Model+" "+u.Effort))
	}
	if u.Window > 0 {
		percent := float64(u.Context) / float64(u.Window) * 100
		mark := protocol.MarkNone
		if percent >= 80 {
			mark = protocol.MarkWarning
		}
		p.Lines = append(p.Lines, protocol.PanelLine{Mark: mark, Text: "Context", Note: fmt.Sprintf("%s of %s tokens, %.0f %%", Tokens(u.Context), Tokens(u.Window), percent)})
		status = append(status, fmt.Sprintf("%.0f %% context", percent))
	} else {
		line("Context", Tokens(u.Context)+" tokens")
		status = append(status, Tokens(u.Context)+" context")
	}
	line("Requests", fmt.Sprint(u.Requests))
	all := u.Input + u.CacheRead + u.CacheWrite
	note := Tokens(all) + " tokens"
	if all > 0 && u.CacheRead > 0 {
		note += fmt.Sprintf(", %.0f %% from the cache", float64(u.CacheRead)/float64(all)*100)
	}
	line("Input", note)
	note = Tokens(u.Output) + " tokens"
	if u.Reasoning > 0 {
		note += ", " + Tokens(u.Reasoning) + " of them reasoning"
	}
	line("Output", note)
	if u.Cost != nil {
		money := Money(*u.Cost)
		line("Cost", money)
		status = append(status, money)
	} else {
		line("Cost", "not known: a model has no price in the configuration, or did not tell what it used")
	}
	p.Status = strings.Join(status, ", ")
	return p
}

// Tokens writes a number of tokens in few characters, such as 950, 12.3k or 1.2M.
func Tokens(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprint(n)
	case n < 99_950:
		return fmt.Sprintf("%.1fk", float64(n)/1000)
	case n < 999_500:
		return fmt.Sprintf("%.0fk", float64(n)/1000)
	}
	return fmt.Sprintf("%.1fM", float64(n)/1e6)
}

// Money writes US dollars, with more digits when there are few.
func Money(dollars float64) string {
	switch {
	case dollars == 0 || dollars >= 0.995:
		return fmt.Sprintf("$%.2f", dollars)
	case dollars >= 0.001:
		return fmt.Sprintf("$%.3f", dollars)
	}
	return fmt.Sprintf("$%.5f", dollars)
}
