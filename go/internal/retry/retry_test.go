package retry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"syscall"
	"testing"
	"time"
)

func TestTheBoundDoublesAndStopsAtTheMaximum(t *testing.T) {
	p := Default()
	want := []time.Duration{2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 3600, 3600, 3600, 3600}
	for i, seconds := range want {
		if got := p.Bound(i + 1); got != seconds*time.Second {
			t.Errorf("attempt %d: bound %v, want %v", i+1, got, seconds*time.Second)
		}
	}
}

func TestNoAttemptNumberOverflows(t *testing.T) {
	for _, p := range []Policy{
		Default(),
		{Base: 1, Max: math.MaxInt64, Attempts: 16},
		{Base: math.MaxInt64, Max: math.MaxInt64, Attempts: 16},
		{Base: math.MaxInt64/2 + 1, Max: math.MaxInt64, Attempts: 16},
		{Base: 3 * time.Hour, Max: time.Hour, Attempts: 16},
	} {
		last := time.Duration(0)
		for attempt := 1; attempt <= AttemptsMax; attempt++ {
			bound := p.Bound(attempt)
			if bound < last || bound > p.Max {
				t.Fatalf("%+v attempt %d: bound %v after %v", p, attempt, bound, last)
			}
			if d := p.Delay(attempt, 0, func(n int64) int64 { return n - 1 }); d < 0 || d > p.Max {
				t.Fatalf("%+v attempt %d: delay %v", p, attempt, d)
			}
			last = bound
		}
		if last != p.Max {
			t.Errorf("%+v never reaches its maximum: %v", p, last)
		}
	}
}

func TestJitterFillsTheWholeRange(t *testing.T) {
	seed := uint64(20260101)
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	p := Default()
	const draws = 10000
	var quarters [4]int
	for range draws {
		d := p.Delay(5, 0, rng.Int64N)
		if d < 0 || d > 32*time.Second {
			t.Fatalf("delay %v outside [0, 32s]", d)
		}
		quarters[min(int(d/(8*time.Second)), 3)]++
	}
	for i, count := range quarters {
		if count < draws/5 || count > draws*3/10 {
			t.Errorf("quarter %d holds %d of %d draws", i, count, draws)
		}
	}
}

func TestRetryAfterIsAFloorAndTheMaximumACap(t *testing.T) {
	p := Default()
	none := func(int64) int64 { return 0 }
	most := func(n int64) int64 { return n - 1 }
	for _, c := range []struct {
		after  time.Duration
		jitter Jitter
		want   time.Duration
	}{
		{0, none, 0},
		{0, most, 2 * time.Second},
		{time.Second, most, 2 * time.Second},
		{time.Minute, most, time.Minute},
		{time.Minute, none, time.Minute},
		{48 * time.Hour, none, time.Hour},
		{-time.Minute, none, 0},
	} {
		if got := p.Delay(1, c.after, c.jitter); got != c.want {
			t.Errorf("after %v: delay %v, want %v", c.after, got, c.want)
		}
	}
}

func TestTheLastAttemptIsTheSixteenth(t *testing.T) {
	p := Policy{}.Normalized()
	if p != Default() {
		t.Fatalf("normalized empty policy is %+v", p)
	}
	if p.Exhausted(15) || !p.Exhausted(16) || !p.Exhausted(17) {
		t.Error("16 attempts in all, no more and no fewer")
	}
	odd := Policy{Base: time.Minute, Max: time.Second, Attempts: 1 << 20}.Normalized()
	if odd.Base != time.Second || odd.Attempts != AttemptsMax {
		t.Errorf("contradictions are not mended: %+v", odd)
	}
}

func TestRetryAfterForms(t *testing.T) {
	now := time.Date(2026, 1, 1, 3, 25, 45, 0, time.UTC)
	until := 4*time.Minute + 15*time.Second
	for _, c := range []struct {
		value string
		want  time.Duration
	}{
		{"Thu, 01 Jan 2026 03:30:00 GMT", until},
		{"Thursday, 01-Jan-26 03:30:00 GMT", until},
		{"Thu Jan  1 03:30:00 2026", until},
		{"Thu, 01 Jan 2026 03:25:45 GMT", 0},
		{"Wed, 31 Dec 2025 03:30:00 GMT", 0},
		{"Fri, 31 Dec 9999 23:59:59 GMT", time.Hour},
		{"Thu, 01 Jan 2026 03:30:00 CET", 0},
		{"120", 2 * time.Minute},
		{" 120\t", 2 * time.Minute},
		{"0", 0},
		{"00000000000000000000000000000000000007", 7 * time.Second},
		{"3600", time.Hour},
		{"3601", time.Hour},
		{"-1", 0},
		{"+5", 0},
		{"1.5", 0},
		{"99999999999", time.Hour},
		{"99999999999999999999999999999999999999", time.Hour},
		{"soon", 0},
		{"", 0},
	} {
		if got := After(c.value, now, time.Hour); got != c.want {
			t.Errorf("Retry-After %q: %v, want %v", c.value, got, c.want)
		}
	}
	if got := After("9223372036854775807", now, math.MaxInt64); got != math.MaxInt64 {
		t.Errorf("with the largest limit: %v", got)
	}
	if got := After("1", now, 1500*time.Millisecond); got != time.Second {
		t.Errorf("under a limit of odd length: %v", got)
	}
	if got := After("2", now, 1500*time.Millisecond); got != 1500*time.Millisecond {
		t.Errorf("over a limit of odd length: %v", got)
	}
}

