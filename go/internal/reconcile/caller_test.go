package reconcile

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// direct carries calls to a handler without a socket, so that a bubble's clock moves.
type direct struct {
	http.Handler
	fail func() error
}

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	if d.fail != nil {
		if err := d.fail(); err != nil {
			return nil, err
		}
	}
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w.Result(), nil
}

// asks makes a call of GitHub's kind to a provider that answers in turn, and gives how long it
// took.
func asks(t *testing.T, answers ...http.HandlerFunc) (took time.Duration, calls int, err error) {
	synctest.Test(t, func(t *testing.T) {
		c, fault := newCaller("http://provider.test/", callerOptions{transport: direct{
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				answers[min(calls, len(answers)-1)](w, r)
				calls++
			}),
		}})
		must(t, fault)
		c.sign, c.limits = bearer([]byte(theToken)), githubLimits
		began := time.Now()
		if _, err = c.get(t.Context(), "x"); err == nil {
			_, err = c.get(t.Context(), "again")
		}
		took = time.Since(began)
	})
	return took, calls, err
}

func ok(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "[]") }

// no answers with a status, headers as pairs, and a body.
func no(status int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

// reset is a limit that ends in a while; what is there tells how many requests are left.
func reset(status int, left string, in time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		no(status, "[]", "X-RateLimit-Remaining", left, "X-RateLimit-Reset",
			fmt.Sprint(time.Now().Add(in).Unix()))(w, r)
	}
}

func TestAProvidersLimitsAreKept(t *testing.T) {
	for name, c := range map[string]struct {
		answers  []http.HandlerFunc
		at, most time.Duration
		calls    int
	}{
		"no limit": {[]http.HandlerFunc{ok}, 0, 0, 2},
		"a storm of 429": {[]http.HandlerFunc{no(429, "", "Retry-After", "30"), no(429, "", "Retry-After",
			"30"), no(429, "", "Retry-After", "30"), ok}, 90 * time.Second, 91 * time.Second, 5},
		"429 without a time": {[]http.HandlerFunc{no(429, ""), ok}, 2 * time.Second, 3 * time.Second, 3},
		"503 with a time": {[]http.HandlerFunc{no(503, "", "Retry-After", "7"), ok}, 7 * time.Second,
			8 * time.Second, 3},
		"a fraction": {[]http.HandlerFunc{no(429, "", "Retry-After", "2.0"), ok}, 2 * time.Second,
			4 * time.Second, 3},
		"a date": {[]http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) {
			no(429, "", "Retry-After", time.Now().Add(time.Minute).UTC().Format(http.TimeFormat))(w, r)
		}, ok}, time.Minute - time.Second, time.Minute + time.Second, 3},
		"none left": {[]http.HandlerFunc{reset(403, "0", 40*time.Minute), ok}, 40 * time.Minute,
			40*time.Minute + 2*time.Second, 3},
		"the last one": {[]http.HandlerFunc{reset(200, "0", time.Minute), ok}, time.Minute,
			time.Minute + 2*time.Second, 2},
		"a secondary limit": {[]http.HandlerFunc{no(403, `{"message":"You have exceeded a secondary `+
			`rate limit"}`), ok}, time.Minute, 2 * time.Minute, 3},
		"some left": {[]http.HandlerFunc{reset(200, "7", time.Hour), ok}, 0, 0, 2},
		"a bad moment": {[]http.HandlerFunc{no(502, ""), no(500, ""), ok}, 3 * time.Second,
			5 * time.Second, 4},
	} {
		took, calls, err := asks(t, c.answers...)
		if err != nil || took < c.at || took > c.most || calls != c.calls {
			t.Errorf("%s: %d calls in %v: %v", name, calls, took, err)
		}
	}
}

