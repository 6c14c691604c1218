package admin

import (
	"net/url"
	"slices"
	"strings"
	"time"

	pb "sluice/proto/sluice/v1"
)

// Secret is one secret of a source, without a word of what it is.
type Secret struct {
	Origin              string
	KeyID, Role         string
	NotBefore, NotAfter time.Time // zero: no bound
	Verified            uint64    // events that it has proved since the start
	LastUsed            time.Time // zero: not since the start
}

func secretStatuses(secrets []Secret) (list []*pb.SecretStatus) {
	for _, s := range secrets {
		list = append(list, &pb.SecretStatus{
			Origin: s.Origin, KeyId: s.KeyID, Role: s.Role, NotBeforeNs: unixNano(s.NotBefore),
			NotAfterNs: unixNano(s.NotAfter), Verified: s.Verified, LastUsedNs: unixNano(s.LastUsed),
		})
	}
	return list
}

// Carried names where the requests of a source carry its secret itself, as those of senders do that
// sign nothing.
type Carried struct{ Headers, Parameters []string }

const concealed = "[secret]"

// conceal takes such secrets out of an event that is shown on a screen. The stored one keeps
// them: its destinations may look for them, and so may a script.
func (c Carried) conceal(e *pb.EventDetail) {
	for _, h := range e.GetHeaders() {
		for _, name := range c.Headers {
			if strings.EqualFold(name, string(h.GetName())) {
				h.Value = []byte(concealed)
			}
		}
	}
	path, query, found := strings.Cut(e.GetTarget(), "?")
	if !found || len(c.Parameters) == 0 {
		return
	}
	pairs := strings.Split(query, "&")
	for i, pair := range pairs {
		name, _, _ := strings.Cut(pair, "=")
		if plain, err := url.QueryUnescape(name); err == nil && slices.Contains(c.Parameters, plain) {
			pairs[i] = name + "=" + concealed
		}
	}
	e.Target = path + "?" + strings.Join(pairs, "&")
}
