package http

import (
	"fmt"
	"slices"
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

// readFields checks the configured fields and lists the sender's that do not go on, the hop-by-hop
// ones apart.
func (d *Destination) readFields() error {
	o := &d.options
	var err error
	if d.keys, err = newKeys(o.Secrets); err != nil {
		return err
	}
	ours := slices.Clone(framing)
	if len(d.keys) > 0 {
		ours = append(ours, []byte(signedID), []byte(signedTime), []byte(signature))
	}
	for _, h := range d.own { // Authorization, of the URL
		ours = append(ours, h.Name)
	}
	d.drop = ours
	for _, h := range o.Headers {
		f := field(h.Name, h.Value)
		if err := f.Check(); err != nil {
			return fmt.Errorf("headers: %w", err)
		}
		if destination.Named(f.Name, ours) || len(destination.EndToEnd([]destination.Header{f})) == 0 {
			return fmt.Errorf("headers: %s is not for the config to set: it frames the request, or is "+
				"set by this destination already", h.Name)
		}
		d.own = append(d.own, f)
		d.drop = append(d.drop, f.Name)
	}
	for _, name := range o.DropHeaders {
		d.drop = append(d.drop, []byte(name))
	}
	return nil
}

func field(name, value string) destination.Header {
	return destination.Header{Name: []byte(name), Value: []byte(value)}
}

// scratch is the memory of one attempt, used again by others.
type scratch struct {
	fields  []destination.Header // of the request, framing apart
	id      string
	out     []byte // the head, and the body behind it where that is short
	posting posting
}

const (
	// joinedMax is the longest body that is copied behind its head, to go out in one write, and in
	// one TLS record with a head of usual length.
	joinedMax = 15 << 10
	// scratchMax is the most memory that a scratch keeps between attempts.
	scratchMax = 64 << 10
)

func (d *Destination) newScratch() *scratch {
	if s, ok := d.scratches.Get().(*scratch); ok {
		return s
	}
	return &scratch{out: make([]byte, 0, 2<<10)}
}

// free forgets all that belongs to the attempt's caller. It is not deferred: after a panic
// something may hold on to s.
func (d *Destination) free(s *scratch) {
	if cap(s.out) > scratchMax {
		return
	}
	clear(s.fields[:cap(s.fields)]) // some were there and were left out
	s.fields, s.out, s.posting = s.fields[:0], s.out[:0], posting{}
	d.scratches.Put(s)
}

// compose lists the fields of a request: the sender's in wire order, then ours. An error is a fault
// of ours (something let such a request in) and never passes.
func (d *Destination) compose(s *scratch, r *destination.Request) error {
	if !destination.IsToken(r.Method) {
		return fmt.Errorf("method %q cannot be sent", r.Method)
	}
	s.fields = destination.AppendEndToEnd(s.fields, r.Headers)
	kept := s.fields[:0]
	for _, h := range s.fields {
		if destination.Named(h.Name, d.drop) {
			continue
		}
		if err := h.Check(); err != nil {
			return err
		}
		kept = append(kept, h)
	}
	s.fields = append(kept, d.own...)
	s.id = r.EventID.String()
	if len(d.keys) > 0 {
		seconds, signatures := d.keys.sign(s.id, d.options.Now(), r.Body)
		s.fields = append(s.fields, field(signedID, s.id), field(signedTime, seconds),
			field(signature, signatures))
	}
	return nil
}

// post writes the request of HTTP/1.1.
func (d *Destination) post(s *scratch, r *destination.Request) *posting {
	b := append(s.out[:0], r.Method...)
	b = append(append(append(b, ' '), d.target...), " HTTP/1.1\r\nHost: "...)
	b = append(append(b, d.host...), "\r\n"...)
	for _, h := range s.fields {
		b = append(append(append(append(b, h.Name...), ": "...), h.Value...), "\r\n"...)
	}
	b = append(append(append(b, "Idempotency-Key: "...), s.id...), "\r\n"...)
	if len(r.Body) > 0 || wantsLength(r.Method) {
		b = append(b, "Content-Length: "...)
		b = append(strconv.AppendInt(b, int64(len(r.Body)), 10), "\r\n"...)
	}
	b = append(b, "\r\n"...)
	s.posting = posting{method: r.Method, want: r.WantAnswer}
	if len(r.Body) <= joinedMax {
		b = append(b, r.Body...)
	} else {
		s.posting.body = r.Body
	}
	s.out, s.posting.head = b, b
	return &s.posting
}

// wantsLength tells whether a request without a body says so (RFC 9110 §8.6).
func wantsLength(method string) bool {
	return method == "POST" || method == "PUT" || method == "PATCH"
}
