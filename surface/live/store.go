package live

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/dsh-harness/dsh/agent"
	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/protocol"
	"github.com/dsh-harness/dsh/session"
)

const (
	// maxPage bounds the events of one page, and maxPageBytes their lines.
	maxPage      = 1000
	maxPageBytes = 4 << 20
	// maxListed bounds the sessions of one answer.
	maxListed = 1000
)

func (h *Hub) store() (session.Store, error) {
	s, ok := session.Service.Current(h.scope)
	if !ok {
		return nil, errors.New(`no row provides "sessions"`)
	}
	return s, nil
}

func (h *Hub) kept() (session.Persistence, error) {
	p, ok := session.PersistenceService.Current(h.scope)
	if !ok {
		return nil, session.ErrNoPersistence
	}
	return p, nil
}

// Events returns a page of the log of a session, live or stored, of at most 4 MiB.
func (h *Hub) Events(ctx context.Context, p protocol.EventsParams) (protocol.EventsResult, error) {
	result := protocol.EventsResult{}
	limit := p.Limit
	if limit <= 0 || limit > maxPage {
		limit = maxPage
	}
	var events iter.Seq2[session.Event, error]
	if f, ok := h.current(p.SessionID); ok {
		f.mu.Lock()
		result.DurableSeq = f.durable
		f.mu.Unlock()
		if p.From < 0 {
			p.From = max(0, result.DurableSeq+p.From)
		}
		events = f.agent.Session().Events(ctx, p.From)
	} else {
		kept, err := h.kept()
		if err != nil {
			return result, err
		}
		view, err := kept.Load(ctx, p.SessionID)
		if err != nil {
			return result, err
		}
		summary, err := view.Summary(ctx)
		if err != nil {
			return result, err
		}
		result.DurableSeq = summary.Next
		if p.From < 0 {
			p.From = max(0, result.DurableSeq+p.From)
		}
		events = view.Events(ctx, p.From)
	}
	result.Next = p.From
	size := 0
	for e, err := range events {
		if err != nil {
			return result, err
		}
		line := e.Line()
		size += len(line)
		if e.Seq >= result.DurableSeq || result.Next-p.From == int64(limit) || (size > maxPageBytes && result.Next > p.From) {
			break
		}
		result.Next = e.Seq + 1
		if p.Raw {
			result.Lines = append(result.Lines, string(line))
		} else {
			one := protocol.Event{Line: line}
			if e.Type == session.ToolCall {
				if one.View, err = h.viewOf(p.SessionID, e); err != nil {
					return result, err
				}
			}
			result.Events = append(result.Events, one)
		}
	}
	return result, nil
}

// viewOf encodes how a call is shown.
func (h *Hub) viewOf(id string, e session.Event) (json.RawMessage, error) {
	var d session.ToolCallData
	if err := json.Unmarshal(e.Data, &d); err != nil {
		return nil, nil // it is shown as it stands
	}
	scope := h.scope
	if f, ok := h.current(id); ok {
		scope = f.scope()
	}
	return json.Marshal(h.present(scope, d.Name, d.Arguments))
}

// Search lists sessions, the last changed first, those in memory that are not stored yet included.
func (h *Hub) Search(ctx context.Context, p protocol.SearchParams) (protocol.SearchResult, error) {
	limit := p.Limit
	if limit <= 0 || limit > maxListed {
		limit = maxListed
	}
	result := protocol.SearchResult{Sessions: []protocol.SessionEntry{}}
	words := strings.Fields(strings.ToLower(p.Query))
	seen := map[string]bool{}
	for _, f := range h.all() {
		s := f.agent.Session()
		if s.Durable() > 0 && !f.ephemeral {
			continue // the store lists it
		}
		one := f.listed()
		if (p.Cwd == "" || one.Cwd == p.Cwd) && fitsWords(one, words) && len(result.Sessions) < limit {
			result.Sessions = append(result.Sessions, one)
		}
		seen[one.SessionID] = true
	}
	kept, err := h.kept()
	if errors.Is(err, session.ErrNoPersistence) {
		return result, nil
	}
	if err != nil {
		return result, err
	}
	for info, err := range kept.List(ctx, session.Filter{Cwd: p.Cwd, IncludeArchived: p.Archived}) {
		if err != nil {
			return result, err
		}
		one := h.entryOf(info)
		if len(result.Sessions) >= limit {
			break
		}
		if !seen[one.SessionID] && fitsWords(one, words) {
			result.Sessions = append(result.Sessions, one)
		}
	}
	return result, nil
}

// all returns the sessions in memory, by id.
func (h *Hub) all() []*feed {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]*feed, 0, len(h.feeds))
	for _, f := range h.feeds {
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b *feed) int { return cmp.Compare(a.entry.id, b.entry.id) })
	return all
}

