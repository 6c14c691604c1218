package http

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"

	"sluice/go/internal/retry"
)

// link is one open stream to the destination, through proxies and TLS where there are any.
type link struct {
	stream   net.Conn // what is written to: the socket, or what lies over it
	socket   *socket
	layers   []*records // under each TLS between the two
	protocol string     // as agreed by ALPN; empty without TLS or agreement
}

// over starts a link at the bottom.
func over(c net.Conn) *link {
	s := newSocket(c)
	return &link{stream: s, socket: s}
}

// secure adds TLS. The link is closed when it fails.
func (l *link) secure(ctx context.Context, config *tls.Config) error {
	layer := newRecords(l.stream)
	stream := tls.Client(layer, config)
	if err := stream.HandshakeContext(ctx); err != nil {
		l.abort()
		if retry.CauseOf(err) == retry.Unknown {
			err = fmt.Errorf("%w: %w", retry.ErrTLS, err)
		}
		return err
	}
	l.stream, l.layers = stream, append(l.layers, layer)
	l.protocol = stream.ConnectionState().NegotiatedProtocol
	return nil
}

// quiet tells whether an idle link is open with nothing to read on any of its layers.
func (l *link) quiet() bool {
	for _, layer := range l.layers {
		if !layer.quiet() {
			return false
		}
	}
	return l.socket.quiet()
}

// abort ends the connection without ceremony: a TLS farewell could wait for a peer that reads
// nothing.
func (l *link) abort() { _ = l.socket.Close() }

// connect opens a link to the destination. protocols are what may be spoken over TLS, the best
// first.
func (d *Destination) connect(ctx context.Context, protocols ...string) (*link, error) {
	var l *link
	var err error
	if d.proxy == nil {
		var c net.Conn
		if c, err = d.options.Dial(ctx, "tcp", d.address); err == nil {
			l = over(c)
		}
	} else {
		l, err = d.tunnel(ctx)
	}
	if err != nil || d.tls == nil {
		return l, err
	}
	config, stale := d.tls.config()
	config.NextProtos = protocols
	if err := l.secure(ctx, config); err != nil {
		if stale != nil {
			err = fmt.Errorf("%w (with the certificates of before, since %w)", err, stale)
		}
		return nil, err
	}
	return l, nil
}

// tunnel opens a link through the proxy. The destination's name is resolved here and the proxy is
// given an address: it is the only one that the egress rules can be asked about.
func (d *Destination) tunnel(ctx context.Context) (*link, error) {
	targets, err := d.resolve(ctx)
	if err != nil {
		return nil, err
	}
	var first error
	for _, target := range targets {
		l, err := d.proxy.open(ctx, target)
		if err == nil {
			return l, nil
		}
		if first == nil {
			first = err
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, first
}

// resolvedMax bounds how many of a name's addresses are tried through a proxy in one attempt.
const resolvedMax = 4

// resolve gives the addresses of the destination that the egress rules allow.
func (d *Destination) resolve(ctx context.Context) ([]string, error) {
	host, port, err := net.SplitHostPort(d.address)
	if err != nil {
		return nil, err
	}
	var addresses []netip.Addr
	if literal, err := netip.ParseAddr(host); err == nil {
		addresses = append(addresses, literal)
	} else if addresses, err = net.DefaultResolver.LookupNetIP(ctx, "ip", host); err != nil {
		return nil, err
	}
	var allowed []string
	var denied error
	for _, a := range addresses {
		if err := d.options.Egress.Check(a); err == nil {
			allowed = append(allowed, net.JoinHostPort(a.Unmap().String(), port))
		} else if denied == nil {
			denied = err
		}
	}
	if len(allowed) == 0 {
		return nil, denied
	}
	return allowed[:min(len(allowed), resolvedMax)], nil
}
