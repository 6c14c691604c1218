package doctor

import (
	"strings"
	"time"
)

// renewalLate is when a certificate that renews itself should have done so.
const renewalLate = 14 * 24 * time.Hour

// namesShown bounds how many names of a certificate are listed.
const namesShown = 5

// Certificate is one that a listener shows, as somebody else has read it.
type Certificate struct {
	File                string
	Names               []string // host names and addresses that it is for
	NotBefore, NotAfter time.Time
	Problem             error // why it cannot be used; the other fields are nothing then
}

func certificates(h Host, o Options) []Finding {
	var findings []Finding
	for _, c := range o.Certificates {
		findings = append(findings, certificate(c, h.Now()))
	}
	return findings
}

func certificate(c Certificate, now time.Time) Finding {
	name := "certificate " + c.File
	const renew = "renew it; what replaces the file is taken up at once"
	until := c.NotAfter.UTC().Format(time.DateOnly)
	switch left := c.NotAfter.Sub(now); {
	case c.Problem != nil:
		return bad(Fail, name, "name a certificate chain and its own key, both PEM", "%v", c.Problem)
	case left <= 0:
		return bad(Fail, name, renew, "it has expired on %s", until)
	case now.Before(c.NotBefore):
		return bad(Fail, name, "set the clock, or wait", "it begins on %s",
			c.NotBefore.UTC().Format(time.DateOnly))
	case left < renewalLate:
		return bad(Warn, name, renew, "it expires on %s, in %d days", until, int(left.Hours()/24))
	case len(c.Names) == 0:
		return bad(Warn, name, "issue it with subjectAltName",
			"it is for no host name: a sender that looks refuses it")
	}
	names := c.Names[:min(len(c.Names), namesShown)]
	more := ""
	if len(c.Names) > len(names) {
		more = ", …"
	}
	return good(name, "for %s%s until %s", strings.Join(names, ", "), more, until)
}
