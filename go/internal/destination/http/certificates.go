package http

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// TLSFiles name PEM files for the connections to a destination. They are read again when they
// change, by the first connection that is made after it. Zero values are the defaults.
type TLSFiles struct {
	CA         string // replaces the host's roots
	Cert, Key  string // of the client certificate; both or none
	ServerName string // to be proven by the destination instead of the URL's host
}

// certificates hold the TLS configuration of a destination. One that was read stays in force until
// a newer one can be read: files may be caught half written.
type certificates struct {
	base  *tls.Config
	files TLSFiles
	now   func() time.Time

	mu      sync.Mutex
	checked time.Time
	seen    [3]stamp
	current *tls.Config
	stale   error // why the files of now are not in force
}

// stamp tells one state of a file from another.
type stamp struct {
	changed time.Time
	size    int64
}

// certificateCheck is how often the files are looked at, at most.
const certificateCheck = time.Second

// newCertificates reads the files. base is the caller's still.
func newCertificates(base *tls.Config, files TLSFiles, host string, now func() time.Time) (
	*certificates, error) {
	if (files.Cert == "") != (files.Key == "") {
		return nil, errors.New("tls: a client certificate needs both cert and key")
	}
	c := &certificates{base: base.Clone(), files: files, now: now}
	if c.base == nil {
		c.base = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if files.ServerName != "" {
		c.base.ServerName = files.ServerName
	}
	if c.base.ServerName == "" {
		c.base.ServerName = host
	}
	c.seen, c.checked = c.look(), now()
	var err error
	c.current, err = c.read()
	return c, err
}

// config gives a configuration of the caller's own, and why the files could not be read where it
// is not what they say.
func (c *certificates) config() (*tls.Config, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.now(); c.files != (TLSFiles{}) && now.Sub(c.checked) >= certificateCheck {
		c.checked = now
		if seen := c.look(); seen != c.seen || c.stale != nil {
			next, err := c.read()
			if c.stale = err; err == nil {
				c.current, c.seen = next, seen
			}
		}
	}
	return c.current.Clone(), c.stale
}

func (c *certificates) look() (seen [3]stamp) {
	for i, path := range []string{c.files.CA, c.files.Cert, c.files.Key} {
		if info, err := os.Stat(path); path != "" && err == nil {
			seen[i] = stamp{changed: info.ModTime(), size: info.Size()}
		}
	}
	return seen
}

// read makes a configuration of the files. Its sessions are its own: a resumed one would go on with
// the certificate that it began with.
func (c *certificates) read() (*tls.Config, error) {
	next := c.base.Clone()
	if c.files.CA != "" {
		text, err := os.ReadFile(c.files.CA)
		if err != nil {
			return nil, fmt.Errorf("tls ca: %w", err)
		}
		next.RootCAs = x509.NewCertPool()
		if !next.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("tls ca: %s holds no certificate in PEM form", c.files.CA)
		}
	}
	if c.files.Cert != "" {
		pair, err := tls.LoadX509KeyPair(c.files.Cert, c.files.Key)
		if err != nil {
			return nil, fmt.Errorf("tls cert %s with key %s: %w", c.files.Cert, c.files.Key, err)
		}
		next.Certificates = []tls.Certificate{pair}
	}
	if next.ClientSessionCache == nil {
		next.ClientSessionCache = tls.NewLRUClientSessionCache(0)
	}
	return next, nil
}
