// Package catalogue holds the built-in provider profiles and reads the YAML form of a scheme, the
// same form that an operator writes under verify.
//
// It judges no request: it turns text into a provider.Scheme and says where the text is wrong. It
// does not read files other than its own profiles and does not resolve secrets.
//
// # The form
//
// A source is text of the form kind:name: header:NAME, query:NAME, json:/POINTER, form:NAME,
// item:LABEL (of the signature field), claim:NAME and jose:NAME (of a web token), and for a
// signature only body and numbered:PREFIX (a family of header fields).
//
//	setup: TEXT                            # for people: where the sender shows its secret
//	signature: header:X-Acme-Signature
//	items: {separator: ",", assign: "="}   # the field is a list, here of k=v; label: key_id says
//	                                       # that k is the id of the key
//	label: v1                              # the item that proves
//	algorithm: hmac-sha256                 # hmac-sha1|256|384|512, ed25519, ecdsa-p256-sha256,
//	                                       # ecdsa-p384-sha384, rsa-sha256, rsa-pss-sha256|512,
//	                                       # rfc9421, token, none; legacy: keyed-sha256, rsa-sha1
//	encoding: hex                          # hex-any-case, base64[-raw], base64url[-raw], text
//	raw: true                              # an ECDSA signature is r and s side by side, not DER
//	prefix: "sha256="                      # before the encoded signature; prefix_fold: true,
//	                                       # prefix_optional: true
//	key: {prefix: whsec_, encoding: base64} # text, hex, base64, basic, spki, sha1 (legacy);
//	                                       # prefix_required, prefix_refused, role, remote,
//	                                       # normalize: nfkd
//	proofs: [{label, algorithm, encoding, prefix, key}]  # instead of these, if there are several
//	content: [timestamp, {literal: "."}, body]  # body-crc32, body-sha256, form, method, url,
//	                                       # url-with-port, url-without-port, target, a source,
//	                                       # {optional: SOURCE, before, after},
//	                                       # {headers: SOURCE, separator, assign, join},
//	                                       # {secret: ROLE}: a value that both sides know, with
//	                                       # from: SOURCE one that is sent and must be it
//	jws: {leeway: 60s, expires: true}      # the field is a JSON Web Signature; no content then
//	timestamp: {from: "item:t", format: unix-s, tolerance: 300s}  # unix-ms, rfc3339, http-date;
//	                                       # future (if it differs), optional, json_string
//	key_id: header:X-Key                   # only the secret of that key_id counts
//	require: [{from: header:X-Version, equals: "1"}]     # or media, absent
//	unsigned_body: true                    # the sender signs a part only
//	body_hash: query:bodySHA256            # where the signed text has the hex SHA-256 of the body
//	legacy: true                           # weak: judged only where the source says allow_legacy
//	components: ["@method", content-digest] # what rfc9421 must cover; max_age
//	each: all                              # or any: each item of batch proves itself, and json
//	                                       # sources and body are of the item
//	any_of: [...]                          # several ways to sign, each with the keys above and id
//	id: [header:X-Event-Id, json:/id]      # the first that is there
//	type: [json:/type]
//	batch: {items: body, id: json:/id, type: json:/type}  # a body of several events; items may be
//	                                       # json:/POINTER, an id of several is joined
//	handshakes:
//	  - {name, method, signed, match: [{from, equals|absent|secret}], status, content_type,
//	     headers: {NAME: VALUE or {echo: SOURCE}}, body: [{literal|echo|echo_json|echo_hmac}],
//	     store: {role, from}}              # the value becomes a secret of that role
//
// A key that the sender publishes, at one URL or at one that the request names:
//
//	remote: {form: jwks, url: "https://acme.example/jwks.json"}  # with key_id: jose:kid
//	remote: {form: jwk, url, post: {client: user, secret: password, id: key_id}, at: json:/key}
//	remote: {form: certificate, url_from: header:X-Cert-Url, hosts: ["*.acme.example"],
//	         path: "/certs/*.pem", name: signs.acme.example}  # name: its host, with a chain
//
// How the sender delivers:
//
//	contract:                              # checked: the day when it was read at the source
//	  deadline: {value: 10s, source: TEXT, verified: true, checked: 2026-11-30}
package catalogue
