// Package escape attacks the sandbox. It is tests only: a list of tries to leave it, and a
// throw-away jail in which they run, since what succeeds does harm.
//
// The jail is made of mount, process, network, host name and queue namespaces of its own. Its root is
// read-only, which is asserted before anything else, what is attacked is bait in memory, and nothing in it deletes folders.
// A try is never run outside of it.
package escape
