package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/dsh-harness/dsh"
	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/session/trajectory"
)

// sessions is what the commands about sessions share.
type sessions struct {
	*program
	composition
	json bool
}

func (p *program) sessionsCommand() *cobra.Command {
	return group("sessions", "List, show, check, copy and change sessions",
		p.sessionsList(), p.sessionsSearch(), p.sessionsShow(), p.sessionsVerify(), p.sessionsFork(), p.sessionsRename(), p.sessionsArchive(),
		p.sessionsExport(), p.sessionsRepair(), p.sessionsDelete())
}

// command builds a command about sessions.
func (p *program) sessionCommand(c *cobra.Command, run func(ctx context.Context, s *sessions, store *storage, args []string) error) *cobra.Command {
	s := &sessions{program: p}
	s.register(c.Flags())
	c.Flags().BoolVar(&s.json, "json", false, "write JSON")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		return p.within(cmd.Context(), &s.composition, func(ctx context.Context, h *dsh.Harness) error {
			store, err := storageOf(h)
			if err != nil {
				return err
			}
			return run(ctx, s, store, args)
		})
	}
	return c
}

// storage is the store and what keeps it.
type storage struct {
	live    session.Store
	kept    session.Persistence
	harness *dsh.Harness
}

func storageOf(h *dsh.Harness) (*storage, error) {
	kept, ok := session.PersistenceService.Current(h.Scope())
	if !ok {
		return nil, session.ErrNoPersistence
	}
	store, ok := session.Service.Current(h.Scope())
	if !ok {
		return nil, errors.New(`no row provides "sessions"`)
	}
	return &storage{store, kept, h}, nil
}

// print writes v as JSON if that was asked for, otherwise what text writes.
func (s *sessions) print(v any, text func(w io.Writer) error) error {
	return s.program.print(s.json, v, text)
}

func (p *program) print(asJSON bool, v any, text func(w io.Writer) error) error {
	var err error
	if asJSON {
		encoder := json.NewEncoder(p.stdout)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(v)
	} else {
		err = text(p.stdout)
	}
	if err != nil {
		return failed(fmt.Errorf("write to standard output: %w", err))
	}
	return nil
}

// table writes rows in columns.
func table(w io.Writer, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, row := range rows {
		if _, err := fmt.Fprintln(t, strings.Join(row, "\t")); err != nil {
			return err
		}
	}
	return t.Flush()
}

// listed is a session in a list.
type listed struct {
	ID       string    `json:"id"`
	Title    string    `json:"title,omitempty"`
	Prompt   string    `json:"prompt,omitempty"`
	Cwd      string    `json:"cwd"`
	Created  time.Time `json:"created"`
	Modified time.Time `json:"modified"`
	Size     int64     `json:"size"`
	Parent   string    `json:"parent,omitempty"`
	Origin   string    `json:"origin,omitempty"`
	Archived bool      `json:"archived,omitempty"`
	Labels   []string  `json:"labels,omitempty"`
	Error    string    `json:"error,omitempty"`
}

func listedOf(i session.Info) listed {
	l := listed{
		ID: i.Header.ID, Title: i.Title, Prompt: i.Prompt, Cwd: i.Header.Cwd,
		Created: time.UnixMilli(i.Header.Created).UTC(), Modified: i.Modified.UTC(), Size: i.Size,
		Parent: i.Header.Parent, Origin: i.Header.Origin, Archived: i.Archived, Labels: i.Labels,
	}
	if i.Err != nil {
		l.Error = i.Err.Error()
	}
	return l
}

// name is what a person knows the session by.
func (l listed) name() string {
	switch {
	case l.Error != "":
		return "! " + l.Error
	case l.Title != "":
		return l.Title
	}
	return l.Prompt
}

func (p *program) sessionsList() *cobra.Command {
	return p.listing(&cobra.Command{Use: "list", Short: "List the sessions of this folder, the last changed first", Args: exactly(0)})
}

