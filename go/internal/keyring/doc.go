// Package keyring keeps the secrets that sources have now: those that a config names, read again
// when they change, and those that senders have handed over in a handshake.
//
// It proves no request: what it holds goes, compiled by whoever made the Wanted, to where requests
// are judged, and it hears back what each secret has proved. It reads no config and knows no
// provider.
//
// # Secrets of the config
//
// A file is looked at twice a second, behind any links, and counts as changed when it reads the
// same, and otherwise than what is in force, at two looks in a row: nobody is judged by what
// somebody is still writing. A command is run without a shell once an interval. What cannot be read
// or does not serve as a secret leaves in force what was there before, and is a problem until it is
// mended. Only a start without any value is refused.
//
// # Secrets of handshakes
//
// Whoever may hand a secret over decides what the source believes from then on, and a handshake
// carries no proof. So it is taken only while an operator has opened a window for the source, each
// of which is good for a counted number of secrets, or, where the config says so, as long as the
// source has none yet. One that is there already is not taken again, so a flood of handshakes
// writes nothing.
//
// A source with such secrets has one file in DATA_DIR/secrets (mode 0700), NAME.json (mode 0600),
// replaced as a whole and synced with its folder before Learn returns:
//
//	{"source": "asana", "secrets": [{"id": …, "role": …, "value": BASE64, "learned": TIME,
//	  "from": ADDRESS, "window": ID}, …]}
//	{"source": "asana", "sealed": BASE64 of nonce and AES-256-GCM of that list}
//
// The second form is used where there is a key; the source's name is bound to it. NAME.window opens
// a window, and is the operator's: {"id": …, "until": TIME, "count": N, "replace": BOOL}. A window
// is spent when the file names as many secrets of its id as it counts, so a crash between two steps
// never lets one more in. Two processes write NAME.json, the daemon and the command line, each
// under a lock on the folder's file `lock`; the daemon sees what the other has done at its next
// look.
//
// # In memory
//
// What is kept here is bytes that are overwritten when they are replaced. What a verifier was
// compiled of is not in our hands; so memory is kept out of core dumps (KeepFromDumps).
package keyring
