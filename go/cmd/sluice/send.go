package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/go/internal/provider"
)

const (
	sendCountMax  = 1_000_000
	sendRateMax   = 10_000
	sendAnswerMax = 64 << 10
)

// sendFlags are one test webhook, or many.
type sendFlags struct {
	secret, file, id, kind, method string
	headers                        []string
	count                          uint64
	rate                           float64
	timeout                        time.Duration
	json                           bool
}

func sendCommand() *cobra.Command {
	var f sendFlags
	cmd := &cobra.Command{
		Use:   "send PROVIDER URL",
		Short: "sign and send a test webhook as that provider would",
		Long: `Sends a small event of the provider's form (or --file), signed with the secret, and
shows the answer. Each has an id of its own; with --id all have that one, as repeats would.
Exit code 0: every answer was 2xx.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0], args[1]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.secret, "secret", "",
		"literal, env:NAME, file:PATH or a JSON object of parts")
	flags.StringVar(&f.file, "file", "", "`FILE` of the body; - is standard input")
	flags.StringVar(&f.id, "id", "", "the sender's id of the event")
	flags.StringVar(&f.kind, "type", testType, "the sender's type of the event")
	flags.StringVar(&f.method, "method", "POST", "request method")
	flags.StringArrayVar(&f.headers, "header", nil, "`NAME: VALUE` as well; repeats")
	flags.Uint64Var(&f.count, "count", 1, "how many, one after another")
	flags.Float64Var(&f.rate, "rate", 0, "at most so many a second; 0: as fast as they are answered")
	flags.DurationVar(&f.timeout, "timeout", 30*time.Second, "for each answer")
	asJSON(cmd, &f.json, true)
	return cmd
}

// sender makes and sends requests of one provider to one URL.
type sender struct {
	*sendFlags
	scheme *provider.Scheme
	secret provider.Secret
	url    *url.URL
	body   []byte // nil: a body of the provider's form
	extra  []provider.Field
	via    *http.Client
}

func (f *sendFlags) run(cmd *cobra.Command, name, to string) error {
	s, err := f.sender(cmd, name, to)
	if err != nil {
		return err
	}
	defer s.via.CloseIdleConnections()
	refused := false
	pause := newPace(f.rate)
	for n := range f.count {
		if err := pause(cmd.Context(), n); err != nil {
			return err
		}
		a, err := s.send(cmd.Context())
		if err != nil {
			return err
		}
		refused = refused || a.Status < 200 || a.Status > 299
		if err := a.print(cmd.OutOrStdout(), f.json); err != nil {
			return err
		}
	}
	if refused {
		return silent{exitFailed}
	}
	return nil
}

func (f *sendFlags) sender(cmd *cobra.Command, name, to string) (*sender, error) {
	scheme, err := lookupScheme(name)
	if err != nil {
		return nil, err
	}
	s := &sender{sendFlags: f, scheme: scheme}
	switch {
	case f.count < 1 || f.count > sendCountMax:
		return nil, usagef("--count: between 1 and %d", sendCountMax)
	case !(f.rate >= 0 && f.rate <= sendRateMax):
		return nil, usagef("--rate: between 0 and %d a second", sendRateMax)
	case f.secret == "" && !scheme.Unsigned():
		return nil, usagef("%s signs; say with which --secret", name)
	case f.timeout <= 0:
		return nil, usagef("--timeout: an answer takes longer than 0s")
	}
	if s.url, err = url.Parse(to); err != nil || s.url.Host == "" ||
		s.url.Scheme != "http" && s.url.Scheme != "https" {
		return nil, usagef("%q is no URL; write http://127.0.0.1:8080/hooks/%s", to, name)
	}
	if s.secret, err = parseSecret(f.secret); err != nil {
		return nil, usagef("--secret: %w", err)
	}
	if s.extra, err = provider.ParseHeaders([]byte(strings.Join(f.headers, "\n"))); err != nil {
		return nil, usagef("--header: %w", err)
	}
	if f.file != "" {
		if s.body, err = readInput(cmd, f.file); err != nil {
			return nil, usagef("--file: %w", err)
		}
		if s.body == nil {
			s.body = []byte{}
		}
	}
	s.via = &http.Client{
		Timeout:   f.timeout,
		Transport: &http.Transport{DisableCompression: true},
		// The signature was made for this URL.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return s, nil
}

// newPace gives what waits for the turn of request n.
func newPace(rate float64) func(context.Context, uint64) error {
	began := time.Now()
	return func(ctx context.Context, n uint64) error {
		if rate == 0 || n == 0 {
			return ctx.Err()
		}
		turn := time.Duration(math.Round(float64(n) / rate * float64(time.Second)))
		select {
		case <-time.After(time.Until(began.Add(turn))):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// answered is what became of one request.
type answered struct {
	Status     int     `json:"status"`
	Result     string  `json:"result"` // accepted, duplicate, or what the answer says else
	ID         string  `json:"id"`     // of the event, as the daemon names it
	ProviderID string  `json:"provider_id"`
	Seconds    float64 `json:"seconds"`
	RetryAfter string  `json:"retry_after,omitempty"`
}

func (a *answered) print(w io.Writer, inJSON bool) error {
	if inJSON {
		return jsonLine(w, a)
	}
	text := fmt.Sprintf("%d %s", a.Status, http.StatusText(a.Status))
	for _, more := range []string{a.Result, a.ID} {
		if more != "" {
			text += "  " + printable(more)
		}
	}
	if a.RetryAfter != "" {
		text += "  retry after " + printable(a.RetryAfter) + " s"
	}
	_, err := fmt.Fprintf(w, "%s  %s\n", text,
		time.Duration(a.Seconds*float64(time.Second)).Round(10*time.Microsecond))
	return err
}

func (s *sender) send(ctx context.Context) (*answered, error) {
	r, id, err := s.request(ctx, time.Now())
	if err != nil {
		return nil, err
	}
	began := time.Now()
	response, err := s.via.Do(r)
	if err != nil {
		return nil, fmt.Errorf("no answer: %w", sendFault(err))
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, sendAnswerMax))
	took := time.Since(began)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return nil, fmt.Errorf("the answer broke off: %w", err)
	}
	a := &answered{
		Status: response.StatusCode, ID: response.Header.Get("X-Event-Id"), ProviderID: id,
		Seconds: took.Seconds(), RetryAfter: response.Header.Get("Retry-After"),
	}
	var said struct{ Status, ID, Error string }
	if json.Unmarshal(text, &said) == nil {
		a.Result = said.Status
		if said.Error != "" {
			a.Result = said.Error
		}
		if a.ID == "" {
			a.ID = said.ID
		}
	}
	return a, nil
}

// sendFault drops the method and the URL, whose query may hold a secret.
func sendFault(err error) error {
	if fault := (*url.Error)(nil); errors.As(err, &fault) {
		return fault.Err
	}
	return err
}

// request makes one request and tells the sender's id in it.
func (s *sender) request(ctx context.Context, now time.Time) (*http.Request, string, error) {
	id := s.id
	if id == "" {
		id = randomUUID()
	}
	body, contentType := s.body, jsonType
	if body == nil {
		body, contentType = testBody(s.scheme, id, now)
	}
	to := s.url.String()
	signed := provider.SignRequest{
		Method: s.method, Target: targetOf(to), URL: to, Body: body, Now: now, ID: id, Type: s.kind,
	}
	fields, err := provider.Sign(s.scheme, s.secret, &signed)
	if err != nil {
		return nil, "", fmt.Errorf("sign as %s: %w", s.scheme.Name, err)
	}
	r, err := http.NewRequestWithContext(ctx, s.method, signed.URL, bytes.NewReader(signed.Body))
	if err != nil {
		return nil, "", usage(err)
	}
	for _, field := range append(fields, s.extra...) {
		name, value := string(field.Name), strings.TrimSpace(string(field.Value))
		if strings.EqualFold(name, "host") {
			r.Host = value
			continue
		}
		if strings.EqualFold(name, "content-type") {
			name = "Content-Type"
		}
		if strings.EqualFold(name, "user-agent") {
			name = "User-Agent"
		}
		// Set would change the name's case.
		r.Header[name] = append(r.Header[name], value)
	}
	if r.Header.Get("Content-Type") == "" {
		r.Header.Set("Content-Type", contentType)
	}
	if r.Header.Get("User-Agent") == "" {
		r.Header.Set("User-Agent", "sluice/"+version)
	}
	return r, id, nil
}