func (p *program) sessionsSearch() *cobra.Command {
	return p.listing(&cobra.Command{
		Use: "search <words>", Short: "List the sessions of this folder whose title, first prompt or id has these words",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fmt.Errorf("say what to look for: %s", cmd.UseLine())
			}
			return nil
		},
		Example: `  dsh sessions search parser test
  dsh sessions search -a 0193c5`,
	})
}

// listing lists the sessions that have all the words of the arguments, in any case.
func (p *program) listing(c *cobra.Command) *cobra.Command {
	everywhere := c.Flags().BoolP("all", "a", false, "of all folders")
	archived := c.Flags().Bool("archived", false, "archived ones and those of subagents, too")
	limit := c.Flags().IntP("limit", "n", 0, "at most this `number`; 0 is all")
	return p.sessionCommand(c, func(ctx context.Context, s *sessions, store *storage, words []string) error {
		filter := session.Filter{IncludeArchived: *archived, IncludeSubagents: *archived}
		if len(words) == 0 {
			filter.Limit = max(*limit, 0)
		}
		if !*everywhere {
			dir, err := s.real()
			if err != nil {
				return err
			}
			filter.Cwd = dir
		}
		all := []listed{}
		for info, err := range store.kept.List(ctx, filter) {
			if err != nil {
				return failed(err)
			}
			if l := listedOf(info); l.has(words) {
				all = append(all, l)
			}
			if *limit > 0 && len(all) == *limit {
				break
			}
		}
		return s.print(all, func(w io.Writer) error {
			if len(all) == 0 && len(words) > 0 {
				s.note("no session here has these words; -a looks in all folders")
				return nil
			}
			if len(all) == 0 {
				return s.tellNone(ctx, store, filter)
			}
			rows := make([][]string, len(all))
			for i, l := range all {
				rows[i] = []string{l.ID, l.Modified.Local().Format("2006-01-02 15:04"), oneLine(l.name(), 60)}
				if *everywhere {
					rows[i] = append(rows[i][:2], oneLine(l.Cwd, 40), rows[i][2])
				}
			}
			return table(w, rows)
		})
	})
}

// has reports whether the session has all these words.
func (l listed) has(words []string) bool {
	text := strings.ToLower(l.ID + "\n" + l.Title + "\n" + l.Prompt)
	for _, word := range words {
		if !strings.Contains(text, strings.ToLower(word)) {
			return false
		}
	}
	return true
}

// tellNone says where the sessions are that a list without any does not show.
func (s *sessions) tellNone(ctx context.Context, store *storage, filter session.Filter) error {
	command := "dsh sessions list"
	if filter.Cwd == "" {
		command += " --all"
	}
	filter.Limit, filter.IncludeArchived, filter.IncludeSubagents = 1, true, true
	for _, err := range store.kept.List(ctx, filter) {
		if err != nil {
			return failed(err)
		}
		s.note("the sessions here are archived ones or those of subagents: see %s --archived", command)
		return nil
	}
	if filter.Cwd == "" {
		s.note("there is no session yet: begin one with dsh run")
	} else {
		s.note("no session was started here: see dsh sessions list --all")
	}
	return nil
}

// real is the folder with links resolved, as sessions know it.
func (c *composition) real() (string, error) {
	dir, err := c.folder()
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", fmt.Errorf("find the sessions of %s: %w", dir, err)
	}
	return real, nil
}

// shown is a session with what was said in it.
type shown struct {
	ID       string         `json:"id"`
	Title    string         `json:"title,omitempty"`
	Cwd      string         `json:"cwd"`
	Created  time.Time      `json:"created"`
	Parent   string         `json:"parent,omitempty"`
	Location string         `json:"location"`
	Events   int64          `json:"events"`
	Turns    int            `json:"turns"`
	Usage    llm.Usage      `json:"usage"`
	Messages []*llm.Message `json:"messages"`
	Gaps     []gap          `json:"gaps,omitempty"`
	Error    string         `json:"error,omitempty"` // the first of what is wrong with the log
}

