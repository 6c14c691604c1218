package config

import (
	"encoding/hex"
	"net/netip"
	"net/url"
	"strings"
)

// clientForms are what a name in a client certificate begins with, in the form in which the data
// plane writes it.
var clientForms = []string{"sha256", "subject", "cn", "dns", "uri", "email", "ip"}

func (r *reader) clientNames(t *table, s *Source) {
	before, path := len(r.faults), t.join("client_names")
	s.ClientNames = values(t, "client_names", nil, parseClientName)
	switch {
	case s.ClientNames == nil || len(r.faults) > before:
	case !s.MutualTLS:
		r.fault(path, "take it out, or write verify: mtls",
			"source %s is not proven by a client certificate", s.Name)
	case len(s.ClientNames) > clientNamesMax:
		r.fault(path, "name a ca of their own under client_ca", "%d names are more than %d",
			len(s.ClientNames), clientNamesMax)
	case len(s.ClientNames) == 0:
		r.fault(path, "name who may send, or take it out: every certificate of client_ca may then",
			"nobody could send")
	}
}

// parseClientName brings a name into the one form that requests are compared in: hex in small
// letters without colons, addresses as RFC 5952 writes them, host names in small letters.
func parseClientName(text string) (string, error) {
	const mend = "write it as dns:connect.example.com, sha256:… or another of " +
		"subject:, cn:, uri:, email:, ip:"
	form, name, found := strings.Cut(text, ":")
	switch {
	case !found || name == "":
		return "", wrong(mend, "%q names nobody", text)
	case len(text) > clientNameMax:
		return "", wrong("pin the certificate by sha256:", "the name has %d bytes, over %d",
			len(text), clientNameMax)
	case strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c == 0x7f }):
		return "", wrong("take it out", "%q has a control character, which no name has", text)
	}
	switch form {
	case "sha256":
		digest, err := hex.DecodeString(strings.ReplaceAll(name, ":", ""))
		if err != nil || len(digest) != 32 {
			return "", wrong("take the output of `openssl x509 -noout -fingerprint -sha256`",
				"%q is no SHA-256 of a certificate: want 64 hexadecimal digits", text)
		}
		name = hex.EncodeToString(digest)
	case "dns":
		name = strings.ToLower(name)
		if strings.ContainsAny(name, "*/ @") {
			return "", wrong("name each host, or pin the certificate by sha256:",
				"%q is no host name: it is compared as it is, without wildcards", text)
		}
	case "ip":
		addr, err := netip.ParseAddr(name)
		if err != nil || addr.Zone() != "" {
			return "", wrong("write it as ip:192.0.2.1", "%q is no address", text)
		}
		name = addr.String()
	case "uri":
		if u, err := url.Parse(name); err != nil || u.Scheme == "" {
			return "", wrong("write it as uri:spiffe://example.org/sender", "%q is no URI", text)
		}
	case "subject", "cn", "email":
	default:
		if close, near := suggest(form, clientForms); near {
			return "", wrong("did you mean "+close+":?", "%q is no form of a name", form)
		}
		return "", wrong(mend, "%q is no form of a name", form)
	}
	return form + ":" + name, nil
}
