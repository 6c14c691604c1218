package http

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	nethttp "net/http"
	"net/url"
	"time"

	socks "golang.org/x/net/proxy"

	"sluice/go/internal/retry"
)

// proxy opens tunnels: by CONNECT (RFC 9110 §9.3.6) through an http or https proxy, whatever the
// destination's scheme, or by SOCKS5 (RFC 1928, 1929). All that fails until the tunnel stands is
// told as the proxy's (retry.ErrProxy), its own 407 and 502 included; what comes through the tunnel
// is the destination's.
type proxy struct {
	name    string // scheme, host and port; no credentials
	scheme  string
	address string
	user    *url.Userinfo
	tls     *tls.Config // of an https proxy
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
}

// newProxy reads a proxy's URL; errors are the operator's and repeat no credentials.
func newProxy(o *Options) (*proxy, error) {
	u, err := url.Parse(o.Proxy)
	if err != nil {
		return nil, errors.New("proxy: not a URL")
	}
	ports := map[string]string{"http": "80", "https": "443", "socks5": "1080"}
	port, known := ports[u.Scheme]
	switch {
	case !known:
		return nil, fmt.Errorf("proxy: scheme %q: want http, https or socks5", u.Scheme)
	case u.Hostname() == "":
		return nil, errors.New("proxy: no host")
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("proxy: a path, query or fragment has no meaning here")
	}
	if u.Port() != "" {
		port = u.Port()
	}
	p := &proxy{
		scheme: u.Scheme, address: net.JoinHostPort(u.Hostname(), port), user: u.User, dial: o.Dial,
	}
	p.name = p.scheme + "://" + p.address
	if p.scheme == "https" {
		p.tls = o.ProxyTLS.Clone()
		if p.tls == nil {
			p.tls = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		if p.tls.ServerName == "" {
			p.tls.ServerName = u.Hostname()
		}
		p.tls.NextProtos = []string{"http/1.1"}
	}
	return p, nil
}

// open makes a tunnel to target, an address and a port.
func (p *proxy) open(ctx context.Context, target string) (*link, error) {
	l, err := p.tunnel(ctx, target)
	if err != nil {
		return nil, fmt.Errorf("%w %s: %w", retry.ErrProxy, p.name, err)
	}
	return l, nil
}

func (p *proxy) tunnel(ctx context.Context, target string) (*link, error) {
	if p.scheme == "socks5" {
		return p.socks(ctx, target)
	}
	c, err := p.dial(ctx, "tcp", p.address)
	if err != nil {
		return nil, err
	}
	l := over(c)
	if p.tls != nil {
		if err := l.secure(ctx, p.tls); err != nil {
			return nil, err
		}
		l.protocol = "" // of the proxy, not of the destination
	}
	if err := p.connect(ctx, l, target); err != nil {
		l.abort()
		return nil, err
	}
	return l, nil
}

// connect asks for the tunnel over an open link.
func (p *proxy) connect(ctx context.Context, l *link, target string) error {
	head := "CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n"
	if p.user != nil {
		head += "Proxy-Authorization: " + basic(p.user) + "\r\n"
	}
	c := newConn(l)
	deadline, _ := ctx.Deadline()
	_ = l.socket.SetDeadline(deadline)
	stop := context.AfterFunc(ctx, c.expire)
	defer stop()
	if _, err := l.stream.Write([]byte(head + "\r\n")); err != nil {
		return err
	}
	c.bounded.start(answerHeadMax)
	a, err := c.readHead(nethttp.MethodConnect, false)
	switch {
	case err != nil:
		return err
	case a.code == nethttp.StatusProxyAuthRequired:
		return errors.New("answered 407: it wants other credentials than its URL holds")
	case retry.Status(a.code) != retry.Delivered:
		return fmt.Errorf("answered %d %s to CONNECT %s", a.code, nethttp.StatusText(a.code), target)
	case !stop():
		return ctx.Err()
	}
	// A destination that speaks first, as HTTP/2 does, may have been read along.
	if n := c.reader.Buffered(); n > 0 {
		first, _ := c.reader.Peek(n)
		l.stream = &led{Conn: l.stream, first: append([]byte(nil), first...)}
	}
	return l.socket.SetDeadline(time.Time{})
}

// socks asks for the tunnel by SOCKS5.
func (p *proxy) socks(ctx context.Context, target string) (*link, error) {
	var l *link
	under := dialFunc(func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := p.dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		l = over(c)
		return l.stream, nil
	})
	var auth *socks.Auth
	if p.user != nil {
		auth = &socks.Auth{User: p.user.Username()}
		auth.Password, _ = p.user.Password()
	}
	d, err := socks.SOCKS5("tcp", p.address, auth, under)
	if err != nil {
		return nil, err
	}
	if _, err := d.(socks.ContextDialer).DialContext(ctx, "tcp", target); err != nil {
		return nil, err
	}
	return l, nil // past the greeting SOCKS adds nothing to the stream
}

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

func (f dialFunc) Dial(network, address string) (net.Conn, error) {
	return f(context.Background(), network, address)
}

func (f dialFunc) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return f(ctx, network, address)
}

// basic are credentials of a URL as a field's value (RFC 7617 §2).
func basic(user *url.Userinfo) string {
	password, _ := user.Password()
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password))
}
