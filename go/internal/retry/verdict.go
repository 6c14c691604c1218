package retry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
)

// Verdict is what one attempt made of a delivery.
type Verdict uint8

// The verdicts.
const (
	Delivered Verdict = 1 + iota // the destination took it
	Retry                        // it may pass later
	Permanent                    // it will never pass: a dead letter at once
)

func (v Verdict) String() string {
	switch v {
	case Delivered:
		return "delivered"
	case Retry:
		return "retry"
	case Permanent:
		return "permanent"
	}
	return fmt.Sprintf("verdict(%d)", uint8(v))
}

// Status judges an HTTP status.
//
//	2xx            delivered
//	408 425 429    retry: the destination itself says "later"
//	other 4xx      permanent: the same bytes get the same answer; the dead letter can be replayed
//	5xx            retry
//	3xx            retry: redirects are never followed (the body and its signature were meant for
//	               the configured URL), and most appear while a destination is being moved or
//	               guarded by a login page; an acknowledged event is not given up for that
//	1xx, others    retry: no final answer was given
func Status(code int) Verdict {
	switch {
	case code >= 200 && code <= 299:
		return Delivered
	case code == 408 || code == 425 || code == 429:
		return Retry
	case code >= 400 && code <= 499:
		return Permanent
	default:
		return Retry
	}
}

// Cause names why an attempt got no answer. None of them is permanent: names, certificates,
// proxies, processes and networks come back, an egress rule is mended by a reload, and an event
// that was acknowledged waits for it. What can never pass (a request that the protocol cannot
// carry) has no cause: the adapter refuses it before it connects.
//
//	cause        seen as                                        whose turn it is
//	local        EMFILE, ENFILE, ENOBUFS, ENOMEM, EADDRNOTAVAIL  this host's operator
//	dns          *net.DNSError, timeouts of the resolver too     whoever runs the name
//	denied       ErrDenied                                       the operator's egress rules
//	proxy        ErrProxy: any failure up to the open tunnel,    whoever runs the proxy
//	             its 407 and 502 included
//	refused      ECONNREFUSED                                    the destination
//	unreachable  EHOSTUNREACH, ENETUNREACH, EHOSTDOWN, EACCES    the network, a firewall
//	tls          alerts, certificates, ErrTLS                    either side's certificates
//	timeout      any deadline, ETIMEDOUT                         the destination
//	reset        ECONNRESET, EPIPE, ErrReset (HTTP/2 streams)    the destination
//	closed       end of stream, GOAWAY                           the destination
//	protocol     ErrProtocol                                     the destination
//	pool, lock   ErrPool, ErrLock                                the destination (a database)
//	cancelled    context.Canceled                                nobody: we ended it
type Cause uint8

// The causes, in the order in which an attempt meets them.
const (
	Unknown     Cause = iota
	Local             // this host ran out of something (descriptors, ports, memory)
	DNS               // the name did not resolve
	Refused           // nobody listens there
	Unreachable       // no route to it
	TLS               // the handshake failed or the certificate does not hold
	Timeout           // no answer in time
	Reset             // the connection was reset
	Closed            // the connection was closed before the whole answer
	Protocol          // the answer is not HTTP, or out of bounds
	Denied            // an egress rule forbids the address
	Pool              // no connection of a bounded pool came free in time
	Lock              // a lock was not granted in time
	Cancelled         // we ended the attempt ourselves; says nothing about the destination
	Proxy             // the proxy on the way failed or refused; the destination was not reached
)

func (c Cause) String() string {
	switch c {
	case Unknown:
		return "unknown"
	case Local:
		return "local"
	case DNS:
		return "dns"
	case Refused:
		return "refused"
	case Unreachable:
		return "unreachable"
	case TLS:
		return "tls"
	case Timeout:
		return "timeout"
	case Reset:
		return "reset"
	case Closed:
		return "closed"
	case Protocol:
		return "protocol"
	case Denied:
		return "denied"
	case Pool:
		return "pool"
	case Lock:
		return "lock"
	case Cancelled:
		return "cancelled"
	case Proxy:
		return "proxy"
	}
	return fmt.Sprintf("cause(%d)", uint8(c))
}

// What an adapter wraps where no error of the standard library says it.
var (
	ErrProtocol = errors.New("answer not understood")
	ErrDenied   = errors.New("denied by the egress rules")
	ErrPool     = errors.New("no connection came free in time")
	ErrLock     = errors.New("a lock was not granted in time")
	ErrProxy    = errors.New("proxy")
	ErrReset    = errors.New("the stream was reset")
	ErrTLS      = errors.New("TLS handshake")
)

var sentinelCauses = []struct {
	err   error
	cause Cause
}{
	// Denied first: it may have been the proxy's address.
	{ErrDenied, Denied}, {ErrProxy, Proxy}, {ErrProtocol, Protocol}, {ErrPool, Pool}, {ErrLock, Lock},
	{ErrReset, Reset}, {ErrTLS, TLS},
}

// CauseOf finds the cause in an error chain of the standard library's network packages and the
// errors above.
func CauseOf(err error) Cause {
	if errors.Is(err, context.Canceled) {
		return Cancelled
	}
	for _, row := range sentinelCauses {
		if errors.Is(err, row.err) {
			return row.cause
		}
	}
	// Before Timeout: a slow resolver is the resolver's fault, not the destination's.
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return DNS
	}
	if isTLS(err) {
		return TLS
	}
	for _, row := range errnoCauses {
		if errors.Is(err, row.errno) {
			return row.cause
		}
	}
	var timeout net.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return Timeout
	case errors.As(err, &timeout) && timeout.Timeout():
		return Timeout
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return Closed
	}
	return Unknown
}

var errnoCauses = []struct {
	errno syscall.Errno
	cause Cause
}{
	{syscall.ECONNREFUSED, Refused},
	{syscall.ECONNRESET, Reset},
	{syscall.EPIPE, Reset},
	{syscall.ECONNABORTED, Reset},
	{syscall.EHOSTUNREACH, Unreachable},
	{syscall.ENETUNREACH, Unreachable},
	{syscall.EHOSTDOWN, Unreachable},
	{syscall.ENETDOWN, Unreachable},
	{syscall.EACCES, Unreachable}, // a firewall's answer
	{syscall.EPERM, Unreachable},
	{syscall.ETIMEDOUT, Timeout},
	{syscall.EMFILE, Local},
	{syscall.ENFILE, Local},
	{syscall.ENOBUFS, Local},
	{syscall.ENOMEM, Local},
	{syscall.EADDRNOTAVAIL, Local},
	{syscall.EADDRINUSE, Local},
}

func isTLS(err error) bool {
	var (
		record    tls.RecordHeaderError
		alert     tls.AlertError
		verify    *tls.CertificateVerificationError
		authority x509.UnknownAuthorityError
		hostname  x509.HostnameError
		invalid   x509.CertificateInvalidError
		op        *net.OpError
	)
	// crypto/tls reports an alert of either side as an operation of this name.
	if errors.As(err, &op) && (op.Op == "remote error" || op.Op == "local error") {
		return true
	}
	return errors.As(err, &record) || errors.As(err, &alert) || errors.As(err, &verify) ||
		errors.As(err, &authority) || errors.As(err, &hostname) || errors.As(err, &invalid)
}