func TestAProviderIsNotWaitedForForEver(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		most   time.Duration
		calls  int
		why    string
	}{
		"429 for ever":  {no(429, "", "Retry-After", "60"), 61 * time.Minute, limitedMax + 1, "(429)"},
		"a long wait":   {no(429, "", "Retry-After", "86400"), 0, 1, "(429)"},
		"500 for ever":  {no(500, ""), time.Minute, triesMax, "asked 5 times: the provider fails (500)"},
		"no permission": {no(403, "{}"), 0, 1, "(403)"},
	} {
		took, calls, err := asks(t, c.answer)
		var fault *Fault
		if err == nil || !errors.As(err, &fault) || !strings.Contains(err.Error(), c.why) ||
			took > c.most || calls != c.calls {
			t.Errorf("%s: %d calls in %v: %v", name, calls, took, err)
		}
	}
}

func TestACallThatFailsIsMadeAgainAndItsURLIsNotTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := 2
		c, err := newCaller("http://provider.test/"+theToken, callerOptions{transport: direct{
			Handler: http.HandlerFunc(ok),
			fail: func() error {
				if left--; left >= 0 {
					return errors.New("connection refused")
				}
				return nil
			},
		}})
		must(t, err)
		c.sign = func(http.Header) {}
		if _, err := c.get(t.Context(), "x"); err != nil {
			t.Error(err)
		}
		left = 1000
		_, err = c.get(t.Context(), "x?key="+theToken)
		if err == nil || strings.Contains(err.Error(), theToken) {
			t.Errorf("the error is %v", err)
		}
	})
}

func TestAWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waiting := ""
		c, err := newCaller("http://provider.test/", callerOptions{
			transport: direct{Handler: no(429, "", "Retry-After", "600")},
			waiting:   func(what string) { waiting += what + "|" },
		})
		must(t, err)
		c.sign = func(http.Header) {}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.get(ctx, "x"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the error is %v", err)
		}
		if !strings.HasPrefix(waiting, "the provider's rate, until ") ||
			!strings.HasSuffix(waiting, "||") {
			t.Errorf("waited for %q", waiting)
		}
	})
}

func TestAnAnswerIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := newCaller("http://provider.test/", callerOptions{transport: direct{
			Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				piece := make([]byte, 1<<20)
				for range pageBytesMax>>20 + 1 {
					_, _ = w.Write(piece)
				}
			}),
		}})
		must(t, err)
		c.sign = func(http.Header) {}
		_, _, err = c.once(t.Context(), http.MethodGet, "http://provider.test/")
		if err == nil || !strings.Contains(err.Error(), "longer than") {
			t.Errorf("the error is %v", err)
		}
	})
}

func TestTheNextPageIsReadFromLinkFields(t *testing.T) {
	for want, fields := range map[string][]string{
		"":    {"", "<a>", "<a>; rel=prev", "a; rel=next", "<a; rel=next"},
		"b":   {`<a>; rel="prev", <b>; rel="next"`, "<b>;rel=next", `<b>; title=x; REL="next"`},
		"b,c": {`<b,c>; rel=next`},
	} {
		for _, field := range fields {
			if got := nextLink(http.Header{"Link": {field}}); got != want {
				t.Errorf("%q: %q, want %q", field, got, want)
			}
		}
	}
	if got := nextLink(http.Header{"Link": {"<a>; rel=prev", "<b>; rel=next"}}); got != "b" {
		t.Errorf("of two fields: %q", got)
	}
}

func TestPointersLeadIntoJSON(t *testing.T) {
	raw := []byte(`{"a":[{"b/c":12345678901234567890},{"~":"x"}],"n":null,"t":true}`)
	for pointer, want := range map[string]string{
		"/a/0/b~1c": "12345678901234567890", "/a/1/~0": "x", "/a/2": "-", "/a/x": "-", "/n": "-",
		"/t": "-", "/a": "-", "/z": "-", "/a/-1": "-", "/a/0/b~1c/d": "-",
	} {
		got, found := textAt(raw, pointer)
		if found && got != want || !found && want != "-" {
			t.Errorf("%s: %q %v, want %q", pointer, got, found, want)
		}
	}
	if whole, found := within(raw, ""); !found || len(whole) != len(raw) {
		t.Error("an empty pointer does not lead to the whole")
	}
}
