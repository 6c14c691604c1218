// Package egress decides which addresses a destination's connections may go to.
//
// It resolves no names and opens no connections: it judges the address of each connection at the
// moment it is made, so a name that resolves to something else than a minute ago is judged by what
// it is now.
//
// # Order of judgement
//
//  1. What lies in a deny prefix is denied.
//  2. What lies in a guarded range (link-local, cloud metadata; see guarded) is denied, unless an
//     allow prefix lies within that range and holds the address. So 169.254.0.0/16 opens the
//     link-local addresses but not 169.254.169.254, for which only 169.254.169.254/32 does, and
//     0.0.0.0/0 opens neither: nobody who writes that means the credentials of the machine.
//  3. Where there are allow prefixes, what lies in none of them is denied.
//  4. All else is allowed, private networks and loopback included: operators choose destinations.
//
// An IPv6 address in which an IPv4 address is embedded (mapped, NAT64, 6to4, Teredo) has to pass 1
// and 2 with both.
package egress

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"

	"sluice/go/internal/retry"
)

// Rules are the allow and deny prefixes of one destination. nil stands for none of either. They
// never change, so any number of goroutines may ask.
type Rules struct {
	allow, deny []netip.Prefix
}

// New makes rules of prefixes; it keeps no slice of the caller's.
func New(allow, deny []netip.Prefix) *Rules {
	return &Rules{allow: normal(allow), deny: normal(deny)}
}

// Parse makes rules of text such as 10.0.0.0/8 or a single address. Errors are the operator's.
func Parse(allow, deny []string) (*Rules, error) {
	read := func(name string, list []string) ([]netip.Prefix, error) {
		var prefixes []netip.Prefix
		for _, text := range list {
			p, err := parse(text)
			if err != nil {
				return nil, fmt.Errorf("egress %s: %w", name, err)
			}
			prefixes = append(prefixes, p)
		}
		return prefixes, nil
	}
	allowed, err := read("allow", allow)
	if err != nil {
		return nil, err
	}
	denied, err := read("deny", deny)
	if err != nil {
		return nil, err
	}
	return New(allowed, denied), nil
}

func parse(text string) (netip.Prefix, error) {
	if !strings.Contains(text, "/") {
		a, err := netip.ParseAddr(text)
		if err != nil || a.Zone() != "" {
			return netip.Prefix{}, fmt.Errorf("%q: want a prefix such as 10.0.0.0/8 or an address",
				text)
		}
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("%q: want a prefix such as 10.0.0.0/8 or an address", text)
	}
	return p, nil
}

// normal writes prefixes of IPv4-mapped addresses as the IPv4 prefixes they are.
func normal(list []netip.Prefix) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range list {
		if p.Addr().Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		out = append(out, p.Masked())
	}
	return out
}

// Check tells whether a connection to a may be made. Its error wraps retry.ErrDenied and says which
// rule it was.
func (r *Rules) Check(a netip.Addr) error {
	a = a.Unmap().WithZone("")
	if !a.IsValid() {
		return fmt.Errorf("%w: no address", retry.ErrDenied)
	}
	if r == nil {
		r = &Rules{}
	}
	for _, form := range forms(a) {
		who := a.String()
		if form != a {
			who = fmt.Sprintf("%s, which leads to %s,", a, form)
		}
		if p, in := within(r.deny, form); in {
			return fmt.Errorf("%w: %s is in deny %s", retry.ErrDenied, who, p)
		}
		if g := guard(form); g != nil && !r.opens(g, form) {
			return fmt.Errorf("%w: %s is %s; an allow prefix within %s opens it", retry.ErrDenied,
				who, g.what, g.prefix)
		}
	}
	if _, in := within(r.allow, a); len(r.allow) > 0 && !in {
		return fmt.Errorf("%w: %s is in no allow prefix", retry.ErrDenied, a)
	}
	return nil
}

// Control is a net.Dialer's ControlContext: it judges the address that the socket is about to be
// connected to. What is no IP address (a Unix socket) is denied.
func (r *Rules) Control(_ context.Context, network, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: %s %s is no IP address", retry.ErrDenied, network, address)
	}
	return r.Check(to.Addr())
}

// opens tells whether the allow prefixes name an address of a guarded range on purpose.
func (r *Rules) opens(g *guardedRange, a netip.Addr) bool {
	return slices.ContainsFunc(r.allow, func(p netip.Prefix) bool {
		return p.Contains(a) && p.Bits() >= g.prefix.Bits()
	})
}

func within(list []netip.Prefix, a netip.Addr) (netip.Prefix, bool) {
	for _, p := range list {
		if p.Contains(a) {
			return p, true
		}
	}
	return netip.Prefix{}, false
}
