package shmabi

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
)

func sample(t testing.TB) Frame {
	t.Helper()
	f, err := BuildEvent(EventParts{
		Method: "POST", Target: "/hooks/github?x=1",
		Headers: [][2]string{{"Host", "a"}, {"X-Empty", ""}, {"x-GitHub-Event", "push"}},
		Body:    bytes.Repeat([]byte("ab"), 77), Peer: netip.MustParseAddrPort("192.0.2.7:4711"),
		SourceID: 3, ReceivedNS: 5, Position: 640,
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestAnEventReadsBackAsItWasBuilt(t *testing.T) {
	f := sample(t)
	parsed, err := ParseFrame(append(f, make([]byte, 64)...))
	if err != nil || len(parsed) != len(f) {
		t.Fatalf("ParseFrame: %d bytes, %v", len(parsed), err)
	}
	if err := parsed.CheckCRC(); err != nil {
		t.Fatal(err)
	}
	e, err := parsed.Event()
	if err != nil {
		t.Fatal(err)
	}
	if err := e.ValidHeaders(); err != nil {
		t.Fatal(err)
	}
	if got := string(e.Method()) + " " + string(e.Target()); got != "POST /hooks/github?x=1" {
		t.Errorf("request line %q", got)
	}
	name, value := e.Header(2)
	if e.HeaderCount() != 3 || string(name) != "x-GitHub-Event" || string(value) != "push" {
		t.Errorf("header 2 is %q: %q of %d", name, value, e.HeaderCount())
	}
	if len(e.Body()) != 154 || e.Peer().String() != "192.0.2.7:4711" {
		t.Errorf("body %d bytes, peer %v", len(e.Body()), e.Peer())
	}
}

func TestClientNamesOfAnyLengthLieBetweenTargetAndHeaders(t *testing.T) {
	for n := range ClientMax + 2 {
		names := strings.Repeat("n", n)
		f, err := BuildEvent(EventParts{
			Method: "POST", Target: "/a", Client: names, Headers: [][2]string{{"Host", "x"}},
			Body: []byte("body"),
		})
		if n > ClientMax {
			if err == nil {
				t.Errorf("%d bytes of names were taken", n)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		e, err := f.Event()
		if err != nil {
			t.Fatal(err)
		}
		name, value := e.Header(0)
		if string(e.Client()) != names || string(e.Target()) != "/a" || string(name) != "Host" ||
			string(value) != "x" || string(e.Body()) != "body" {
			t.Fatalf("%d bytes of names: %q %q %q %q", n, e.Client(), e.Target(), name, value)
		}
	}
}

func TestAWrongFrameIsATypedErrorNeverAPanic(t *testing.T) {
	good := sample(t)
	rng := rand.New(rand.NewPCG(1, 2))
	for at := range FrameHeader + PayloadHeadSize {
		for range 8 {
			f := Frame(bytes.Clone(good))
			f[at] = byte(rng.Uint32())
			p, err := ParseFrame(f)
			if err != nil {
				if !errors.Is(err, ErrFrame) {
					t.Fatalf("byte %d: %v", at, err)
				}
				continue
			}
			if p.Kind() != KindEvent {
				continue
			}
			e, err := p.Event()
			if err != nil {
				continue
			}
			_ = e.ValidHeaders()
			for i := range e.HeaderCount() {
				e.Header(i)
			}
			_, _ = e.Body(), e.Peer()
		}
	}
}

func TestAFlippedPayloadBitIsNoticed(t *testing.T) {
	f := sample(t)
	f[len(f)-1] ^= 1
	if err := f.CheckCRC(); !errors.Is(err, ErrFrame) {
		t.Fatalf("padding flipped: %v", err)
	}
}