// gap is a place between messages where the log is damaged.
type gap struct {
	Before int    `json:"before"` // index of the message that follows it
	Error  string `json:"error"`  // where it is, and how much is missing
}

// behind adds what stands behind the place where a log stops making sense. It is shown as it was
// said: what it replaced or took back cannot be known any more.
func (v *shown) behind(ctx context.Context, view session.View, first error) error {
	v.Gaps = append(v.Gaps, gap{len(v.Messages), first.Error()})
	for e, err := range view.Events(ctx, v.Events) {
		var damage *session.DamageError
		switch {
		case errors.As(err, &damage):
			if damage.Kind != session.DamageTorn && err.Error() != first.Error() {
				v.Gaps = append(v.Gaps, gap{len(v.Messages), err.Error()})
			}
		case err != nil:
			return failed(err)
		default:
			v.add(e)
		}
	}
	return nil
}

// add takes an event that stands behind damage. What cannot be read is what v.Error is about.
func (v *shown) add(e session.Event) {
	v.Events++
	switch e.Type {
	case session.TurnStart:
		v.Turns++
	case session.UserMessage, session.SteeringMessage:
		var d session.InputData
		if json.Unmarshal(e.Data, &d) == nil {
			v.Messages = append(v.Messages, &llm.Message{ID: d.ID, Role: llm.RoleUser, Source: d.Source, Content: d.Content})
		}
	case session.AssistantMessage:
		var d session.AssistantData
		if json.Unmarshal(e.Data, &d) != nil {
			return
		}
		if d.Usage != nil {
			v.Usage = v.Usage.Add(*d.Usage)
		}
		v.Messages = append(v.Messages, &llm.Message{
			ID: d.Message.ID, Role: llm.RoleAssistant, Content: d.Message.Content, Provider: d.Provider, Model: d.Model,
		})
	case session.ToolResult:
		var d session.ToolResultData
		if json.Unmarshal(e.Data, &d) == nil {
			v.Messages = append(v.Messages, &llm.Message{Role: llm.RoleTool, CallID: d.CallID, IsError: d.IsError, Content: d.Content})
		}
	}
}

func (p *program) sessionsShow() *cobra.Command {
	c := &cobra.Command{
		Use: "show <id>", Short: "Show what was said and done in a session, and when", Args: exactly(1),
		Example: `  dsh sessions show 0193c5 --timeline
  dsh sessions show 0193c5 --request 3.2`,
	}
	events := c.Flags().Bool("events", false, "write the events as they stand in the log")
	full := c.Flags().Bool("full", false, "show the results of tools whole")
	timeline := c.Flags().Bool("timeline", false, "show turns, steps and calls with their time, tokens and bytes")
	request := c.Flags().String("request", "", "write the body of the request of this `turn.step`, byte for byte as it was sent; turn.step.attempt for one that failed")
	c.MarkFlagsMutuallyExclusive("events", "timeline", "request")
	return p.sessionCommand(c, func(ctx context.Context, s *sessions, store *storage, args []string) error {
		if *request != "" {
			return s.writeRequest(ctx, store, args[0], *request)
		}
		view, err := s.view(ctx, store, args[0])
		if err != nil {
			return err
		}
		if *events {
			return s.writeEvents(ctx, view)
		}
		if *timeline {
			t, err := trajectory.Of(ctx, view)
			if err != nil {
				return failed(err)
			}
			return s.print(t, func(w io.Writer) error { return s.timeline(w, t) })
		}
		summary, broken := view.Summary(ctx)
		out := shown{
			ID: view.Header.ID, Title: summary.State.Title, Cwd: view.Header.Cwd, Created: time.UnixMilli(view.Header.Created).UTC(),
			Parent: view.Header.Parent, Location: view.Location, Events: summary.Next, Turns: summary.State.Turn,
			Usage: summary.State.Usage, Messages: summary.History.Messages(),
		}
		if broken != nil {
			out.Error = broken.Error()
			if errors.As(broken, new(*session.DamageError)) || errors.As(broken, new(*session.UnknownTypeError)) {
				if err := out.behind(ctx, view, broken); err != nil {
					return err
				}
			}
		}
		err = s.print(out, func(w io.Writer) error { return s.transcript(w, out, *full) })
		if broken != nil {
			s.note("%s", plain(broken.Error()))
			err = errors.Join(err, &exit{code: exitFailed})
		}
		return err
	})
}

