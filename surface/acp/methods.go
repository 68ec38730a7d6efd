package acp

import (
	"context"
	"errors"
	"reflect"
	"strings"

	"github.com/dsh-harness/dsh/internal/jsonrpc"
	"github.com/dsh-harness/dsh/protocol"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/surface/live"
)

// Method is something that a client may call.
type Method struct {
	Name   string
	Doc    string       // one sentence
	Params reflect.Type // a struct type
	Result reflect.Type // a struct type
}

// extension reports whether it is ours.
func (m Method) extension() bool { return strings.HasPrefix(m.Name, "_dsh/") }

// Methods lists everything that a client may call, the standard's methods first, each group in the order of a conversation.
func Methods() []Method {
	var all []Method
	for _, m := range methods() {
		all = append(all, m.Method)
	}
	return all
}

// Note is a notification that the agent sends to a client that watches.
type Note struct {
	Name   string
	Doc    string
	Params reflect.Type
}

// Notes lists the notifications of the extensions.
func Notes() []Note {
	return []Note{
		{protocol.NoteEvent, "A durable event of a watched session.", reflect.TypeFor[protocol.EventNote]()},
		{protocol.NoteDelta, "A live piece of an answer.", reflect.TypeFor[protocol.DeltaNote]()},
		{protocol.NoteProgress, "Live output of a running call.", reflect.TypeFor[protocol.ProgressNote]()},
		{protocol.NoteStatus, "The agent began or ceased to run.", reflect.TypeFor[protocol.StatusNote]()},
		{protocol.NoteProjected, "A new value of a projection.", reflect.TypeFor[protocol.ProjectedNote]()},
		{protocol.NoteAsked, "Somebody has to allow a call.", reflect.TypeFor[protocol.Question]()},
		{protocol.NoteAnswered, "A question stands no more.", reflect.TypeFor[protocol.AnsweredNote]()},
		{protocol.NoteEnded, "A watch is over.", reflect.TypeFor[protocol.EndedNote]()},
	}
}

// method is a row of the table.
type method struct {
	Method
	call    func(c *client, m jsonrpc.Incoming) jsonrpc.Reply
	missing func(o Options) bool // when it is not offered; nil is never
}

func (m method) offered(o Options) bool { return m.missing == nil || !m.missing(o) }

// none is the result of a method that gives nothing back.
type none struct{}

// later is a method that may take time.
func later[P, R any](name, doc string, f func(c *client, ctx context.Context, p P) (R, error)) method {
	return method{Method: describe[P, R](name, doc), call: func(c *client, m jsonrpc.Incoming) jsonrpc.Reply {
		var p P
		if err := m.Decode(&p); err != nil {
			return jsonrpc.Fail(err)
		}
		return jsonrpc.Later(func(ctx context.Context) (any, error) {
			r, err := f(c, ctx, p)
			return r, explain(err)
		})
	}}
}

// inline is a method that is done before the next message is read, so that their order counts. It must be quick.
func inline[P, R any](name, doc string, f func(c *client, ctx context.Context, p P) (R, error)) method {
	return method{Method: describe[P, R](name, doc), call: func(c *client, m jsonrpc.Incoming) jsonrpc.Reply {
		var p P
		if err := m.Decode(&p); err != nil {
			return jsonrpc.Fail(err)
		}
		r, err := f(c, c.life, p)
		if err != nil {
			return jsonrpc.Fail(explain(err))
		}
		return jsonrpc.Result(r)
	}}
}

// of is a method about a live session, which is opened for as long as it takes.
func of[P, R any](name, doc string, id func(P) string, f func(c *client, ctx context.Context, s *live.Session, p P) (R, error)) method {
	return later(name, doc, func(c *client, ctx context.Context, p P) (r R, err error) {
		err = c.with(ctx, id(p), func(s *live.Session) error {
			r, err = f(c, ctx, s, p)
			return err
		})
		return r, err
	})
}

func describe[P, R any](name, doc string) Method {
	return Method{Name: name, Doc: doc, Params: reflect.TypeFor[P](), Result: reflect.TypeFor[R]()}
}

