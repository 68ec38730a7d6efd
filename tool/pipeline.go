package tool

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"github.com/dsh-harness/dsh/plugin"
)

// Prepared is a call that went through [Registry.Prepare].
type Prepared struct {
	Call       *Call
	Definition Definition // zero when there is no such tool
	// Refused is the result of a call that must not run.
	Refused *Result
	// Verdict is what the policy said.
	Verdict Verdict
	// Opinions is what was thought of the call as it runs, in order, see [Pending.Note].
	Opinions []Opinion
	// Digest is the [Digest] of the call as it was decided on; zero when nobody
	// decided. A listener of the stage [Permission] compares it.
	Digest [32]byte
}

// Digest identifies what a call does: it hashes the tool's name, the folders of the
// workspace, and the arguments.
func Digest(c *Call) [32]byte {
	h := sha256.New()
	h.Write([]byte(c.Name))
	h.Write([]byte{0}) // neither a name nor a path holds it
	if c.Workspace != nil {
		for _, dir := range c.Workspace.Roots() {
			h.Write([]byte(dir))
			h.Write([]byte{0})
		}
	}
	h.Write([]byte{0})
	h.Write(c.Arguments)
	return [32]byte(h.Sum(nil))
}

// Decision is what may happen with a call. A greater one is stricter and wins.
type Decision int

const (
	Allow    Decision = iota // it runs
	Confined                 // it runs in the sandbox
	Ask                      // somebody has to allow it
	Deny                     // it does not run
)

func (d Decision) String() string {
	switch d {
	case Allow:
		return "allow"
	case Confined:
		return "confined"
	case Ask:
		return "ask"
	case Deny:
		return "deny"
	}
	return "unknown decision"
}

// Verdict is the outcome of [PreExecute].
type Verdict struct {
	Decision Decision // Allow or Confined: it runs; Ask: nobody could approve; Deny
	// Reason is for the model and the person: which rule or who, and why.
	Reason string
	By     string // the plugin, rule or person that decided
}

// Pending is a call on its way through [PreExecute]. Listeners of the stage
// [Rewrite] may change the arguments with [Pending.Rewrite], those of [Decide]
// raise the decision with [Pending.Raise], those of [Answer] answer [Ask] with
// [Pending.Settle]; all then call next and return what it returns. What they return
// may be stricter than the decision, never laxer. One goroutine has it at a time.
type Pending struct {
	Call       *Call // its arguments are valid
	Definition Definition
	Verdict    Verdict

	rewrittenBy string
	decidedOn   [32]byte
	permit      *Opinion
	opinions    []Opinion
	amended     json.RawMessage
	amendedBy   string
	permitLater *Opinion
	approved    [32]byte
}

// Opinion is what one listener thinks of a call.
type Opinion struct {
	Decision Decision
	By       string // the plugin, rule or mode
	Reason   string
	// Part is what of the call it is about, such as one command of a line; "" is all of it.
	Part string
}

// Rewrite replaces the arguments of the call by others, which are checked like
// those of a model: the error names every violation. Once somebody has decided
// about the call it fails, since the decision was about other arguments.
func (p *Pending) Rewrite(by string, arguments json.RawMessage) error {
	if p.Verdict.By != "" {
		return fmt.Errorf("%s rewrites the arguments of %s: %s has decided about them already", by, p.Call.Name, p.Verdict.By)
	}
	checked, err := p.Definition.Check(string(arguments))
	if err != nil {
		return fmt.Errorf("%s rewrites the arguments of %s: %w", by, p.Call.Name, err)
	}
	if !bytes.Equal(checked, p.Call.Arguments) {
		p.Call.Arguments, p.rewrittenBy = checked, by
	}
	return nil
}

// RewrittenBy returns who rewrote the arguments last, "" when nobody did.
func (p *Pending) RewrittenBy() string { return p.rewrittenBy }

// Raise makes the decision at least d; the reason of the strictest is kept, the
// first of equals.
func (p *Pending) Raise(d Decision, by, reason string) {
	p.Note(Opinion{Decision: d, By: by, Reason: reason})
	if p.Verdict.By == "" {
		p.decidedOn = Digest(p.Call)
	} else if d <= p.Verdict.Decision {
		return
	}
	p.Verdict = Verdict{Decision: max(d, p.Verdict.Decision), Reason: reason, By: by}
}

// Permit notes that a rule which a person made allows the call. The first counts. It lifts
// nothing by itself: the mode asks no question that it would ask without a reason in the
// call itself, and everything stricter stays.
func (p *Pending) Permit(by, reason string) {
	o := Opinion{Decision: Allow, By: by, Reason: reason}
	p.Note(o)
	if p.permit == nil {
		p.permit = &o
	}
}

