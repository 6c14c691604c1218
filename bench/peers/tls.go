package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// nowhere reads each body and has no use for it, as a gateway does with a path that nobody has:
// what is compared is TLS and HTTP.
func nowhere(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	http.Error(w, "no such path", http.StatusNotFound)
}

func serveTLS(ctx context.Context, o options) error {
	pair, err := tls.LoadX509KeyPair(o.cert, o.key)
	if err != nil {
		return err
	}
	listener, err := listen(ctx, o.address)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler: http.HandlerFunc(nowhere), ReadHeaderTimeout: 10 * time.Second,
		TLSConfig: &tls.Config{
			Certificates: []tls.Certificate{pair}, NextProtos: []string{"http/1.1"},
		},
	}
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	if err := server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// posted is what tls-post reports.
type posted struct {
	Requests uint64  `json:"requests"`
	Failed   uint64  `json:"failed"`
	Resumed  uint64  `json:"resumed"`
	Seconds  float64 `json:"seconds"`
	Curve    string  `json:"curve"`
	Cipher   string  `json:"cipher"`
}

// postTLS sends requests, each as soon as the one before it on its connection was answered.
func postTLS(ctx context.Context, out io.Writer, o options) error {
	target, err := url.Parse(o.url)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.length)
	defer cancel()
	var report posted
	var state atomic.Pointer[tls.ConnectionState]
	began := time.Now()
	var group sync.WaitGroup
	for range o.pool {
		group.Go(func() {
			s := newTLSSender(o, target)
			for ctx.Err() == nil {
				connection, err := s.send(ctx)
				switch {
				case err == nil:
					atomic.AddUint64(&report.Requests, 1)
					if connection != nil && connection.DidResume {
						atomic.AddUint64(&report.Resumed, 1)
					}
					state.Store(connection)
				case ctx.Err() == nil:
					atomic.AddUint64(&report.Failed, 1)
					time.Sleep(time.Millisecond)
				}
			}
			s.hangUp()
		})
	}
	group.Wait()
	report.Seconds = time.Since(began).Seconds()
	if last := state.Load(); last != nil {
		report.Curve, report.Cipher = last.CurveID.String(), tls.CipherSuiteName(last.CipherSuite)
	}
	return json.NewEncoder(out).Encode(report)
}

// tlsSender is one sender with at most one connection.
type tlsSender struct {
	address string
	plain   bool
	config  *tls.Config
	keep    bool
	request string
	conn    net.Conn
	reader  *bufio.Reader
	state   *tls.ConnectionState // nil: plain
}

func newTLSSender(o options, target *url.URL) *tlsSender {
	s := &tlsSender{
		address: target.Host, plain: target.Scheme == "http", keep: o.way == "keep-alive",
		// The certificate is the bench's own.
		config: &tls.Config{InsecureSkipVerify: true, CurvePreferences: []tls.CurveID{tls.X25519}},
	}
	if o.way == "resumed" {
		s.config.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	}
	if o.way == "pq" {
		s.config.CurvePreferences = []tls.CurveID{tls.X25519MLKEM768}
	}
	s.request = fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n%s",
		target.Path, target.Host, o.bytes, strings.Repeat("x", o.bytes))
	return s
}

// send sends one request and reads its answer.
func (s *tlsSender) send(ctx context.Context) (*tls.ConnectionState, error) {
	if s.conn == nil {
		if err := s.connect(ctx); err != nil {
			return nil, err
		}
	}
	err := s.exchange()
	if err != nil || !s.keep {
		s.hangUp()
	}
	return s.state, err
}

func (s *tlsSender) connect(ctx context.Context) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.address)
	if err != nil {
		return err
	}
	s.conn, s.state = conn, nil
	if !s.plain {
		secured := tls.Client(conn, s.config)
		if err := secured.HandshakeContext(ctx); err != nil {
			_ = conn.Close()
			s.conn = nil
			return err
		}
		state := secured.ConnectionState()
		s.conn, s.state = secured, &state
	}
	s.reader = bufio.NewReader(s.conn)
	return nil
}

func (s *tlsSender) exchange() error {
	if _, err := io.WriteString(s.conn, s.request); err != nil {
		return err
	}
	answer, err := http.ReadResponse(s.reader, nil)
	if err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return err
	}
	if answer.StatusCode != http.StatusNotFound {
		return fmt.Errorf("answered %s", answer.Status)
	}
	if answer.Close && s.keep {
		s.hangUp()
	}
	return nil
}

func (s *tlsSender) hangUp() {
	if s.conn != nil {
		_ = s.conn.Close()
		s.conn = nil
	}
}
