package keyfetch

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"time"

	"sluice/go/internal/provider"
)

// answer is what a place gave.
type answer struct {
	keys     map[string]*provider.PublicKey
	lifetime time.Duration
}

func newClient(o Options) *http.Client {
	dialer := &net.Dialer{Timeout: fetchTimeout}
	if !o.AllowPrivate {
		// The address is judged when it is dialled, so that a name cannot change its mind in between.
		dialer.Control = func(_, address string, _ syscall.RawConn) error {
			return checkAddress(address)
		}
	}
	return &http.Client{
		Timeout: fetchTimeout,
		// No redirect is followed: where keys may come from is said in the scheme.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext:            dialer.DialContext,
			TLSClientConfig:        &tls.Config{RootCAs: o.Roots, MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout:    fetchTimeout,
			MaxResponseHeaderBytes: answerMax,
			MaxIdleConns:           fetchesMax,
			IdleConnTimeout:        time.Minute,
			ForceAttemptHTTP2:      true,
		},
	}
}

// Ranges that are neither public nor found by the methods of netip: shared address space (RFC
// 6598), protocol assignments (RFC 6890), benchmarking (RFC 2544), reserved (RFC 1112), and those
// of IPv6 that carry an IPv4 address on (RFC 6052, RFC 3056) or are no longer in use (RFC 3879).
var notPublic = func() []netip.Prefix {
	var list []netip.Prefix
	for _, text := range []string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "198.18.0.0/15", "240.0.0.0/4",
		"64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "fec0::/10",
	} {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}()

func checkAddress(text string) error {
	to, err := netip.ParseAddrPort(text)
	if err != nil {
		return fmt.Errorf("address %s: %w", text, err)
	}
	address := to.Addr().Unmap().WithZone("")
	public := address.IsGlobalUnicast() && !address.IsPrivate()
	for _, prefix := range notPublic {
		public = public && !prefix.Contains(address)
	}
	if !public {
		return fmt.Errorf("the server has the address %s, which is not public", address)
	}
	return nil
}

// fetch asks one place. Its errors name no part of the answer and nothing of a login.
func (f *Fetcher) fetch(name provider.KeyName) (answer, error) {
	request, err := newRequest(name)
	if err != nil {
		return answer{}, err
	}
	response, err := f.client.Do(request.WithContext(f.context))
	if err != nil {
		return answer{}, fmt.Errorf("ask for keys: %w", err)
	}
	defer response.Body.Close()
	switch code := response.StatusCode; {
	case code == http.StatusOK:
	case code == http.StatusBadRequest, code == http.StatusNotFound, code == http.StatusGone:
		return answer{}, refuse(name.From, fmt.Errorf("the server answered %d", code))
	default:
		return answer{}, fmt.Errorf("the server answered %d", code)
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, answerMax+1))
	if err != nil {
		return answer{}, fmt.Errorf("read the keys: %w", err)
	}
	if len(text) > answerMax {
		return answer{}, refuse(name.From, fmt.Errorf("the answer is longer than %d bytes", answerMax))
	}
	found := answer{lifetime: lifetimeOf(response.Header)}
	switch name.From.Form {
	case provider.RemoteJWKS:
		found.keys, err = parseSet(text)
	case provider.RemoteJWK:
		found.keys, err = parseSingle(text, name)
	default:
		found.keys, err = f.parseCertificate(text, name.From.Name)
	}
	if err != nil {
		return answer{}, refuse(name.From, err)
	}
	return found, nil
}

func newRequest(name provider.KeyName) (*http.Request, error) {
	if len(name.From.Post) == 0 {
		return http.NewRequest(http.MethodGet, name.URL, http.NoBody)
	}
	fields := map[string]string{}
	for _, field := range name.From.Post {
		switch field.From {
		case provider.PostKeyID:
			fields[field.Name] = name.ID
		case provider.PostUser:
			fields[field.Name] = name.Login.User
		case provider.PostPassword:
			fields[field.Name] = name.Login.Password
		}
	}
	text, err := json.Marshal(fields)
	if err != nil {
		return nil, err // A map of strings always encodes.
	}
	request, err := http.NewRequest(http.MethodPost, name.URL, bytes.NewReader(text))
	if err == nil {
		request.Header.Set("Content-Type", "application/json")
	}
	return request, err
}

// lifetimeOf is how long an answer is fresh by its Cache-Control (RFC 9111, section 5.2.2), within
// our own bounds.
func lifetimeOf(header http.Header) time.Duration {
	for directive := range strings.SplitSeq(header.Get("Cache-Control"), ",") {
		text, found := strings.CutPrefix(strings.ToLower(strings.TrimSpace(directive)), "max-age=")
		if seconds, err := strconv.ParseUint(text, 10, 31); found && err == nil {
			return min(max(time.Duration(seconds)*time.Second, lifetimeMin), lifetimeMax)
		}
	}
	return lifetime
}
