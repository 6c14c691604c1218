package provider

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"io"
	"iter"
	"net/http/httputil"
	"net/url"
	"strings"
	"unicode/utf8"
)

const keepBytes = "take the bytes of the body as they came, before anything parses them"

var bodyMistakes = []mistake{
	{
		name: "line-end-lost", facet: facetBody, fault: faultReceiver,
		says: "the sender's body ends with a line end, which was lost: an editor, a shell or a log " +
			"took it off",
		mend: "keep the bytes as they came; a shell's $(...) drops them, curl needs --data-binary",
		try: bodies(func(body []byte, give func([]byte, string) bool) {
			_ = give(join(body, "\n"), "LF at the end") && give(join(body, "\r\n"), "CRLF at the end")
		}),
	}, {
		name: "line-end-added", facet: facetBody, fault: faultReceiver,
		says: "a line end or blanks stand behind the sender's body, as an editor or echo adds them",
		mend: "keep the bytes as they came; write them with printf %s or --output",
		try: bodies(func(body []byte, give func([]byte, string) bool) {
			_ = give(bytes.TrimSuffix(bytes.TrimSuffix(body, []byte("\n")), []byte("\r")),
				"without the last line end") &&
				give(bytes.TrimRight(body, "\r\n\t "), "without the blanks at the end") &&
				give(bytes.TrimSpace(body), "without the blanks around")
		}),
	}, {
		name: "line-ends-changed", facet: facetBody, fault: faultReceiver,
		says: "the line ends of the body were changed, as git, FTP or an editor does",
		mend: "treat the body as bytes, not as text",
		try: bodies(func(body []byte, give func([]byte, string) bool) {
			unix := bytes.ReplaceAll(body, []byte("\r\n"), []byte("\n"))
			_ = give(unix, "LF for CRLF") &&
				give(bytes.ReplaceAll(unix, []byte("\n"), []byte("\r\n")), "CRLF for LF")
		}),
	}, {
		name: "byte-order-mark", facet: facetBody, fault: faultReceiver,
		says: "a byte order mark was put before the body, or taken off",
		mend: "treat the body as bytes, not as text",
		try: bodies(func(body []byte, give func([]byte, string) bool) {
			_ = give(bytes.TrimPrefix(body, []byte(byteOrderMark)), "without the mark") &&
				give(append([]byte(byteOrderMark), body...), "with the mark")
		}),
	}, {
		name: "body-compressed", facet: facetBody, fault: faultSource,
		says: "the sender signed what the compressed body holds, not the compressed bytes",
		mend: "verify after unpacking by Content-Encoding",
		try: bodies(func(body []byte, give func([]byte, string) bool) {
			if plain, ok := unpack(body); ok {
				give(plain, "the body unpacked by gzip")
			}
		}),
	}, {
		name: "body-base64", facet: facetBody, fault: faultProxy,
		says: "the body is the base64 text of what was sent, as API gateways hand binary bodies on",
		mend: "decode it first (AWS: where isBase64Encoded is true)",
		try: bodies(func(body []byte, give func([]byte, string) bool) {
			if raw, err := base64.StdEncoding.DecodeString(string(bytes.TrimSpace(body))); err == nil {
				give(raw, "the body decoded from base64")
			}
		}),
	}, {
		name: "body-quoted", facet: facetBody, fault: faultReceiver,
		says: "the body was made a JSON string of itself",
		mend: keepBytes + "; do not encode a text as JSON once more",
		try: bodies(func(body []byte, give func([]byte, string) bool) {
			var text string
			if json.Unmarshal(body, &text) == nil {
				give([]byte(text), "the text inside the JSON string")
			}
		}),
	}, {
		name: "body-chunked", facet: facetBody, fault: faultReceiver,
		says: "the sizes of the chunks (Transfer-Encoding: chunked) are still in the body",
		mend: "take the body behind an HTTP parser, not off the wire",
		try: bodies(func(body []byte, give func([]byte, string) bool) {
			reader := io.LimitReader(httputil.NewChunkedReader(bytes.NewReader(body)), explainBodyMax)
			if plain, err := io.ReadAll(reader); err == nil && len(plain) > 0 {
				give(plain, "the chunks put together")
			}
		}),
	}, {
		name: "body-with-head", facet: facetBody, fault: faultReceiver,
		says: "the header stands before the body in the same bytes",
		mend: "give what stands behind the first empty line as the body",
		try: bodies(func(body []byte, give func([]byte, string) bool) {
			for _, end := range []string{"\r\n\r\n", "\n\n"} {
				if _, rest, found := bytes.Cut(body, []byte(end)); found {
					give(rest, "what stands behind the first empty line")
					return
				}
			}
		}),
	}, {
		name: "charset", facet: facetBody, fault: faultReceiver,
		says: "the body was decoded in one charset and encoded in another",
		mend: keepBytes + "; a charset is for who reads the text later",
		try: bodies(func(body []byte, give func([]byte, string) bool) {
			_ = give(toLatin(body), "UTF-8 taken back to the bytes of Windows-1252") &&
				give(fromLatin(body), "Windows-1252 made UTF-8")
		}),
	}, {
		name: "form-reencoded", facet: facetBody, fault: faultReceiver,
		says: "the form was parsed and written again, which changes blanks, escapes or the order",
		mend: keepBytes,
		try:  bodies(forms),
	}, {
		name: "form-field-alone", facet: facetBody, fault: faultReceiver,
		says: "the sender signed the whole form, and the body is the value of one field of it",
		mend: "give the form as it came, payload= and escapes included",
		try: bodies(func(body []byte, give func([]byte, string) bool) {
			for _, name := range []string{"payload", "data", "body"} {
				text := name + "=" + url.QueryEscape(string(body))
				if !give([]byte(text), name+"=... as a form") {
					return
				}
			}
		}),
	}, {
		name: "form-field-signed", facet: facetBody, fault: faultSender,
		says: "the sender signs the value of one field, and sends it in a form",
		mend: "let the sender sign the bytes that it sends",
		try: bodies(func(body []byte, give func([]byte, string) bool) {
			pairs, _ := parseForm(string(body))
			for _, pair := range pairs[:min(len(pairs), formFieldsMax)] {
				if !give([]byte(pair[1]), "the value of "+pair[0]) {
					return
				}
			}
		}),
	}, {
		name: "json-reserialised", facet: facetBody, fault: faultReceiver,
		says: "the JSON was parsed and written again, which changes blanks, escapes, numbers or the " +
			"order of keys",
		mend: keepBytes + " (Express: express.raw, Flask: get_data, Rails: request.raw_post, " +
			"Laravel: getContent)",
		try: jsonForms,
	}, {
		name: "body-not-signed", facet: facetBody, fault: faultSender,
		says: "the signature is that of an empty body: the sender signs before it has one, or reads " +
			"it away",
		mend: "let the sender sign the bytes that it sends",
		try: bodies(func(_ []byte, give func([]byte, string) bool) {
			give([]byte{}, "an empty body")
		}),
	},
}

