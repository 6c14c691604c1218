package http

import (
	"fmt"
	"strconv"

	"sluice/go/internal/destination"
)

// framing are the names that every request of ours sets itself, or that the receipt of the request
// has already answered (Expect, RFC 9110 §10.1.1: the sender was told to go on long ago).
var framing = [][]byte{
	[]byte("Content-Length"),
	[]byte("Expect"),
	[]byte("Host"),
	[]byte("Idempotency-Key"),
}

// dropped lists the sender's fields that do not go on, the hop-by-hop ones apart.
func dropped(configured []string, ownAuthorization bool) [][]byte {
	list := append([][]byte(nil), framing...)
	if ownAuthorization {
		list = append(list, []byte("Authorization"))
	}
	for _, name := range configured {
		list = append(list, []byte(name))
	}
	return list
}

// head writes the request line and the fields: the sender's in wire order, then ours. An error is a
// fault of ours (something let such a request in) and never passes.
func (d *Destination) head(r *destination.Request) ([]byte, error) {
	if !destination.IsToken(r.Method) {
		return nil, fmt.Errorf("method %q cannot be sent", r.Method)
	}
	headers := destination.EndToEnd(r.Headers)
	size := 256 + len(d.target) + len(d.host)
	for _, h := range headers {
		size += len(h.Name) + len(h.Value) + 4
	}
	b := make([]byte, 0, size)
	b = append(b, r.Method...)
	b = append(b, ' ')
	b = append(b, d.target...)
	b = append(b, " HTTP/1.1\r\n"...)
	b = field(b, "Host", d.host)
	for _, h := range headers {
		if destination.Named(h.Name, d.drop) {
			continue
		}
		if err := h.Check(); err != nil {
			return nil, err
		}
		b = field(b, h.Name, h.Value)
	}
	if d.authorization != "" {
		b = field(b, "Authorization", d.authorization)
	}
	b = field(b, "Idempotency-Key", r.EventID.String())
	if len(r.Body) > 0 || wantsLength(r.Method) {
		b = field(b, "Content-Length", strconv.Itoa(len(r.Body)))
	}
	return append(b, "\r\n"...), nil
}

func field[T []byte | string](b []byte, name, value T) []byte {
	b = append(b, name...)
	b = append(b, ": "...)
	b = append(b, value...)
	return append(b, "\r\n"...)
}

// wantsLength tells whether a request without a body says so (RFC 9110 §8.6).
func wantsLength(method string) bool {
	return method == "POST" || method == "PUT" || method == "PATCH"
}
