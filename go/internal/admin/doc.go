// Package admin serves sluice.v1.Admin: what operators see and what they may ask for.
//
// It decides nothing and keeps nothing: events come from the store a page at a time, facts and
// commands go through the functions of Options. It prints nothing for people (the command line
// does) and opens no port but the admin socket.
//
// # Who may call
//
// On the Unix socket: the daemon's own user and root, by the kernel's word (SO_PEERCRED), beside
// the socket's mode 0600. On TCP: whoever shows a certificate of the operator's authority, or the
// token.
//
// # Errors
//
//	INVALID_ARGUMENT     the caller's: an unknown name, an id that is none, a refused config
//	NOT_FOUND            no such event is kept (any more)
//	FAILED_PRECONDITION  not now: the daemon is in a state that forbids it
//	UNAVAILABLE          the daemon is starting or stopping
//	DATA_LOSS            the event's frame is damaged
//	INTERNAL             ours
package admin