const byteOrderMark = "\xef\xbb\xbf"

// bodies makes the attempts that differ in nothing but the body.
func bodies(
	make func(body []byte, give func([]byte, string) bool),
) func(attempt) iter.Seq[attempt] {
	return func(a attempt) iter.Seq[attempt] {
		return func(yield func(attempt) bool) {
			if len(a.request.Body) > explainBodyMax {
				return
			}
			had := seen{}
			had.first(a.request.Body)
			make(a.request.Body, func(body []byte, with string) bool {
				return !had.first(body) || yield(a.withBody(body, with))
			})
		}
	}
}

func join(body []byte, end string) []byte { return append(bytes.Clone(body), end...) }

// unpack undoes gzip (RFC 1952).
func unpack(body []byte) ([]byte, bool) {
	reader, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, false
	}
	plain, err := io.ReadAll(io.LimitReader(reader, explainBodyMax))
	return plain, err == nil
}

// latin is what the bytes 0x80 to 0x9f mean in Windows-1252 (WHATWG Encoding, index-windows-1252).
// The other bytes are the code points of the same number.
var latin = []rune("€\u0081‚ƒ„…†‡ˆ‰Š‹Œ\u008dŽ\u008f\u0090‘’“”•–—˜™š›œ\u009džŸ")

func fromLatin(body []byte) []byte {
	text := make([]byte, 0, len(body))
	for _, c := range body {
		r := rune(c)
		if c >= 0x80 && c < 0xa0 {
			r = latin[c-0x80]
		}
		text = utf8.AppendRune(text, r)
	}
	return text
}

