package config

import (
	"cmp"
	"fmt"
	"math"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Size is a number of bytes, written as 512, 64KiB or 1MiB.
type Size int64

var sizeUnits = []struct {
	name  string
	shift uint
}{{"TiB", 40}, {"GiB", 30}, {"MiB", 20}, {"KiB", 10}}

// String is the shortest exact form.
func (s Size) String() string {
	for _, unit := range sizeUnits {
		if s != 0 && s%(1<<unit.shift) == 0 {
			return fmt.Sprintf("%d%s", s>>unit.shift, unit.name)
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// MarshalText writes the form that a config takes.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

func parseSize(text string) (Size, error) {
	number, shift := text, uint(0)
	for _, unit := range sizeUnits {
		if before, found := strings.CutSuffix(text, unit.name); found {
			number, shift = strings.TrimSpace(before), unit.shift
		}
	}
	count, err := strconv.ParseInt(number, 10, 64)
	if err != nil || count < 0 || count > math.MaxInt64>>shift {
		return 0, wrong("write bytes as 4096, 64KiB, 1MiB or 2GiB", "%q is not a size", text)
	}
	return Size(count) << shift, nil
}

// Rate is a number of events in a stretch of time, written as 500/s, 10/m or 3/h.
type Rate struct {
	Events int
	Per    time.Duration
}

// PerSecond is the rate as a number.
func (r Rate) PerSecond() float64 { return float64(r.Events) / r.Per.Seconds() }

// String is the form that a config takes.
func (r Rate) String() string {
	unit := map[time.Duration]string{time.Second: "s", time.Minute: "m", time.Hour: "h"}[r.Per]
	return fmt.Sprintf("%d/%s", r.Events, unit)
}

// MarshalText writes the form that a config takes.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

func parseRate(text string) (Rate, error) {
	number, unit, _ := strings.Cut(text, "/")
	per := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}[unit]
	events, err := strconv.ParseInt(number, 10, 32)
	if err != nil || events < 1 || per == 0 {
		return Rate{}, wrong("write it as 500/s, 10/m or 3/h", "%q is not a rate", text)
	}
	return Rate{Events: int(events), Per: per}, nil
}

// parseThreshold takes a rate that may be 0 of any unit.
func parseThreshold(text string) (Rate, error) {
	if unit, none := strings.CutPrefix(text, "0/"); none {
		if rate, err := parseRate("1/" + unit); err == nil {
			return Rate{Per: rate.Per}, nil
		}
	}
	return parseRate(text)
}

func parseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, wrong("write it with a unit, as 500ms, 5s or 24h", "%q is not a duration", text)
	}
	if d < 0 {
		return 0, wrong("write a time that goes forward", "%q is negative", text)
	}
	return d, nil
}

func parseCount(text string) (int, error) {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0, wrong("write it in digits", "%q is not a whole number", text)
	}
	return int(n), nil
}

func parseNumber(text string) (float64, error) {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		return 0, wrong("write it as 0.2", "%q is not a number", text)
	}
	return n, nil
}

func parseBool(text string) (bool, error) {
	switch text {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, wrong("write true or false", "%q is not a yes or no", text)
}

func parseText(text string) (string, error) { return text, nil }

// Concurrency is how many deliveries may be under way at once; 0 is auto.
type Concurrency int

// String is the form that a config takes.
func (c Concurrency) String() string {
	if c == 0 {
		return "auto"
	}
	return strconv.Itoa(int(c))
}

// MarshalText writes the form that a config takes.
func (c Concurrency) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

func parseConcurrency(text string) (Concurrency, error) {
	if text == "auto" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 1 || n > 10000 {
		return 0, wrong("write auto or a number from 1 to 10000", "%q is no concurrency", text)
	}
	return Concurrency(n), nil
}

// oneOf takes one of a few words.
func oneOf(words ...string) func(string) (string, error) {
	return func(text string) (string, error) {
		if slices.Contains(words, text) {
			return text, nil
		}
		mend := "write " + strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
		return "", wrong(mend, "%q is none of the choices", text)
	}
}

// between bounds a value, both ends included.
func between[T cmp.Ordered](low, high T) func(T) error {
	return func(value T) error {
		if value < low || value > high {
			return wrong(fmt.Sprintf("write a value from %v to %v", low, high), "%v is out of bounds", value)
		}
		return nil
	}
}

// atLeast bounds a value from below.
func atLeast[T cmp.Ordered](low T) func(T) error {
	return func(value T) error {
		if value < low {
			return wrong(fmt.Sprintf("write at least %v", low), "%v is too small", value)
		}
		return nil
	}
}

func positive(value time.Duration) error {
	if value <= 0 {
		return wrong("write a time over 0s", "%v leaves no time", value)
	}
	return nil
}

// Address is where something listens: a TCP host and port, the path of a Unix socket, or what
// systemd passes under a name.
type Address struct {
	Network string // tcp, unix or systemd
	Target  string // host:port, an absolute path, or a name
}

// String is the form that a config takes: host:port, unix:PATH or systemd:NAME.
func (a Address) String() string {
	if a.Network == "tcp" {
		return a.Target
	}
	return a.Network + ":" + a.Target
}

// MarshalText writes the form that a config takes.
func (a Address) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// parseHostPort takes an IP, localhost or nothing (every address) as host. Other names would be
// looked up at every start, with another answer each time.
func parseHostPort(text string) (string, error) {
	const mend = "write it as 127.0.0.1:8080, [::1]:8080 or :8080"
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return "", wrong(mend, "%q is not an address with a port", text)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", wrong("write a port from 0 to 65535", "%q is not a port", port)
	}
	if host != "" && host != "localhost" {
		if _, err := netip.ParseAddr(host); err != nil {
			return "", wrong(mend, "%q is not an IP address of this host", host)
		}
	}
	return text, nil
}

func parsePrefix(text string) (netip.Prefix, error) {
	const mend = "write it as 192.30.252.0/22 or 2001:db8::/32"
	if addr, err := netip.ParseAddr(text); err == nil && addr.Zone() == "" {
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}, wrong(mend, "%q is not a network", text)
	}
	if prefix != prefix.Masked() {
		return netip.Prefix{}, wrong("write "+prefix.Masked().String(),
			"%q names a host, not the start of a network", text)
	}
	return prefix, nil
}