// view finds a session and opens it for reading.
func (s *sessions) view(ctx context.Context, store *storage, id string) (session.View, error) {
	id, err := idOf(ctx, store.kept, id)
	if err != nil {
		return session.View{}, err
	}
	view, err := store.kept.Load(ctx, id)
	if err != nil {
		return session.View{}, failed(err)
	}
	return view, nil
}

// writeEvents writes the log's sound lines, and says where there are none.
func (s *sessions) writeEvents(ctx context.Context, view session.View) error {
	var damaged error
	for e, err := range view.Events(ctx, 0) {
		var damage *session.DamageError
		if errors.As(err, &damage) {
			s.note("%s", plain(damage.Error()))
			damaged = &exit{code: exitFailed}
			continue
		}
		if err == nil {
			_, err = fmt.Fprintf(s.stdout, "%s\n", e.Line())
		}
		if err != nil {
			return failed(err)
		}
	}
	return damaged
}

// shownLines is how much of a tool's result is shown.
const shownLines = 6

// transcript writes a session for a person to read.
func (s *sessions) transcript(w io.Writer, v shown, full bool) error {
	paint := s.painter(s.stdout).paint
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("%s", paint(bold, oneLine(orElse(v.Title, "(no title)"), 100)))
	line("%s in %s, %s, %d turns, %d events, %d tokens", v.ID, plain(v.Cwd), v.Created.Local().Format("2006-01-02 15:04"), v.Turns, v.Events, v.Usage.Total())
	if v.Parent != "" {
		line("forked from %s", v.Parent)
	}
	gaps := v.Gaps
	for i := range len(v.Messages) + 1 {
		for ; len(gaps) > 0 && gaps[0].Before == i; gaps = gaps[1:] {
			line("\n%s", paint(red, "✗ "+oneLine(gaps[0].Error, 300)))
		}
		if i == len(v.Messages) {
			break
		}
		m := v.Messages[i]
		switch m.Role {
		case llm.RoleUser:
			who := "user"
			if m.Source.Kind != "" && m.Source.Kind != "user" {
				who = plain(strings.TrimSpace(m.Source.Kind + " " + m.Source.Name))
			}
			line("\n%s\n%s", paint(green, who), plain(llm.PlainText(m.Content)))
		case llm.RoleAssistant:
			line("\n%s", paint(cyan, plain(m.Provider+"/"+m.Model)))
			for _, block := range m.Content {
				switch block.Type {
				case llm.BlockText:
					line("%s", strings.TrimRight(plain(block.Text), "\n"))
				case llm.BlockToolCall:
					line("%s %s", paint(cyan, "→ "+plain(block.Name)), oneLine(argument(block.Arguments), 100))
				case llm.BlockReasoning, llm.BlockImage, llm.BlockOpaque:
				}
			}
		case llm.RoleTool:
			lines := strings.Split(strings.TrimRight(plain(llm.PlainText(m.Content)), "\n"), "\n")
			for i, l := range lines {
				if i == shownLines && !full {
					line("%s", paint(dim, fmt.Sprintf("    … %d more lines", len(lines)-i)))
					break
				}
				line("%s", paint(dim, "    "+l))
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func orElse(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}

func (p *program) sessionsVerify() *cobra.Command {
	c := &cobra.Command{
		Use:   "verify [id...]",
		Short: "Check that logs are whole and sound; without an id, all",
		Args:  cobra.ArbitraryArgs,
	}
	return p.sessionCommand(c, func(ctx context.Context, s *sessions, store *storage, args []string) error {
		ids := []string{}
		for _, arg := range args {
			id, err := idOf(ctx, store.kept, arg)
			if err != nil {
				return err
			}
			ids = append(ids, id)
		}
		if len(args) == 0 {
			for info, err := range store.kept.List(ctx, session.Filter{IncludeArchived: true, IncludeSubagents: true}) {
				if err != nil {
					return failed(err)
				}
				ids = append(ids, info.Header.ID)
			}
		}
		reports, damaged := []session.Report{}, 0
		for _, id := range ids {
			report, err := store.live.Verify(ctx, id)
			if err != nil {
				return failed(err)
			}
			if report.Problems == nil {
				report.Problems = []*session.DamageError{} // programs read a list
			}
			reports = append(reports, report)
			if !report.Sound() {
				damaged++
			}
		}
		err := s.print(reports, func(w io.Writer) error { return writeReports(w, reports) })
		if err == nil && damaged > 0 {
			err = failed(fmt.Errorf("%d of %d sessions are not sound; dsh sessions repair makes a copy of what is", damaged, len(ids)))
		}
		return err
	})
}

func writeReports(w io.Writer, reports []session.Report) error {
	for _, r := range reports {
		state := "sound"
		if !r.Sound() {
			state = "not sound"
		}
		if _, err := fmt.Fprintf(w, "%s: %s, %d events, %s\n", r.ID, state, r.Events, plain(r.Location)); err != nil {
			return err
		}
		for _, problem := range r.Problems {
			if _, err := fmt.Fprintf(w, "  %s\n", plain(problem.Error())); err != nil {
				return err
			}
		}
		if r.Unknown != nil {
			if _, err := fmt.Fprintf(w, "  %s\n", plain(r.Unknown.Error())); err != nil {
				return err
			}
		}
	}
	return nil
}

// made is the answer of a command that makes or changes a session.
type made struct {
	ID   string `json:"id"`
	From string `json:"from,omitempty"`
	Kept *int64 `json:"kept,omitempty"`
	Lost *int64 `json:"lost,omitempty"`
}

func (p *program) sessionsFork() *cobra.Command {
	c := &cobra.Command{Use: "fork <id>", Short: "Copy a session, up to an event, into a new one", Args: exactly(1)}
	at := c.Flags().Int64("at", -1, "last `event` to copy, which must not lie within a turn; the last one by default")
	id := c.Flags().String("session-id", "", "`id` of the copy")
	return p.sessionCommand(c, func(ctx context.Context, s *sessions, store *storage, args []string) error {
		source, err := idOf(ctx, store.kept, args[0])
		if err != nil {
			return err
		}
		o := session.ForkOptions{ID: source, NewID: *id}
		if *at >= 0 {
			o.At = at
		}
		h, err := store.live.Fork(ctx, o)
		if err != nil {
			return err
		}
		return s.print(made{ID: h.ID, From: source}, func(w io.Writer) error {
			_, err := fmt.Fprintln(w, h.ID)
			return err
		})
	})
}

func (p *program) sessionsRename() *cobra.Command {
	c := &cobra.Command{Use: "rename <id> <title>", Short: "Give a session another title", Args: exactly(2)}
	return p.sessionCommand(c, func(ctx context.Context, s *sessions, store *storage, args []string) error {
		return s.update(ctx, store, args[0], session.MetaData{Title: &args[1]})
	})
}

func (p *program) sessionsArchive() *cobra.Command {
	c := &cobra.Command{Use: "archive <id>", Short: "Take a session out of the lists; nothing is lost", Args: exactly(1)}
	undo := c.Flags().Bool("undo", false, "put it back")
	return p.sessionCommand(c, func(ctx context.Context, s *sessions, store *storage, args []string) error {
		archived := !*undo
		return s.update(ctx, store, args[0], session.MetaData{Archived: &archived})
	})
}

func (s *sessions) update(ctx context.Context, store *storage, id string, m session.MetaData) error {
	id, err := idOf(ctx, store.kept, id)
	if err != nil {
		return err
	}
	if err := store.live.Update(ctx, id, m); err != nil {
		return err
	}
	return s.print(made{ID: id}, func(io.Writer) error { return nil })
}

func (p *program) sessionsExport() *cobra.Command {
	c := &cobra.Command{
		Use:   "export <id>",
		Short: "Write a session's log: the header, then an event a line",
		Long:  "Writes a session's log as it is stored, which is JSON lines with and without --json. What is damaged is said and left out.",
		Args:  exactly(1),
	}
	file := c.Flags().StringP("output", "o", "", "write to this `file`, which must not exist, instead of standard output")
	return p.sessionCommand(c, func(ctx context.Context, s *sessions, store *storage, args []string) error {
		view, err := s.view(ctx, store, args[0])
		if err != nil {
			return err
		}
		if *file != "" {
			f, err := os.OpenFile(*file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
			if err != nil {
				return fmt.Errorf("export session %s: %w", view.Header.ID, err)
			}
			to := *s.program
			to.stdout = stream{Writer: f}
			defer func(s *sessions) {
				if err := f.Close(); err != nil {
					s.note("close %s: %v", *file, err)
				}
			}(s)
			s = &sessions{program: &to}
		}
		if _, err := fmt.Fprintf(s.stdout, "%s\n", view.Header.Line()); err != nil {
			return failed(err)
		}
		return s.writeEvents(ctx, view)
	})
}

func (p *program) sessionsRepair() *cobra.Command {
	c := &cobra.Command{Use: "repair <id>", Short: "Copy what is sound of a damaged session into a new one", Args: exactly(1)}
	return p.sessionCommand(c, func(ctx context.Context, s *sessions, store *storage, args []string) error {
		id, err := idOf(ctx, store.kept, args[0])
		if err != nil {
			return err
		}
		r, err := store.live.Repair(ctx, id)
		if err != nil {
			return failed(err)
		}
		return s.print(made{ID: r.ID, From: id, Kept: &r.Kept, Lost: &r.Lost}, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "%s\n", r.ID)
			s.note("%d events were copied and %d marked as lost; %d stand only in the original, which is as it was", r.Kept, r.Lost, r.Behind)
			return err
		})
	})
}

func (p *program) sessionsDelete() *cobra.Command {
	c := &cobra.Command{Use: "delete <id>...", Short: "Delete sessions for good", Args: cobra.ArbitraryArgs}
	here := c.Flags().Bool("all-here", false, "all sessions of this folder, archived ones too")
	return p.sessionCommand(c, func(ctx context.Context, s *sessions, store *storage, args []string) error {
		if *here == (len(args) > 0) {
			return errors.New("name the sessions to delete, as in dsh sessions delete <id>, or give --all-here")
		}
		var ids []string
		for _, arg := range args {
			id, err := idOf(ctx, store.kept, arg)
			if err != nil {
				return err
			}
			ids = append(ids, id)
		}
		if *here {
			dir, err := s.real()
			if err != nil {
				return err
			}
			for info, err := range store.kept.List(ctx, session.Filter{Cwd: dir, IncludeArchived: true, IncludeSubagents: true}) {
				if err != nil {
					return failed(err)
				}
				ids = append(ids, info.Header.ID)
			}
		}
		deleted := []made{}
		var errs []error
		for _, id := range ids {
			if err := store.kept.Delete(ctx, id); err != nil {
				errs = append(errs, err)
				continue
			}
			deleted = append(deleted, made{ID: id})
		}
		err := s.print(deleted, func(w io.Writer) error {
			for _, d := range deleted {
				if _, err := fmt.Fprintln(w, "deleted", d.ID); err != nil {
					return err
				}
			}
			return nil
		})
		return errors.Join(err, errors.Join(errs...))
	})
}
