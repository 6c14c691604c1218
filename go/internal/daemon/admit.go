package daemon

import (
	"slices"

	"sluice/go/internal/provider"
	pb "sluice/proto/sluice/v1"
)

// What a data plane must know of a sender to decide whom it serves first: it knows no provider, and
// it decides before anybody has judged the request.

// Bounds of what a data plane looks for in a request; it refuses a snapshot beyond them.
const (
	idPlacesMax      = 8
	handshakesMax    = 16
	handshakeBodyMax = 4 << 10 // bytes; a handshake has one value and a little around it
)

func priorityOf(name string) pb.Priority {
	switch name {
	case "high":
		return pb.Priority_PRIORITY_HIGH
	case "low":
		return pb.Priority_PRIORITY_LOW
	}
	return pb.Priority_PRIORITY_DEFAULT
}

// idPlacesOf is where a data plane finds the sender's own id, to know repeats by. An id in the
// query is not looked for: a repeat without a known id is served as a first attempt.
func idPlacesOf(s *provider.Scheme, from provider.IDFrom) []*pb.IdPlace {
	var list []*pb.IdPlace
	for _, place := range from.Places(s) {
		switch place.Kind {
		case provider.SourceHeader:
			list = append(list, &pb.IdPlace{Place: &pb.IdPlace_Header{Header: place.Name}})
		case provider.SourceJSON:
			list = append(list, &pb.IdPlace{Place: &pb.IdPlace_Json{Json: place.Name}})
		}
	}
	return list[:min(len(list), idPlacesMax)]
}

// handshakesOf is what the scheme's handshakes look like from outside. Values are not compared, and
// what is matched in the body counts as a short body: such a matcher takes in some events, too, and
// the floor that they may use is bounded.
func handshakesOf(s *provider.Scheme) []*pb.Handshake {
	var list []*pb.Handshake
	for i := range s.Handshakes {
		rule := &s.Handshakes[i]
		look := &pb.Handshake{Method: rule.Method}
		inBody := false
		for _, match := range rule.Match {
			switch {
			case match.Absent:
			case match.From.Kind == provider.SourceQuery:
				look.QueryKeys = append(look.QueryKeys, match.From.Name)
			case match.From.Kind == provider.SourceHeader:
				look.Headers = append(look.Headers, match.From.Name)
			case match.From.Kind == provider.SourceJSON, match.From.Kind == provider.SourceForm,
				match.From.Kind == provider.SourceBody:
				inBody = true
			}
		}
		nothing := look.Method == "" && len(look.QueryKeys) == 0 && len(look.Headers) == 0
		if inBody || nothing {
			look.MaxBody = handshakeBodyMax
			if look.Method == "" {
				look.Method = "POST"
			}
		}
		if !slices.ContainsFunc(list, func(other *pb.Handshake) bool { return same(look, other) }) {
			list = append(list, look)
		}
	}
	return list[:min(len(list), handshakesMax)]
}

func same(a, b *pb.Handshake) bool {
	return a.Method == b.Method && a.MaxBody == b.MaxBody &&
		slices.Equal(a.QueryKeys, b.QueryKeys) && slices.Equal(a.Headers, b.Headers)
}

// guardAfter is how many refusals in a row make a source be served first, so that its sender does
// not stop sending: half of what it bears, and always one that it does bear. 0: it bears any
// number.
func guardAfter(c *provider.Contract) uint32 {
	bears := c.DisableAfter.Or(0)
	if bears <= 0 {
		return 0
	}
	return uint32(max(1, min((bears+1)/2, bears-1)))
}