func FuzzRetryAfterStaysInBounds(f *testing.F) {
	for _, seed := range []string{"1", "-1", "99999999999", "Thu, 01 Jan 2026 03:30:00 GMT", "\x00"} {
		f.Add(seed)
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, value string) {
		if got := After(value, now, time.Hour); got < 0 || got > time.Hour {
			t.Fatalf("%q: %v", value, got)
		}
	})
}

func TestStatusTable(t *testing.T) {
	want := map[Verdict][]int{
		Delivered: {200, 201, 202, 204, 299},
		Retry: {0, 100, 101, 300, 301, 302, 303, 304, 307, 308, 408, 425, 429, 500, 501, 502, 503, 504,
			505, 507, 599, 600, 999},
		Permanent: {400, 401, 402, 403, 404, 405, 406, 407, 409, 410, 411, 413, 415, 418, 422, 431, 451,
			499},
	}
	for verdict, codes := range want {
		for _, code := range codes {
			if got := Status(code); got != verdict {
				t.Errorf("status %d: %v, want %v", code, got, verdict)
			}
		}
	}
}

func TestCauseTable(t *testing.T) {
	op := func(err error) error {
		return &url.Error{Op: "Post", URL: "http://h/", Err: &net.OpError{Op: "read", Err: err}}
	}
	sys := func(errno syscall.Errno) error { return op(os.NewSyscallError("call", errno)) }
	for _, c := range []struct {
		err  error
		want Cause
	}{
		{op(&net.DNSError{Err: "no such host", IsNotFound: true}), DNS},
		{op(&net.DNSError{Err: "i/o timeout", IsTimeout: true}), DNS},
		{sys(syscall.ECONNREFUSED), Refused},
		{sys(syscall.ECONNRESET), Reset},
		{sys(syscall.EPIPE), Reset},
		{sys(syscall.EHOSTUNREACH), Unreachable},
		{sys(syscall.ENETUNREACH), Unreachable},
		{sys(syscall.ETIMEDOUT), Timeout},
		{sys(syscall.EMFILE), Local},
		{sys(syscall.EADDRNOTAVAIL), Local},
		{sys(syscall.EACCES), Unreachable},
		{fmt.Errorf("h2: %w", ErrReset), Reset},
		{fmt.Errorf("%w handshake: weird version", ErrTLS), TLS},
		{fmt.Errorf("%w: answered 407", ErrProxy), Proxy},
		{fmt.Errorf("%w 10.0.0.1:3128: %w", ErrProxy, sys(syscall.ECONNREFUSED)), Proxy},
		{fmt.Errorf("%w 10.0.0.1:3128: %w", ErrProxy, ErrDenied), Denied},
		{fmt.Errorf("%w: %w", ErrProxy, context.Canceled), Cancelled},
		{op(ErrDenied), Denied},
		{ErrPool, Pool},
		{ErrLock, Lock},
		{op(os.ErrDeadlineExceeded), Timeout},
		{fmt.Errorf("dial: %w", context.DeadlineExceeded), Timeout},
		{fmt.Errorf("dial: %w", context.Canceled), Cancelled},
		{op(io.EOF), Closed},
		{op(io.ErrUnexpectedEOF), Closed},
		{op(net.ErrClosed), Closed},
		{op(tls.AlertError(40)), TLS},
		{&net.OpError{Op: "remote error", Err: errors.New("tls: bad certificate")}, TLS},
		{op(&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}), TLS},
		{op(tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}), TLS},
		{op(x509.HostnameError{Certificate: &x509.Certificate{}, Host: "h"}), TLS},
		{fmt.Errorf("status line: %w", ErrProtocol), Protocol},
		{errors.New("what is this"), Unknown},
	} {
		if got := CauseOf(c.err); got != c.want {
			t.Errorf("%v: cause %v, want %v", c.err, got, c.want)
		}
	}
}

func TestEveryCauseHasAName(t *testing.T) {
	seen := map[string]bool{}
	for cause := Unknown; cause <= Proxy; cause++ {
		if name := cause.String(); seen[name] || name == fmt.Sprintf("cause(%d)", cause) {
			t.Errorf("cause %d is %q", cause, name)
		} else {
			seen[name] = true
		}
	}
}