// methods is the table.
func methods() []method {
	return []method{
		{
			Method: describe[protocol.InitializeParams, protocol.InitializeResult](protocol.MethodInitialize, "Agrees on what both sides can do."),
			call:   (*client).initialize,
		},
		inline(protocol.MethodAuthenticate, "Authenticates; there is no way that would be needed, since keys are in the agent's environment.",
			func(_ *client, _ context.Context, p protocol.AuthenticateParams) (none, error) {
				return none{}, jsonrpc.NewError(jsonrpc.CodeParams, protocol.Problem{Code: "invalid"},
					"there is no way %q to authenticate: set the provider's key in the environment that dsh is started in, see dsh doctor", p.MethodID)
			}),
		opening(protocol.MethodSessionNew, "Begins a session.", (*client).newSession),
		opening(protocol.MethodSessionLoad, "Opens a session and sends what was said and done in it.", (*client).loadSession),
		opening(protocol.MethodSessionResume, "Opens a session without sending what was.", (*client).resumeSession),
		later(protocol.MethodSessionList, "Lists sessions.", (*client).listSessions),
		later(protocol.MethodSessionDelete, "Deletes a session for good.", func(c *client, ctx context.Context, p protocol.SessionParams) (none, error) {
			c.drop(p.SessionID)
			return none{}, c.o.Hub.Delete(ctx, p.SessionID)
		}),
		later(protocol.MethodSessionClose, "Cancels what a session does and gives it back.", (*client).closeSession),
		{
			Method: describe[protocol.PromptParams, protocol.PromptResult](protocol.MethodSessionPrompt, "Gives a prompt, and answers when its turn has ended."),
			call:   (*client).prompt,
		},
		inline(protocol.MethodSessionSetMode, "Switches the mode of a session.", (*client).setMode),
		inline(protocol.MethodSetConfigOption, "Chooses a value of an option.", (*client).setConfigOption),

		later(protocol.MethodEvents, "Reads a page of the log.", func(c *client, ctx context.Context, p protocol.EventsParams) (protocol.EventsResult, error) {
			return c.o.Hub.Events(ctx, p)
		}),
		{
			Method: describe[protocol.WatchParams, protocol.WatchResult](protocol.MethodWatch, "Has what happens in a session told, from an event on."),
			call:   (*client).watch,
		},
		inline(protocol.MethodUnwatch, "Ends a watch.", func(c *client, _ context.Context, p protocol.UnwatchParams) (none, error) {
			return none{}, c.unwatch(p.Watch)
		}),
		of(protocol.MethodProjection, "Reads folded state.", func(p protocol.ProjectionParams) string { return p.SessionID },
			func(_ *client, ctx context.Context, s *live.Session, p protocol.ProjectionParams) (protocol.ProjectionResult, error) {
				all, err := s.Projections(ctx, p.Name)
				return protocol.ProjectionResult{Projections: all}, err
			}),
		later(protocol.MethodSteer, "Delivers input for the running turn.", func(c *client, ctx context.Context, p protocol.DeliverParams) (protocol.DeliverResult, error) {
			return c.deliver(ctx, p, true)
		}),
		later(protocol.MethodEnqueue, "Delivers input for the next turn.", func(c *client, ctx context.Context, p protocol.DeliverParams) (protocol.DeliverResult, error) {
			return c.deliver(ctx, p, false)
		}),
		of(protocol.MethodInbox, "Lists the input that waits, and takes some back.", func(p protocol.InboxParams) string { return p.SessionID },
			func(_ *client, ctx context.Context, s *live.Session, p protocol.InboxParams) (protocol.InboxResult, error) {
				return s.Inbox(ctx, p.Remove...)
			}),
		of(protocol.MethodCommands, "Lists the slash commands.", func(p protocol.SessionParams) string { return p.SessionID },
			func(_ *client, ctx context.Context, s *live.Session, _ protocol.SessionParams) (protocol.CommandsResult, error) {
				all, err := s.Commands(ctx)
				return protocol.CommandsResult{Commands: all}, err
			}),
		of(protocol.MethodComplete, "Completes the arguments of a slash command.", func(p protocol.CompleteParams) string { return p.SessionID },
			func(_ *client, ctx context.Context, s *live.Session, p protocol.CompleteParams) (protocol.CompleteResult, error) {
				return s.CompleteCommand(ctx, p)
			}),
		of(protocol.MethodRunCommand, "Runs a slash command.", func(p protocol.RunCommandParams) string { return p.SessionID },
			func(_ *client, ctx context.Context, s *live.Session, p protocol.RunCommandParams) (protocol.RunCommandResult, error) {
				return s.RunCommand(ctx, p)
			}),
		of(protocol.MethodShell, "Runs a command line of the person.", func(p protocol.ShellParams) string { return p.SessionID },
			func(_ *client, ctx context.Context, s *live.Session, p protocol.ShellParams) (protocol.ShellResult, error) {
				return s.Shell(ctx, p)
			}),
		of(protocol.MethodFiles, "Finds files of the session's folder.", func(p protocol.FilesParams) string { return p.SessionID },
			func(_ *client, ctx context.Context, s *live.Session, p protocol.FilesParams) (protocol.FilesResult, error) {
				return s.Files(ctx, p)
			}),
		inline(protocol.MethodAnswer, "Answers a question; the first answer counts.", (*client).answer),

		later(protocol.MethodSessionsSearch, "Finds sessions.", func(c *client, ctx context.Context, p protocol.SearchParams) (protocol.SearchResult, error) {
			return c.o.Hub.Search(ctx, p)
		}),
		later(protocol.MethodRename, "Gives a session a title.", func(c *client, ctx context.Context, p protocol.RenameParams) (none, error) {
			return none{}, c.o.Hub.Update(ctx, p.SessionID, session.MetaData{Title: &p.Title})
		}),
		later(protocol.MethodArchive, "Puts a session out of the lists, or back.", func(c *client, ctx context.Context, p protocol.ArchiveParams) (none, error) {
			return none{}, c.o.Hub.Update(ctx, p.SessionID, session.MetaData{Archived: &p.Archived})
		}),
		later(protocol.MethodDelete, "Deletes a session for good.", func(c *client, ctx context.Context, p protocol.SessionParams) (none, error) {
			c.drop(p.SessionID)
			return none{}, c.o.Hub.Delete(ctx, p.SessionID)
		}),
		later(protocol.MethodExport, "Reads a whole session.", func(c *client, ctx context.Context, p protocol.ExportParams) (protocol.ExportResult, error) {
			return c.o.Hub.Export(ctx, p)
		}),
		later(protocol.MethodFork, "Copies a session up to an event into a new one.", func(c *client, ctx context.Context, p protocol.ForkParams) (protocol.ForkResult, error) {
			return c.o.Hub.Fork(ctx, p)
		}),
		of(protocol.MethodRewind, "Takes the conversation back to behind an event.", func(p protocol.RewindParams) string { return p.SessionID },
			func(_ *client, ctx context.Context, s *live.Session, p protocol.RewindParams) (none, error) {
				return none{}, s.Rewind(ctx, p.To)
			}),
		later(protocol.MethodTree, "Lists a session's family.", func(c *client, ctx context.Context, p protocol.SessionParams) (protocol.TreeResult, error) {
			return c.o.Hub.Tree(ctx, p.SessionID)
		}),
		later(protocol.MethodTrajectory, "Tells what happened in a session when.", func(c *client, ctx context.Context, p protocol.SessionParams) (protocol.TrajectoryResult, error) {
			return c.o.Hub.Trajectory(ctx, p.SessionID)
		}),
		later(protocol.MethodRequestBytes, "Reads the bytes of a request to the model.",
			func(c *client, ctx context.Context, p protocol.RequestBytesParams) (protocol.RequestBytesResult, error) {
				return c.o.Hub.Request(ctx, p)
			}),
		later(protocol.MethodModels, "Lists models.", func(c *client, _ context.Context, _ none) (protocol.ModelsResult, error) { return c.o.Hub.Models() }),
		{
			Method: describe[none, protocol.ConfigResult](protocol.MethodConfig, "Shows the composition."),
			call: later(protocol.MethodConfig, "", func(c *client, ctx context.Context, _ none) (protocol.ConfigResult, error) {
				return c.o.Config(ctx)
			}).call,
			missing: func(o Options) bool { return o.Config == nil },
		},
		later(protocol.MethodPlugins, "Lists what is mounted.", func(c *client, _ context.Context, _ none) (protocol.PluginsResult, error) {
			return c.o.Hub.Plugins(), nil
		}),
		{
			Method: describe[none, protocol.DoctorResult](protocol.MethodDoctor, "Finds out what works here and what does not."),
			call: later(protocol.MethodDoctor, "", func(c *client, ctx context.Context, _ none) (protocol.DoctorResult, error) {
				return c.o.Doctor(ctx)
			}).call,
			missing: func(o Options) bool { return o.Doctor == nil },
		},
		later(protocol.MethodStats, "Tells what the process does.", func(c *client, _ context.Context, _ none) (protocol.StatsResult, error) {
			return c.o.Hub.Stats(), nil
		}),
	}
}

// answer answers a question.
func (c *client) answer(_ context.Context, p protocol.AnswerParams) (protocol.AnswerResult, error) {
	h, err := c.find(p.SessionID)
	if err == nil {
		return h.session.Answer(c.who(), p)
	}
	// A client that only watches answers, too: its watch holds the session.
	r := protocol.AnswerResult{}
	bounded, cancel := context.WithTimeout(c.life, openTime)
	defer cancel()
	err = c.with(bounded, p.SessionID, func(s *live.Session) error {
		r, err = s.Answer(c.who(), p)
		return err
	})
	return r, err
}

// deliver gives input to a session.
func (c *client) deliver(ctx context.Context, p protocol.DeliverParams, steer bool) (r protocol.DeliverResult, err error) {
	content, err := blocks(p.Prompt)
	if err != nil {
		return r, err
	}
	bounded, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	err = c.with(bounded, p.SessionID, func(s *live.Session) error {
		r.ID = live.NewMessageID()
		return s.Deliver(bounded, r.ID, content, steer)
	})
	return r, err
}

var errNoWatch = errors.New("there is no watch of that name")