// Permitted returns who permitted the call and why, if anybody did.
func (p *Pending) Permitted() (o Opinion, ok bool) {
	if p.permit == nil {
		return Opinion{}, false
	}
	return *p.permit, true
}

// Note adds to what is told about the decision, and changes nothing.
func (p *Pending) Note(o Opinion) { p.opinions = append(p.opinions, o) }

// Opinions returns what was thought of the call, in order, for whoever explains a decision.
func (p *Pending) Opinions() []Opinion { return p.opinions }

// Amend has the call decided about anew with other arguments, which by, a person,
// allowed: [Answer] need not ask about them again, but all else holds as for any
// call. The error names every violation. The registry begins again once the waterfall is over.
func (p *Pending) Amend(by string, arguments json.RawMessage) error {
	checked, err := p.Definition.Check(string(arguments))
	if err != nil {
		return fmt.Errorf("%s edits the arguments of %s: %w", by, p.Call.Name, err)
	}
	p.amended, p.amendedBy = checked, by
	return nil
}

// Reconsider has the call decided about anew with what [Pending.Permit] notes, for a listener of the stage
// [Answer] that may lift the question of a mode and no other. The registry begins again once the waterfall is over.
func (p *Pending) Reconsider(by, reason string) {
	p.permitLater = &Opinion{Decision: Allow, By: by, Reason: reason}
}

// Again returns the call to be decided about with the arguments of [Pending.Amend], or with what
// [Pending.Reconsider] permits; ok is false when nobody called either. Only the registry calls it.
func (p *Pending) Again() (again *Pending, ok bool) {
	if permit := p.permitLater; permit != nil && p.amended == nil {
		again = &Pending{Call: p.Call, Definition: p.Definition, rewrittenBy: p.rewrittenBy}
		again.Permit(permit.By, permit.Reason)
		return again, true
	}
	if p.amended == nil {
		return nil, false
	}
	p.Call.Arguments = p.amended
	return &Pending{Call: p.Call, Definition: p.Definition, rewrittenBy: p.amendedBy, approved: Digest(p.Call)}, true
}

// ApprovedAlready reports whether a person allowed the call with exactly these arguments,
// by amending it, and who did.
func (p *Pending) ApprovedAlready() (by string, ok bool) {
	if p.approved == [32]byte{} || p.approved != Digest(p.Call) {
		return "", false
	}
	return p.rewrittenBy, true
}

// Settle answers [Ask]: by allowed the call or did not, and said why. Any other
// decision stays as it is.
func (p *Pending) Settle(allow bool, by, reason string) {
	if p.Verdict.Decision != Ask {
		return
	}
	p.Verdict = Verdict{Decision: Deny, Reason: reason, By: by}
	if allow {
		p.Verdict.Decision = Allow
	}
}

// DecidedOn returns the [Digest] of the call at its first decision, zero before.
func (p *Pending) DecidedOn() [32]byte { return p.decidedOn }

// Stages of [PreExecute].
const (
	Rewrite plugin.Stage = "rewrite"
	Decide  plugin.Stage = "decide"
	Answer  plugin.Stage = "ask"
)

// PreExecute decides about a call: tools/pre-execute. It runs in model order.
var PreExecute = plugin.NewWaterfall[*Pending, Verdict]("tools/pre-execute", Rewrite, Decide, Answer)

// Stages of [Execution].
const (
	Budget     plugin.Stage = "budget"
	Permission plugin.Stage = "permission" // refuses a call whose arguments were not decided on
	Barrier    plugin.Stage = "barrier"    // the log is durable before the body
	Timeout    plugin.Stage = "timeout"
	Sandbox    plugin.Stage = "sandbox"
)

// Execution wraps the body of a call: tools/execute.
var Execution = plugin.NewWaterfall[*Prepared, Result]("tools/execute", Budget, Permission, Barrier, Timeout, Sandbox)

// Stages of [PostExecute], outermost first: a result is inspected, then redacted, then
// made to fit, so that a file with what was too large holds no secret either.
const (
	Spill   plugin.Stage = "spill" // what is too large goes to a file
	Redact  plugin.Stage = "redact"
	Inspect plugin.Stage = "inspect" // replace, block or annotate a result
)

// PostExecute passes a finished call's result: tools/post-execute. Listeners call
// next for the result and return it, changed or not.
var PostExecute = plugin.NewWaterfall[*Prepared, Result]("tools/post-execute", Spill, Redact, Inspect)
