// Package session is the seam for sessions: the log of one conversation, what is
// derived from it, the store of the live ones, and what a backend has to do that keeps
// them.
//
// A [Session] is an append-only list of events. It is the only truth about the
// conversation: the messages that the model sees ([Session.History]), what waits, the
// title and the token counts ([Session.State]) are folded from it, and everything else is
// a projection that can be thrown away. [Session.Append] changes the log in memory and
// does no I/O; [Session.Flush] makes it durable. Listeners of [Committed] hear each event
// in order; who tells somebody outside of the process uses [Session.Follow], which
// yields only what a crash cannot take back.
//
// The life of a session is that of its entry in the [Store]: Prepare or Restore,
// Enter, Announce, and at the end Close. A [Persistence] keeps logs; without one a
// session ends with the process. [StorePlugin] provides the store; package jsonl below
// this one keeps sessions in files.
//
// Sessions, stores and backends may be used from any goroutine. Events, headers and
// messages are values that nobody changes.
package session