func (f *feed) listed() protocol.SessionEntry {
	header, state := f.agent.Session().Header(), f.agent.Session().State()
	return protocol.SessionEntry{
		SessionID: f.entry.id, Cwd: header.Cwd, Title: state.Title, UpdatedAt: stamp(time.UnixMilli(header.Created)), Labels: state.Labels,
		Parent: header.Parent, Status: f.state(),
	}
}

func (h *Hub) entryOf(i session.Info) protocol.SessionEntry {
	e := protocol.SessionEntry{
		SessionID: i.Header.ID, Cwd: i.Header.Cwd, Title: i.Title, Prompt: i.Prompt, UpdatedAt: stamp(i.Modified), Bytes: i.Size,
		Archived: i.Archived, Labels: i.Labels, Parent: i.Header.Parent, Status: "stored",
	}
	if i.Err != nil {
		e.Problem = firstLine(i.Err)
	}
	if f, ok := h.current(e.SessionID); ok {
		e.Status = f.state()
	}
	return e
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func fitsWords(e protocol.SessionEntry, words []string) bool {
	text := strings.ToLower(e.SessionID + "\n" + e.Title + "\n" + e.Prompt)
	return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) })
}

// Update changes the title, the archive mark or the labels of a session, live or stored.
func (h *Hub) Update(ctx context.Context, id string, m session.MetaData) error {
	store, err := h.store()
	if err != nil {
		return err
	}
	return store.Update(ctx, id, m)
}

// BusyError says that a session does something, and so cannot be changed as a whole.
type BusyError struct{ ID, Doing string }

func (e *BusyError) Error() string {
	return fmt.Sprintf("session %s is %s; cancel its turn first", e.ID, e.Doing)
}

// Delete removes a session for good. One that runs is a [*BusyError]; whoever holds an idle one meets its end.
func (h *Hub) Delete(ctx context.Context, id string) error {
	kept, err := h.kept()
	if err != nil {
		return err
	}
	e, err := h.entry(id)
	if err != nil {
		return err
	}
	defer e.release()
	if err := e.lock(ctx); err != nil {
		return err
	}
	defer e.unlock()
	unstored := e.known && e.o.Resume == "" // it was parked before it had an event
	if f := e.now(); f != nil {
		if f.busy() {
			return &BusyError{id, f.state()}
		}
		unstored = f.agent.Session().Next() == 0
		if err := e.endLocked(ctx); err != nil {
			return err
		}
	}
	e.known = false
	e.o.Resume, e.o.SessionID = id, "" // who still holds it finds nothing, rather than beginning it again
	if unstored {
		return nil
	}
	return kept.Delete(ctx, id)
}

// Fork copies a session up to an event into a new one, which is stored.
func (h *Hub) Fork(ctx context.Context, p protocol.ForkParams) (protocol.ForkResult, error) {
	store, err := h.store()
	if err != nil {
		return protocol.ForkResult{}, err
	}
	header, err := store.Fork(ctx, session.ForkOptions{ID: p.SessionID, At: p.At})
	return protocol.ForkResult{SessionID: header.ID}, err
}

// Rewind takes the conversation back to behind an event. It waits for the end of a running turn.
func (s *Session) Rewind(ctx context.Context, to int64) error {
	f, err := s.awake(ctx)
	if err != nil {
		return err
	}
	return f.agent.Maintain(ctx, func(ctx context.Context) error {
		if _, err := f.agent.Session().Append(session.Draft{Type: session.Rewound, Data: session.RewoundData{To: to}}); err != nil {
			return fmt.Errorf("rewind session %s to event %d: %w", s.ID(), to, err)
		}
		return f.agent.Session().Flush(ctx)
	})
}

// Tree returns a session with its ancestors before it and its descendants behind it.
func (h *Hub) Tree(ctx context.Context, id string) (protocol.TreeResult, error) {
	kept, err := h.kept()
	if err != nil {
		return protocol.TreeResult{}, err
	}
	byID, children := map[string]protocol.SessionEntry{}, map[string][]string{}
	for info, err := range kept.List(ctx, session.Filter{IncludeArchived: true, IncludeSubagents: true}) {
		if err != nil {
			return protocol.TreeResult{}, err
		}
		e := h.entryOf(info)
		byID[e.SessionID] = e
		children[e.Parent] = append(children[e.Parent], e.SessionID)
	}
	if _, ok := byID[id]; !ok {
		return protocol.TreeResult{}, fmt.Errorf("session %s: %w", id, session.ErrNotFound)
	}
	result := protocol.TreeResult{}
	seen := map[string]bool{}
	for at := byID[id].Parent; at != "" && !seen[at]; at = byID[at].Parent {
		seen[at] = true
		if e, ok := byID[at]; ok {
			result.Sessions = slices.Insert(result.Sessions, 0, e)
		}
	}
	below := []string{id}
	for len(below) > 0 {
		next := below[0]
		below = below[1:]
		if seen[next] {
			continue
		}
		seen[next] = true
		result.Sessions = append(result.Sessions, byID[next])
		slices.Sort(children[next])
		below = append(below, children[next]...)
	}
	return result, nil
}

