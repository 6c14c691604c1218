package protect

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The bounds of alerts.
const (
	alertsMax    = 64 // that wait; what comes then is dropped
	alertTries   = 5
	alertPause   = time.Second // before the second try; doubles
	alertTimeout = 5 * time.Second
)

// Alerts says where each transition is posted. Ramp steps are not, nor what another host decided:
// that host posts it.
type Alerts struct {
	URL string // empty: nowhere
	// Secret signs with Standard Webhooks, as "whsec_" and Base64; empty: unsigned.
	Secret string
	Client *http.Client // nil: one that follows no redirects
}

func (a Alerts) check() error {
	if u, err := url.Parse(a.URL); a.URL != "" &&
		(err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		return errors.New("the URL of alerts is not http:// or https:// with a host")
	}
	if a.Secret == "" {
		return nil
	}
	_, err := ParseAlertSecret(a.Secret)
	return err
}

// ParseAlertSecret gives the key of a Standard Webhooks secret.
func ParseAlertSecret(text string) ([]byte, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(text, "whsec_"))
	if err != nil || len(key) == 0 {
		return nil, errors.New("the secret of alerts is not whsec_ and Base64")
	}
	return key, nil
}

// poster sends alerts one after the other.
type poster struct {
	log    *slog.Logger
	host   string
	client *http.Client
	queue  chan alert

	mu      sync.Mutex
	to      Alerts
	dropped uint64
}

// alert is the body that is posted.
type alert struct {
	Type      string    `json:"type"` // "breaker.open", "breaker.half_open" or "breaker.closed"
	Timestamp time.Time `json:"timestamp"`
	Data      alertData `json:"data"`
}

type alertData struct {
	Breaker string     `json:"breaker"`
	Kind    string     `json:"kind"`
	Members []string   `json:"members"`
	From    string     `json:"from"`
	To      string     `json:"to"`
	Reason  string     `json:"reason"`
	Until   *time.Time `json:"until,omitempty"`
	Forced  bool       `json:"forced"`
	Host    string     `json:"host"`
}

func (p *poster) init(log *slog.Logger, host string) {
	p.log, p.host, p.queue = log, host, make(chan alert, alertsMax)
	p.client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
}

func (p *poster) use(a Alerts) {
	p.mu.Lock()
	p.to = a
	p.mu.Unlock()
}

func (p *poster) target() Alerts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.to
}

// offer takes a transition, if it is to be posted.
func (p *poster) offer(c Change) {
	if p.target().URL == "" || !c.Moved() || c.Host != p.host {
		return
	}
	a := alert{
		Type: "breaker." + c.To.String(), Timestamp: c.At.UTC().Round(0),
		Data: alertData{
			Breaker: c.Breaker, Kind: c.Look.Kind, Members: c.Look.Members,
			From: c.From.String(), To: c.To.String(), Reason: c.Reason, Forced: c.Forced,
			Host: c.Host,
		},
	}
	if a.Data.Members == nil {
		a.Data.Members = []string{}
	}
	if !c.Until.IsZero() {
		until := c.Until.UTC().Round(0)
		a.Data.Until = &until
	}
	select {
	case p.queue <- a:
	default:
		p.mu.Lock()
		p.dropped++
		p.mu.Unlock()
	}
}

func (p *poster) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case a := <-p.queue:
			if err := p.deliver(ctx, a); err != nil && ctx.Err() == nil {
				p.log.Warn("alert not posted", "breaker", a.Data.Breaker, "to", a.Data.To,
					"tries", alertTries, "error", err)
			}
		}
		p.mu.Lock()
		dropped := p.dropped
		p.dropped = 0
		p.mu.Unlock()
		if dropped > 0 {
			p.log.Warn("alerts dropped, more wait than may", "count", dropped)
		}
	}
}

// deliver posts one alert, again under the same id where it fails.
func (p *poster) deliver(ctx context.Context, a alert) error {
	body, err := json.Marshal(a)
	if err != nil {
		return err
	}
	id := "msg_" + rand.Text()
	pause := alertPause
	for try := 1; ; try++ {
		if err = p.post(ctx, id, body); err == nil || try == alertTries {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
		pause *= 2
	}
}

func (p *poster) post(ctx context.Context, id string, body []byte) error {
	to := p.target()
	if to.URL == "" {
		return nil // a reload took them away
	}
	ctx, cancel := context.WithTimeout(ctx, alertTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to.URL, bytes.NewReader(body))
	if err != nil {
		return errors.New("the URL of alerts does not parse") // the error would quote it
	}
	stamp := strconv.FormatInt(time.Now().Unix(), 10)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("webhook-id", id)
	r.Header.Set("webhook-timestamp", stamp)
	if to.Secret != "" {
		key, err := ParseAlertSecret(to.Secret)
		if err != nil {
			return err
		}
		mac := hmac.New(sha256.New, key)
		fmt.Fprintf(mac, "%s.%s.%s", id, stamp, body)
		r.Header.Set("webhook-signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	client := to.Client
	if client == nil {
		client = p.client
	}
	answer, err := client.Do(r)
	if err != nil {
		// Its text holds the URL, which may hold a secret; its cause does not.
		if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		return err
	}
	defer answer.Body.Close()
	_, _ = io.CopyN(io.Discard, answer.Body, 4<<10) // so that the connection can be used again
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		return fmt.Errorf("answered with status %d", answer.StatusCode)
	}
	return nil
}
