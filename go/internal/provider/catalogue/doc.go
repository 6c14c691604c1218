// Package catalogue holds the built-in provider profiles and reads the YAML form of a scheme, the
// same form that an operator writes under verify.
//
// It judges no request: it turns text into a provider.Scheme and says where the text is wrong. It
// does not read files other than its own profiles and does not resolve secrets.
//
// # The form
//
// A source is text of the form kind:name: header:NAME, query:NAME, json:/POINTER, item:LABEL (of
// the signature field), numbered:PREFIX (a family of header fields, for a signature only).
//
//	signature: header:X-Acme-Signature
//	items: {separator: ",", assign: "="}   # the field is a list, here of k=v
//	label: v1                              # the item that proves
//	algorithm: hmac-sha256                 # hmac-sha1|256|384|512, ed25519, ecdsa-p256-sha256,
//	                                       # token, none, keyed-sha256 (legacy), rfc9421
//	encoding: hex                          # hex-any-case, base64[-raw], base64url[-raw], text
//	prefix: "sha256="                      # before the encoded signature; prefix_fold: true
//	key: {prefix: whsec_, encoding: base64} # text, hex, base64, basic, spki; prefix_required,
//	                                       # prefix_refused, role
//	proofs: [{label, algorithm, encoding, prefix, key}]  # instead of these, if there are several
//	content: [timestamp, {literal: "."}, body]  # body, form, method, url, url-with-port,
//	                                       # url-without-port, target, timestamp, a source
//	timestamp: {from: "item:t", format: unix-s, tolerance: 300s}  # unix-ms, rfc3339; json_string
//	key_id: header:X-Key                   # only the secret of that key_id counts
//	require: [{from: header:X-Version, equals: "1"}]     # or media, absent
//	unsigned_body: true                    # the sender signs a part only; body_hash, legacy
//	components: ["@method", content-digest] # what rfc9421 must cover; max_age
//	any_of: [...]                          # several ways to sign, each with the keys above and id
//	id: [header:X-Event-Id, json:/id]      # the first that is there
//	type: [json:/type]
//	handshakes:
//	  - {name, method, signed, match: [{from, equals|absent|secret}], status, content_type,
//	     headers: {NAME: VALUE}, body: [{literal|echo|echo_json|echo_hmac}]}
//	contract:                              # checked: the day when it was read at the source
//	  deadline: {value: 10s, source: TEXT, verified: true, checked: 2026-11-30}
package catalogue
