package provider

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"time"
)

// form is how well a text fits its encoding.
type form uint8

const (
	formBad   form = iota // not this encoding
	formNever             // this encoding, but a spelling that is never right
	formGood
)

// The base64 decoders are strict: bits that decode to nothing must be zero, or one signature would
// have several spellings.
var base64Decoders = [...]*base64.Encoding{
	Base64:       base64.StdEncoding.Strict(),
	Base64Raw:    base64.RawStdEncoding.Strict(),
	Base64URL:    base64.URLEncoding.Strict(),
	Base64URLRaw: base64.RawURLEncoding.Strict(),
}

// decode writes the bytes of text to dst, which has room for signatureTextMax. EncodingText gives
// text itself.
func (e Encoding) decode(dst, text []byte) ([]byte, form) {
	if len(text) == 0 {
		return nil, formBad
	}
	if len(text) > signatureTextMax {
		return nil, formNever
	}
	switch e {
	case EncodingText:
		return text, formGood
	case Hex, HexAnyCase:
		n, seen := decodeHex(dst, text)
		switch {
		case seen&hexNone != 0:
			return nil, formBad
		case seen&hexUpper != 0 && e == Hex:
			return nil, formNever
		}
		return dst[:n], formGood
	}
	// The decoder of the standard library skips line ends.
	if bytes.IndexByte(text, '\n') >= 0 || bytes.IndexByte(text, '\r') >= 0 {
		return nil, formBad
	}
	n, err := base64Decoders[e].Decode(dst, text)
	if err != nil {
		return nil, formBad
	}
	return dst[:n], formGood
}

// What is known of a byte as a hex digit: its value, and above that whether it is an upper case one
// or none at all.
const (
	hexUpper = 1 << 4
	hexNone  = 1 << 7
)

var hexDigits = func() (table [256]byte) {
	for c := range table {
		table[c] = hexNone
	}
	for n := range byte(16) {
		digit := hex.EncodeToString([]byte{n})[1]
		table[digit] = n
		if digit >= 'a' {
			table[digit-'a'+'A'] = n | hexUpper
		}
	}
	return table
}()

// decodeHex reads digits of either case in one pass, and tells what it has seen among them.
func decodeHex(dst, text []byte) (n int, seen byte) {
	if len(text)%2 != 0 {
		return 0, hexNone
	}
	n = len(text) / 2
	dst = dst[:n]
	for i := range dst {
		high, low := hexDigits[text[2*i]], hexDigits[text[2*i+1]]
		seen |= high | low
		dst[i] = high<<4 | low&0xf
	}
	return n, seen
}

func (e Encoding) encode(raw []byte) string {
	switch e {
	case EncodingText:
		return string(raw)
	case Hex, HexAnyCase:
		return hex.EncodeToString(raw)
	}
	return base64Decoders[e].EncodeToString(raw)
}

// parse reads a time in its own unit. For RFC3339 the unit is the second.
func (f TimeFormat) parse(text []byte) (int64, bool) {
	if f == RFC3339 {
		var t time.Time
		if t.UnmarshalText(text) != nil {
			return 0, false
		}
		return t.Unix(), true
	}
	if f == HTTPDate {
		t, err := time.Parse(httpDate, string(text))
		return t.Unix(), err == nil
	}
	// 18 digits never overflow; a time that needs more is no time.
	if len(text) == 0 || len(text) > 18 {
		return 0, false
	}
	var n int64
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, true
}

const httpDate = "Mon, 02 Jan 2006 15:04:05 GMT"

func (f TimeFormat) unit() time.Duration {
	if f == UnixMillis {
		return time.Millisecond
	}
	return time.Second
}

func (f TimeFormat) format(t time.Time) string {
	switch f {
	case RFC3339:
		return t.UTC().Format(time.RFC3339)
	case HTTPDate:
		return t.UTC().Format(httpDate)
	case UnixMillis:
		return decimal(t.UnixMilli())
	}
	return decimal(t.Unix())
}

// within judges the distance between sent and now, which may be past behind us or future ahead, in
// the unit in which the sender counts: the part of a unit by which our clock is ahead is no age.
func (f TimeFormat) within(sent, nowNS int64, past, future time.Duration) bool {
	unit := f.unit()
	age := nowNS/int64(unit) - sent
	return age <= int64(past/unit) && -age <= int64(future/unit)
}
