package protect

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/go/internal/breaker"
)

const alertKey = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

func TestAnAlertIsSignedAndPostedUntilItIsTaken(t *testing.T) {
	type post struct {
		id   string
		body alert
	}
	posts := make(chan post, 10)
	refused := false
	ops := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		key, _ := base64.StdEncoding.DecodeString(alertKey)
		mac := hmac.New(sha256.New, key)
		id := r.Header.Get("webhook-id")
		fmt.Fprintf(mac, "%s.%s.%s", id, r.Header.Get("webhook-timestamp"), body)
		want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
		if got := r.Header.Get("webhook-signature"); got != want {
			t.Errorf("signature %s, want %s", got, want)
		}
		p := post{id: id}
		if err := json.Unmarshal(body, &p.body); err != nil {
			t.Error(err)
		}
		posts <- p
		if !refused {
			refused = true
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer ops.Close()
	s := serve(t, Options{Host: "a"}, Config{
		Targets: []Target{billing("db")}, Groups: []Group{{Name: "db"}},
		Alerts: Alerts{URL: ops.URL, Secret: "whsec_" + alertKey},
	})
	if _, err := s.Set("db", "open", time.Hour, "alice"); err != nil {
		t.Fatal(err)
	}
	first, second := <-posts, <-posts
	if first.id != second.id || first.id == "" {
		t.Errorf("ids %q and %q of one alert", first.id, second.id)
	}
	d := second.body.Data
	if second.body.Type != "breaker.open" || d.Breaker != "db" || d.Kind != "group" ||
		len(d.Members) != 1 || d.From != "closed" || d.Reason != "forced open by alice" ||
		!d.Forced || d.Host != "a" || d.Until == nil ||
		d.Until.Sub(second.body.Timestamp) != time.Hour {
		t.Errorf("%+v", second.body)
	}
}

// The receivers of these are round trippers, so that hours pass in no time.
type receiver func(*http.Request) (*http.Response, error)

func (f receiver) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestAnAlertThatNobodyTakesEndsAndShowsNoSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log journal
		var tries []time.Time
		var mu sync.Mutex
		client := &http.Client{Transport: receiver(func(*http.Request) (*http.Response, error) {
			mu.Lock()
			defer mu.Unlock()
			tries = append(tries, time.Now())
			return nil, errors.New("connect: refused")
		})}
		s := serve(t, Options{Log: log.logger()}, Config{
			Targets: []Target{billing()},
			Alerts:  Alerts{URL: "https://ops:hunter2@host/T0KEN", Client: client},
		})
		begin := time.Now()
		for i := range alertsMax + 20 {
			if _, err := s.Set("billing", []string{"open", "closed"}[i%2], 0, "alice"); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if time.Since(begin) > 0 {
			t.Error("somebody waited for the alert")
		}
		pass(time.Hour)
		mu.Lock()
		defer mu.Unlock()
		// One more than may wait, if it was taken out in time.
		if n := len(tries); n != alertsMax*alertTries && n != (alertsMax+1)*alertTries {
			t.Errorf("%d tries", n)
		}
		if gap := tries[4].Sub(tries[3]); gap != 8*time.Second {
			t.Errorf("the fifth came after %v", gap)
		}
		if text := log.String(); strings.Contains(text, "hunter2") || strings.Contains(text, "T0KEN") ||
			!strings.Contains(text, "connect: refused") || !strings.Contains(text, "alerts dropped") {
			t.Error(text)
		}
	})
}

func TestOnlyWhoDecidedPostsAnAlert(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hub{}
		var mu sync.Mutex
		posted := map[string]int{}
		host := func(name string) *Service {
			client := &http.Client{Transport: receiver(func(*http.Request) (*http.Response, error) {
				mu.Lock()
				defer mu.Unlock()
				posted[name]++
				return &http.Response{StatusCode: 204, Body: http.NoBody}, nil
			})}
			return serve(t, Options{Host: name, Board: h.join()}, Config{
				Targets: []Target{billing()}, Alerts: Alerts{URL: "http://ops", Client: client},
			})
		}
		a, b := host("a"), host("b")
		if _, err := a.Set("billing", "open", 0, "alice"); err != nil {
			t.Fatal(err)
		}
		pass(2 * noteDelay)
		mu.Lock()
		defer mu.Unlock()
		if at(b)["billing"] != breaker.Open || posted["a"] != 1 || posted["b"] != 0 {
			t.Errorf("%v", posted)
		}
	})
}
