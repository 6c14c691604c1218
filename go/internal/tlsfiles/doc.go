// Package tlsfiles keeps what TLS listeners show and ask for: certificates with their keys and
// client authorities from disk, and the keys of session tickets.
//
// It makes no handshake and opens no socket; what it holds goes to the data plane in a snapshot. It
// issues no certificate either: whoever does (certbot, Kubernetes, an operator) replaces the files.
//
// # Certificates
//
// A file is looked at every second and counts as changed when it reads the same, and otherwise than
// what is in force, at two looks in a row: nobody is shown what somebody is still writing. What
// does not hold then (a key of another certificate, half a chain) is told once, and what was in
// force stays. So does it where the data plane does not take the new one.
//
// # Tickets
//
// A Tickets is one file, DATA_DIR/ticket-keys, mode 0600, replaced as a whole:
//
//	{"keys": [{"born": "2026-03-01T12:00:00Z", "name": HEX of 16 bytes, "key": HEX of 32 bytes}, …]}
//
// The first key seals, all of them open. A new one takes over after 12 hours; each opens until it
// is 24 hours old, since what it sealed last is good for another 12. One process writes the file; a
// crash leaves the old or the new one. A file that is none of ours, or that others than its owner
// may read, is put aside and costs senders a full handshake each; no trouble with it keeps the
// daemon from starting.
package tlsfiles
