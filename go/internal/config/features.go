package config

import "slices"

// Feature names a part of the contract that a version may lack. A config that asks for one which
// Options.Supports does not list is refused: it would otherwise be accepted and do nothing.
type Feature string

// The features a version may lack. This is the only list; a reader asks by needs().
const (
	AdminAddress     Feature = "admin-address"
	AllowFrom        Feature = "allow-from"
	ConnectionsPerIP Feature = "connections-per-ip"
	DropHeaders      Feature = "drop-headers"
	MutualTLS        Feature = "mutual-tls"
	OrderBy          Feature = "order-by"
	OwnScheme        Feature = "own-scheme"
	ProxyProtocol    Feature = "proxy-protocol"
	SourceRate       Feature = "source-rate"
	TLS              Feature = "tls"
	Unenforced       Feature = "unenforced"
	UnixListener     Feature = "unix-listener"
)

// AllFeatures lists every feature, for callers that support everything and for tests.
func AllFeatures() []Feature {
	return []Feature{
		AdminAddress, AllowFrom, ConnectionsPerIP, DropHeaders, MutualTLS, OrderBy, OwnScheme,
		ProxyProtocol, SourceRate, TLS, Unenforced, UnixListener,
	}
}

// AllBut lists every feature except those named.
func AllBut(missing ...Feature) []Feature {
	return slices.DeleteFunc(AllFeatures(), func(f Feature) bool {
		return slices.Contains(missing, f)
	})
}

// needs faults the use of a feature that this version lacks.
func (r *reader) needs(feature Feature, path, shown string) {
	if slices.Contains(r.options.Supports, feature) {
		return
	}
	r.fault(path, "take it out", "%s is not supported by this version", shown)
}
