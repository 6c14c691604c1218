// Package number measures what another program says over HTTP: any number in a JSON document, or
// the result of a Prometheus query.
//
// It follows redirects within the same host alone, uses no proxy, and decides nothing. Its errors
// name the scheme, host and path that were asked, and never the URL's password or query.
package number

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"sluice/go/internal/breaker"
	"sluice/go/internal/signal"
)

const (
	timeoutDefault = 2 * time.Second
	bodyMax        = 1 << 20 // bytes, unpacked
	headMax        = 64 << 10
	redirectsMax   = 3
	idlePatience   = 90 * time.Second
	quoteMax       = 200 // bytes of another program's text in an error
)

// Options are what both kinds of number have.
type Options struct {
	// URL is http:// or https://. A user and password in it are sent as basic authentication.
	URL string
	// Name is the level's.
	Name      string
	Threshold signal.Threshold
	// Pool tells that the number is the used share of a pool, 0 to 1.
	Pool bool
	// Timeout bounds one reading; 0: 2 s.
	Timeout time.Duration
}

// Source is a signal.Source of one level.
type Source struct {
	o      Options
	url    *url.URL
	client *http.Client
	// parse finds the number; false: there is none to speak of now.
	parse func(status int, body []byte) (float64, bool, error)
}

func newSource(o Options) (*Source, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		// What Parse says repeats the URL.
		return nil, errors.New("signal: the URL cannot be read; write http://host:port/path")
	}
	if o.Timeout <= 0 {
		o.Timeout = timeoutDefault
	}
	transport := &http.Transport{MaxConnsPerHost: 1, IdleConnTimeout: idlePatience,
		MaxResponseHeaderBytes: headMax, ForceAttemptHTTP2: true}
	client := &http.Client{Transport: transport, CheckRedirect: stay}
	return &Source{o: o, url: u, client: client}, nil
}

// stay refuses to leave the host that the operator named.
func stay(next *http.Request, before []*http.Request) error {
	first := before[0].URL
	if next.URL.Scheme != first.Scheme || next.URL.Host != first.Host {
		return errors.New("it redirects to another host")
	}
	if len(before) > redirectsMax {
		return fmt.Errorf("it redirects more than %d times", redirectsMax)
	}
	return nil
}

// Read asks once. Errors are the other program's or the network's, or the operator's where the URL,
// the pointer or the query is not what that program knows.
func (s *Source) Read(ctx context.Context) ([]breaker.Level, error) {
	value, ok, err := s.ask(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask %s://%s%s: %w", s.url.Scheme, s.url.Host, s.url.Path, err)
	}
	if !ok || math.IsNaN(value) || math.IsInf(value, 0) {
		return nil, nil
	}
	if s.o.Pool {
		return []breaker.Level{s.o.Threshold.PoolLevel(s.o.Name, value)}, nil
	}
	return []breaker.Level{s.o.Threshold.Level(s.o.Name, value)}, nil
}

func (s *Source) ask(ctx context.Context) (float64, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url.String(), nil)
	if err != nil {
		return 0, false, errors.New("the URL makes no request")
	}
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "sluice")
	response, err := s.client.Do(request)
	if whole := (*url.Error)(nil); errors.As(err, &whole) {
		err = whole.Err // without the URL
	}
	if err != nil {
		return 0, false, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, bodyMax+1))
	if err != nil {
		return 0, false, fmt.Errorf("read the answer: %w", err)
	}
	if len(body) > bodyMax {
		return 0, false, fmt.Errorf("the answer is longer than %d bytes", bodyMax)
	}
	return s.parse(response.StatusCode, body)
}

// Close frees the connection.
func (s *Source) Close() error {
	s.client.CloseIdleConnections()
	return nil
}

// quoted is a piece of another program's text, safe for a log.
func quoted(text string) string { return strconv.Quote(text[:min(len(text), quoteMax)]) }
