// Package plugin is the kernel: a tree of mounted plugins in which everything a
// plugin registers is undone, newest first, when it stops. It knows nothing of
// agents, models or tools.
//
// # Nodes and scopes
//
// A [Node] is a place in the tree. It outlives restarts, and knows what its plugin
// needs and whether it runs. A [Scope] is one life of a node, from start to stop.
// Every registration is made on a scope, so nothing can leak from one life into the
// next; on a scope whose life is over it fails with [ErrScopeClosed].
//
// # What plugins share
//
// It is declared once, as a package variable beside the type it is about: a service
// is a [Key], a registry is a [Set], an event is an [Emit], [Parallel], [Serial] or
// [Waterfall]. These variables are immutable; the tree holds what was registered
// under them.
//
// # Realms
//
// A realm is a region of visibility. The tree is one, and a node may open another
// inside that of its parent ([Scope.MountRealm]), as each agent does. The nearest
// provider of a service wins; a listener hears what is dispatched in its realm and
// in those inside it; a set shows the entries of its realm and of those around it.
//
// # Order
//
// What a plugin sees depends on where it stands, never on when it started.
// Listeners and entries are ordered by stage, then by row (a node before those below
// it, siblings by the rows of the configuration), then by registration. A
// registration belongs in every respect to the scope that it is made on: it ends with
// that scope, is visible in its realm and stands in its row, whoever makes it. A
// plugin that adds to another's realm, say to one agent, without outliving its own
// life mounts a guest: a child with [Child.In] set.
//
// # Waiting and ending
//
// A node starts when the services it requires are there, ends when one of them goes,
// and starts again with the next; see [Need]. The context of a call carries who is
// waiting for whom, so a wait that could never end returns [ErrWouldDeadlock]. That
// works as long as plugin code passes on the context that it was given.
//
// Everything that the kernel waits for is bounded: a start by
// [Plugin.StartTimeout], the undoing of a life by [CleanupTimeout]. Code that ignores
// the end of its context is abandoned; that is logged, and the tree goes on without it.
//
// # Concurrency
//
// All functions and methods may be called from any goroutine, also from within
// plugin code. One mutex guards the graph, and plugin code never runs under it. The
// package starts goroutines only for [Scope.Go], for the listeners of a [Parallel],
// and for the starts, stops and cleanups of nodes; all of them end with the tree.
package plugin
