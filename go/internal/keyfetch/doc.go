// Package keyfetch holds the public keys that senders publish, and fetches them beside the requests
// that need them.
//
// It judges no signature and does not decide which URL a request may name: package provider does
// both. No caller waits for a network here. Nothing is kept on disk: after a start the first
// request of each key is put off.
//
// A place is where one answer with keys comes from. Its states, moved by Key under one lock and by
// the one fetch that a place has at a time:
//
//	new       never answered; a fetch runs or waits for its turn        -> pending
//	known     answered, younger than staleMax                           -> known, or unknown
//	          (older than its lifetime: a fetch runs beside, and the keys still count)
//	refused   a request named the place, and there is no key there      -> unknown, for refusedFor
//	failing   no answer, or none that can be used; the next try waits   -> pending
//
// A set of keys that lacks the key is fetched again at most every askAgain, and until that answer
// the key is pending: senders publish a new key shortly before they use it.
package keyfetch
