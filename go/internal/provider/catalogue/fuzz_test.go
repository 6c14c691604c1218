package catalogue_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"sluice/go/internal/provider"
	"sluice/go/internal/provider/catalogue"
)

// FuzzASignedBodyThatWasTouched signs any body as a sender of the catalogue would, and changes one
// byte of it on the way: the first holds, the second never does.
func FuzzASignedBodyThatWasTouched(f *testing.F) {
	names := catalogue.Names()
	for i, name := range names {
		for n := range keysFor(name) {
			f.Add(uint8(i), uint8(n), []byte(`{"webhookTimestamp":1767237945123,"id":"evt_1"}`),
				uint16(7*i), uint8(1<<(i%8)))
		}
	}
	now := time.UnixMilli(1767237945123)
	f.Fuzz(func(t *testing.T, which, key uint8, body []byte, at uint16, bits uint8) {
		name := names[int(which)%len(names)]
		pairs := keysFor(name)
		pair := pairs[int(key)%len(pairs)]
		// Mailgun signs a part of the body, twilio what a form means and not its bytes, sendgrid
		// with another key than the one to verify with.
		others := []string{"mailgun", "twilio", "sendgrid"}
		if len(body) == 0 || bits == 0 || slices.Contains(others, name) {
			return
		}
		fields, err := provider.Sign(lookup(t, name), pair.sign, &provider.SignRequest{
			Method: "POST", Target: "/in?x=1", URL: "https://hooks.example.test/in?x=1",
			Body: body, Now: now, ID: "evt-1", Type: "made",
		})
		if errors.Is(err, provider.ErrNotSignable) {
			return
		}
		if err != nil {
			return // the body has not the form that this sender's have
		}
		r := &provider.Request{
			Method: []byte("POST"), Target: []byte("/in?x=1"),
			URL:  []byte("https://hooks.example.test/in?x=1"),
			Body: body, Headers: fields, ReceivedNS: now.UnixNano(),
		}
		verifier := compileKey(t, name, pair.verify)
		switch got := verifier.Verify(r); {
		case got.Outcome == provider.BadSignature:
			t.Fatalf("%s: signed, but %s (%s)", name, got.Outcome, got.Detail)
		case got.Outcome != provider.OK || got.Response != nil || !coversBody(name, pair):
			return // no such sender's body (some carry the time), a handshake, or a mere token
		}
		r.Body = bytes.Clone(body)
		r.Body[int(at)%len(body)] ^= bits
		if got := verifier.Verify(r); got.Outcome == provider.OK && got.Response == nil {
			t.Fatalf("%s: %q passes as %q", name, r.Body, body)
		}
	})
}