// toLatin is body itself if it has a character that Windows-1252 has not.
func toLatin(body []byte) []byte {
	raw := make([]byte, 0, len(body))
	for _, r := range string(body) {
		if r > 0xff {
			at := strings.IndexRune(string(latin), r)
			if at < 0 {
				return body
			}
			r = 0x80 + rune(utf8.RuneCountInString(string(latin)[:at]))
		}
		raw = append(raw, byte(r))
	}
	return raw
}

// forms are the ways in which a form may have been written.
func forms(body []byte, give func([]byte, string) bool) {
	text := string(body)
	if !strings.Contains(text, "=") {
		return
	}
	lower, upper := escapesIn(text, strings.ToLower), escapesIn(text, strings.ToUpper)
	for _, one := range [][2]string{
		{strings.ReplaceAll(text, "%20", "+"), "blanks as +"},
		{strings.ReplaceAll(text, "+", "%20"), "blanks as %20"},
		{lower, "escapes in lower case"},
		{upper, "escapes in upper case"},
		{strings.ReplaceAll(lower, "+", "%20"), "escapes in lower case, blanks as %20"},
		{strings.ReplaceAll(lower, "%20", "+"), "escapes in lower case, blanks as +"},
		{strings.ReplaceAll(upper, "+", "%20"), "escapes in upper case, blanks as %20"},
		{strings.ReplaceAll(upper, "%20", "+"), "escapes in upper case, blanks as +"},
	} {
		if !give([]byte(one[0]), one[1]) {
			return
		}
	}
	pairs, ok := parseForm(text)
	if !ok {
		return
	}
	for _, style := range formStyles {
		written := make([]string, 0, len(pairs))
		for _, pair := range pairs {
			written = append(written, url.QueryEscape(pair[0])+"="+url.QueryEscape(pair[1]))
		}
		text := style.otherwise.Replace(strings.Join(written, "&"))
		if !give([]byte(text), style.name) {
			return
		}
	}
	if values, err := url.ParseQuery(text); err == nil &&
		!give([]byte(values.Encode()), "fields in the order of their names") {
		return
	}
	if plain, err := url.QueryUnescape(text); err == nil {
		give([]byte(plain), "the form without escapes")
	}
}

func parseForm(text string) (pairs [][2]string, ok bool) {
	for field := range strings.SplitSeq(text, "&") {
		name, value, _ := strings.Cut(field, "=")
		name, err := url.QueryUnescape(name)
		if err != nil {
			return nil, false
		}
		if value, err = url.QueryUnescape(value); err != nil {
			return nil, false
		}
		pairs = append(pairs, [2]string{name, value})
	}
	return pairs, true
}

// formStyles are the writers of forms, by what they make otherwise than url.QueryEscape.
var formStyles = []struct {
	name      string
	otherwise *strings.Replacer
}{
	{"escaped as Go does", strings.NewReplacer()},
	// The URL Standard, application/x-www-form-urlencoded percent-encode set.
	{"escaped as browsers do", strings.NewReplacer("%2A", "*", "~", "%7E")},
	{"escaped as encodeURIComponent does", strings.NewReplacer("+", "%20", "%21", "!", "%27", "'",
		"%28", "(", "%29", ")", "%2A", "*")},
	{"escaped as RFC 3986 has it", strings.NewReplacer("+", "%20")},
}

// escapesIn changes the case of the percent escapes and of nothing else.
func escapesIn(text string, change func(string) string) string {
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '%' && i+2 < len(text) {
			out.WriteString(change(text[i : i+3]))
			i += 2
			continue
		}
		out.WriteByte(text[i])
	}
	return out.String()
}