// Export returns a whole session: its log, or the conversation as Markdown.
func (h *Hub) Export(ctx context.Context, p protocol.ExportParams) (protocol.ExportResult, error) {
	kept, err := h.kept()
	if err != nil {
		return protocol.ExportResult{}, err
	}
	view, err := kept.Load(ctx, p.SessionID)
	if err != nil {
		return protocol.ExportResult{}, err
	}
	var b strings.Builder
	switch p.Format {
	case "jsonl":
		fmt.Fprintf(&b, "%s\n", view.Header.Line())
		for e, err := range view.Events(ctx, 0) {
			if err != nil {
				return protocol.ExportResult{}, err
			}
			fmt.Fprintf(&b, "%s\n", e.Line())
		}
		return protocol.ExportResult{Name: p.SessionID + ".jsonl", Text: b.String()}, nil
	case "", "markdown":
		summary, err := view.Summary(ctx)
		if err != nil {
			return protocol.ExportResult{}, err
		}
		writeMarkdown(&b, view.Header, summary)
		return protocol.ExportResult{Name: p.SessionID + ".md", Text: b.String()}, nil
	}
	return protocol.ExportResult{}, &UnknownError{What: "format", Name: p.Format, Known: nearestOf(p.Format, []string{"markdown", "jsonl"})}
}

// writeMarkdown writes what was said and done.
func writeMarkdown(b *strings.Builder, header session.Header, s session.Summary) {
	fmt.Fprintf(b, "# %s\n\nSession %s in %s, %s.\n", cmp.Or(s.State.Title, "A session"), header.ID, header.Cwd, stamp(time.UnixMilli(header.Created)))
	for _, m := range s.History.Messages() {
		switch m.Role {
		case llm.RoleUser:
			who := "User"
			if m.Source.Kind != "" && m.Source.Kind != "user" {
				who = strings.TrimSpace(m.Source.Kind + " " + m.Source.Name)
			}
			fmt.Fprintf(b, "\n## %s\n\n%s\n", who, llm.PlainText(m.Content))
		case llm.RoleAssistant:
			fmt.Fprintf(b, "\n## %s/%s\n", m.Provider, m.Model)
			for _, block := range m.Content {
				switch block.Type {
				case llm.BlockText:
					fmt.Fprintf(b, "\n%s\n", strings.TrimRight(block.Text, "\n"))
				case llm.BlockToolCall:
					fmt.Fprintf(b, "\n%s\n", fenced(block.Name+" "+block.Arguments))
				case llm.BlockReasoning, llm.BlockImage, llm.BlockOpaque:
				}
			}
		case llm.RoleTool:
			fmt.Fprintf(b, "\n%s\n", fenced(llm.PlainText(m.Content)))
		}
	}
}

// fenced puts text between fences that are longer than any in it.
func fenced(text string) string {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + "\n" + strings.TrimRight(text, "\n") + "\n" + fence
}

// Plugins lists what is mounted.
func (h *Hub) Plugins() protocol.PluginsResult {
	result := protocol.PluginsResult{Plugins: []protocol.Plugin{}}
	states := map[string]protocol.Plugin{}
	for _, d := range h.o.Harness.Dump() {
		states[d.Name] = protocol.Plugin{State: d.State.String(), Error: d.Error}
	}
	for _, r := range h.o.Harness.Composition().Rows() {
		one, ok := states[r.ID]
		if !ok {
			one.State = "disabled"
		}
		one.ID, one.Plugin = r.ID, r.Plugin
		result.Plugins = append(result.Plugins, one)
	}
	return result
}

// Stats tells what the process does.
func (h *Hub) Stats() protocol.StatsResult {
	all := h.all()
	h.mu.Lock()
	result := protocol.StatsResult{
		PID: os.Getpid(), Version: h.o.Version, Since: stamp(h.since), Clients: h.clients, Live: len(all), Parked: len(h.entries) - len(all),
	}
	h.mu.Unlock()
	for _, f := range all {
		if f.agent.Status() == agent.Running {
			result.Running++
		}
	}
	result.MemoryRSS = resident()
	return result
}
