// Package provider judges whether a webhook is what its sender signed, names the event in it, and
// knows how each sender behaves, from schemes that are data.
//
// It opens no file, reads no clock and keeps nothing of a request: every slice of a Request points
// into memory that somebody else owns and may reuse. It does not read YAML (package catalogue does)
// and does not answer anybody; it says what the answer is.
//
// A Scheme is compiled once into a small checked program that runs over each request:
//
//	extract   one pass over the header fields fills the slots that the scheme names
//	build     the signed text as a list of parts, never joined unless the algorithm needs it
//	compute   one keyed hash per secret, kept and reset, so that a verify allocates nothing
//	compare   in constant time, every candidate signature against every secret
//	identify  the sender's own id and type of the event, after the proof held
//	respond   the answer to a handshake, which is not an event
//
// A key that the sender publishes is asked of a Keys, which never waits: without the key the
// outcome is Unavailable and no refusal.
//
// A Verifier has the scratch state of one goroutine; Clone makes one for another goroutine.
package provider
