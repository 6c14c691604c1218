package main

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/url"
	"strings"
	"testing"
	"time"

	"sluice/bench/referee"
	"sluice/go/internal/provider"
)

// strangersKey is a key of the form that the sender has, which the receiver does not know.
func strangersKey(c *contest) provider.Secret {
	switch {
	case c.provider == "sendgrid":
		return sendgridContest().sign
	case c.provider == "discord":
		return provider.Secret{Value: hex.EncodeToString(bytes.Repeat([]byte{8}, 32))}
	case strings.HasPrefix(c.sign.Value, "whsec_"):
		other := base64.StdEncoding.EncodeToString([]byte("another-key-of-24-bytes."))
		return provider.Secret{Value: "whsec_" + other}
	}
	return provider.Secret{Value: "another-key"}
}

func TestEachLibraryAcceptsAndRefusesWhatWeDo(t *testing.T) {
	now := time.Now()
	libraries := 0
	for _, c := range contests() {
		if c.library != nil {
			libraries++
		}
		stranger := c
		stranger.sign = strangersKey(&c)
		for _, test := range []struct {
			name   string
			sender *contest
			at     time.Time
			change bool
			proved bool // by the primitive, which knows no time
		}{
			{"good", &c, now, false, true},
			{"changed", &c, now, true, c.family == token},
			{"another key", &stranger, now, false, false},
			{"an hour old", &c, now.Add(-time.Hour), false, true},
		} {
			d, err := test.sender.deliver(2000, test.at)
			if err != nil {
				t.Fatalf("%s: %v", c.provider, err)
			}
			if test.change {
				d.body[len(d.body)/2] ^= 1
			}
			j, err := c.judges(d, now)
			if err != nil {
				t.Fatalf("%s: %v", c.provider, err)
			}
			ours := j.proof()
			if test.at == now && ours != test.proved {
				t.Errorf("%s, %s: our proof says %v", c.provider, test.name, ours)
			}
			if got := j.verdict(); got != ours {
				t.Errorf("%s, %s: proof %v, verdict %v", c.provider, test.name, ours, got)
			}
			if got := j.primitive(); got != test.proved {
				t.Errorf("%s, %s: the primitive says %v", c.provider, test.name, got)
			}
			if j.library == nil {
				continue
			}
			for range 2 { // Whatever it reads is there again.
				if got := j.library(); got != ours {
					t.Errorf("%s, %s: ours says %v, the library %v", c.provider, test.name, ours, got)
				}
			}
		}
	}
	if libraries < 10 {
		t.Errorf("only %d libraries", libraries)
	}
}

func TestBodiesAreWhatTheyAreCalled(t *testing.T) {
	for _, c := range contests() {
		for _, size := range sizes {
			body := c.body(size)
			if len(body) != size {
				t.Errorf("%s: %d bytes, not %d", c.provider, len(body), size)
			}
			if _, err := url.ParseQuery(string(body)); c.family == form && err != nil {
				t.Errorf("%s: %v", c.provider, err)
			}
			if c.family != form && !json.Valid(body) {
				t.Errorf("%s: no JSON: %s", c.provider, body)
			}
		}
	}
}

func TestALibraryThatRefusesEndsTheMeasurement(t *testing.T) {
	list, err := choose(contests(), "stripe")
	if err != nil {
		t.Fatal(err)
	}
	list[0].library = func(*delivery) judge { return func() bool { return false } }
	_, err = measure(&list[0], 1024, 1, time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "the library refuses") {
		t.Errorf("%v", err)
	}
}

func TestGatesJudgeWhatWasMeasuredInQuiet(t *testing.T) {
	made := func(proof float64, others referee.Cores) row {
		c := &contest{provider: "p", family: hexBody}
		return row{contest: c, size: gateBytes, proof: cost{ns: proof}, primitive: cost{ns: 100},
			others: others}
	}
	for _, test := range []struct {
		rows   []row
		word   string
		missed int
	}{
		{[]row{made(129, 0), made(101, 0)}, "met", 0},
		{[]row{made(101, 0), made(131, 0)}, "MISSED", 1},
		{[]row{made(131, 1), made(101, 0)}, "unjudged", 0},
		{[]row{made(131, 1)}, "unjudged", 0},
		{[]row{made(131, 0), made(101, 1)}, "MISSED", 1},
		{nil, "", 0},
	} {
		var out strings.Builder
		missed := referee.PrintGates(&out, gates(test.rows))
		if missed != test.missed || !strings.Contains(out.String(), test.word) {
			t.Errorf("missed %d, want %s: %s", missed, test.word, out.String())
		}
	}
}

func TestATableHasARowForEachMeasurement(t *testing.T) {
	c := contests()[0]
	r, err := measure(&c, 1024, 1, time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	printTable(&out, []row{r})
	printTable(io.Discard, nil)
	if !strings.Contains(out.String(), "github") || r.proof.ns <= 0 || r.library.ns <= 0 {
		t.Errorf("%s\n%+v", out.String(), r)
	}
}

func TestWhatCannotBeMeasuredIsRefused(t *testing.T) {
	for _, test := range []struct {
		rounds int
		window time.Duration
		only   string
	}{
		{0, time.Millisecond, ""}, {roundsMax + 1, time.Millisecond, ""},
		{1, 2 * windowMax, ""}, {1, time.Millisecond, "nobody"},
	} {
		if _, err := bench(test.rounds, test.window, test.only, ""); err == nil {
			t.Errorf("%+v was taken", test)
		}
	}
}
