package egress

import "net/netip"

// guardedRange is a range that nobody delivers webhooks to by intent.
type guardedRange struct {
	prefix netip.Prefix
	what   string
}

// guarded are the link-local ranges (RFC 3927, RFC 4291 §2.5.6) and the addresses at which clouds
// give a machine its credentials or take its orders, as their documentation names them:
//
//	169.254.169.254, fd00:ec2::/32  AWS: EC2 instance metadata; fd00:ec2::23 is EKS Pod Identity
//	169.254.170.2, .23              AWS: ECS task credentials, EKS Pod Identity
//	fd20:ce::254                    Google Cloud: metadata server of IPv6-only machines
//	168.63.129.16                   Azure: WireServer, the platform's own channel to the machine
//	100.100.100.200                 Alibaba Cloud: instance metadata
//	fd00:100::100:200               Alibaba Cloud: instance metadata over IPv6
//	192.0.0.192                     Oracle Cloud at Customer: instance metadata
//	fd00:c1::a9fe:a9fe              Oracle Cloud: instance metadata over IPv6
//	fd00:42::42, 169.254.42.42      Scaleway: instance metadata
//	fd00:a9fe:a9fe::1               Akamai/Linode: metadata service
//	169.254.0.23                    Tencent Cloud: metadata
//
// Most others (Google, Azure, Oracle, DigitalOcean, Hetzner, OpenStack) use 169.254.169.254 too. An
// address belongs to the longest range that holds it, so those within link-local need a name of
// their own.
var guarded = []guardedRange{
	{netip.MustParsePrefix("169.254.169.254/32"), metadata},
	{netip.MustParsePrefix("169.254.170.2/32"), metadata},
	{netip.MustParsePrefix("169.254.170.23/32"), metadata},
	{netip.MustParsePrefix("169.254.42.42/32"), metadata},
	{netip.MustParsePrefix("169.254.0.23/32"), metadata},
	{netip.MustParsePrefix("168.63.129.16/32"), metadata},
	{netip.MustParsePrefix("100.100.100.200/32"), metadata},
	{netip.MustParsePrefix("192.0.0.192/32"), metadata},
	{netip.MustParsePrefix("fd00:ec2::/32"), metadata},
	{netip.MustParsePrefix("fd20:ce::254/128"), metadata},
	{netip.MustParsePrefix("fd00:c1::a9fe:a9fe/128"), metadata},
	{netip.MustParsePrefix("fd00:42::42/128"), metadata},
	{netip.MustParsePrefix("fd00:a9fe:a9fe::1/128"), metadata},
	{netip.MustParsePrefix("fd00:100::100:200/128"), metadata},
	{netip.MustParsePrefix("fe80::a9fe:a9fe/128"), metadata}, // OpenStack, Akamai
	{netip.MustParsePrefix("169.254.0.0/16"), linkLocal},
	{netip.MustParsePrefix("fe80::/10"), linkLocal},
}

const (
	metadata  = "a cloud's metadata service"
	linkLocal = "link-local"
)

// guard finds the longest guarded range that holds a.
func guard(a netip.Addr) *guardedRange {
	var found *guardedRange
	for i := range guarded {
		g := &guarded[i]
		if g.prefix.Contains(a) && (found == nil || g.prefix.Bits() > found.prefix.Bits()) {
			found = g
		}
	}
	return found
}

// embedding is a range of IPv6 whose addresses lead to an IPv4 address inside them.
type embedding struct {
	prefix netip.Prefix
	at     [4]int // where the bytes of the IPv4 address are
	invert bool
}

// embeddings follow RFC 6052 §2.2 (NAT64; the local-use prefix of RFC 8215 may be cut at any of its
// lengths, so all of them are looked at), RFC 3056 §2 (6to4), RFC 4380 §4 (Teredo: the server's
// address in clear, the host's inverted), RFC 2765 §2.1 (translated) and RFC 4291 §2.5.5.1
// (compatible). Mapped addresses are IPv4 addresses by the time these are asked.
var embeddings = []embedding{
	{prefix: netip.MustParsePrefix("64:ff9b::/96"), at: [4]int{12, 13, 14, 15}},
	{prefix: netip.MustParsePrefix("64:ff9b:1::/48"), at: [4]int{12, 13, 14, 15}},
	{prefix: netip.MustParsePrefix("64:ff9b:1::/48"), at: [4]int{9, 10, 11, 12}},
	{prefix: netip.MustParsePrefix("64:ff9b:1::/48"), at: [4]int{7, 9, 10, 11}},
	{prefix: netip.MustParsePrefix("64:ff9b:1::/48"), at: [4]int{6, 7, 9, 10}},
	{prefix: netip.MustParsePrefix("2002::/16"), at: [4]int{2, 3, 4, 5}},
	{prefix: netip.MustParsePrefix("2001::/32"), at: [4]int{4, 5, 6, 7}},
	{prefix: netip.MustParsePrefix("2001::/32"), at: [4]int{12, 13, 14, 15}, invert: true},
	{prefix: netip.MustParsePrefix("::ffff:0:0:0/96"), at: [4]int{12, 13, 14, 15}},
	{prefix: netip.MustParsePrefix("::/96"), at: [4]int{12, 13, 14, 15}},
}

// forms lists the addresses that a connection to a may end at, a itself first.
func forms(a netip.Addr) []netip.Addr {
	list := append(make([]netip.Addr, 0, 4), a)
	if a.IsUnspecified() {
		// The kernel takes it for this host (RFC 1122 §3.2.1.3).
		return append(list, netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback())
	}
	if a.Is4() || a.IsLoopback() {
		return list
	}
	bytes := a.As16()
	for _, e := range embeddings {
		if !e.prefix.Contains(a) {
			continue
		}
		var inner [4]byte
		for i, at := range e.at {
			inner[i] = bytes[at]
			if e.invert {
				inner[i] ^= 0xff
			}
		}
		list = append(list, netip.AddrFrom4(inner))
	}
	return list
}
