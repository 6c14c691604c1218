package provider

import (
	"bytes"
	"fmt"
	"strings"
)

// clientKinds are what a line of Request.Client begins with. Host names are compared without regard
// to ASCII case (RFC 4343), all others byte for byte, as the data plane wrote them.
var clientKinds = []string{"sha256:", "subject:", "cn:", dnsKind, "uri:", "email:", "ip:"}

const dnsKind = "dns:"

// ClientScheme is the scheme of a source whose senders show a client certificate, and nothing else:
// one with any of the names, or, without names, any that TLS has verified. Such events have no id
// of their own. Names have the form of Request.Client; host names are in lower case.
func ClientScheme(names []string) *Scheme {
	return &Scheme{
		Name: "mtls", Title: "client certificate",
		AnyOf: []Variant{{Proofs: []Proof{{Algorithm: ClientCertificate}}, ClientNames: names}},
	}
}

func checkClientNames(names []string) error {
	if len(names) > clientNamesMax {
		return fmt.Errorf("%d client names are more than %d", len(names), clientNamesMax)
	}
	for _, name := range names {
		known := false
		for _, kind := range clientKinds {
			known = known || strings.HasPrefix(name, kind) && len(name) > len(kind)
		}
		switch {
		case !known:
			return fmt.Errorf("client name %q: want one of %s and a name", name,
				strings.Join(clientKinds, ", "))
		case strings.ContainsAny(name, "\n\x00"):
			return fmt.Errorf("client name %q: no name has a line end", name)
		case strings.HasPrefix(name, dnsKind) && name != strings.ToLower(name):
			return fmt.Errorf("client name %q: want lower case", name)
		}
	}
	return nil
}

// judgeClient holds the lines of a certificate against the names of which it must have one. Only
// whole lines count, so a name that has another one inside is not taken for it.
func judgeClient(client []byte, names []string) (Outcome, string) {
	if len(client) == 0 {
		return MissingHeader, "no client certificate was shown"
	}
	if len(names) == 0 {
		return OK, ""
	}
	for rest, more := client, true; more; {
		var line []byte
		line, rest, more = bytes.Cut(rest, []byte{'\n'})
		for _, name := range names {
			if string(line) == name || strings.HasPrefix(name, dnsKind) && equalFold(line, name) {
				return OK, ""
			}
		}
	}
	return BadSignature, "the client certificate has none of the configured names"
}
