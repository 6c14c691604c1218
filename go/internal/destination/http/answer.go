package http

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	nethttp "net/http"
	"net/http/httputil"
	"strings"

	"sluice/go/internal/destination"
	"sluice/go/internal/retry"
)

// answer is what is kept of the destination's answer.
type answer struct {
	code        int
	retryAfter  string // these four only where there is a use for them
	location    string
	contentType string
	encoding    string
	body        []byte
	whole       bool // body is all of it
	reusable    bool // the connection may serve another exchange

	length  int64 // of the body; -1 without one that is told
	chunked bool
	ends    bool // the destination closes the connection behind it
}

// readHead reads up to the end of the final answer's fields.
func (c *conn) readHead(method string, want bool) (answer, error) {
	for range interimMax {
		a, err := c.readFields(want)
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return answer{}, err
		}
		// 101 is final: nothing of ours asks for another protocol.
		if a.code >= 200 || a.code == nethttp.StatusSwitchingProtocols {
			a.frame(method)
			return a, nil
		}
	}
	return answer{}, fmt.Errorf("%w: %d interim answers and no final one", retry.ErrProtocol,
		interimMax)
}

// readFields reads one status line and the fields behind it. It is strict where two readings would
// find two different ends of the answer, and passes over what it has no use for.
func (c *conn) readFields(want bool) (answer, error) {
	line, err := c.line()
	if err != nil {
		return answer{}, err
	}
	a := answer{length: -1}
	minor, ok := a.readStatus(line)
	if !ok {
		return answer{}, fmt.Errorf("%w: status line %.20q", retry.ErrProtocol, line)
	}
	a.ends = minor == '0'
	foldable := false // a field of no consequence came before, so a line may continue it
	for {
		line, err := c.line()
		if err != nil {
			return answer{}, err
		}
		if len(line) == 0 {
			break
		}
		if line[0] == ' ' || line[0] == '\t' {
			if !foldable {
				return answer{}, fmt.Errorf("%w: a folded line where none may be", retry.ErrProtocol)
			}
			continue
		}
		name, value, colon := bytes.Cut(line, []byte(":"))
		if !colon || !destination.IsToken(string(name)) {
			return answer{}, fmt.Errorf("%w: field line %.20q", retry.ErrProtocol, name)
		}
		framing, err := a.readField(name, bytes.Trim(value, " \t"), want)
		if err != nil {
			return answer{}, err
		}
		foldable = !framing
	}
	if minor == '0' {
		a.chunked = false // RFC 9112 §6.1: not to be believed of HTTP/1.0
	}
	return a, nil
}

// readStatus reads a status line of HTTP/1.x (RFC 9112 §4).
func (a *answer) readStatus(line []byte) (minor byte, ok bool) {
	rest, ok := bytes.CutPrefix(line, []byte("HTTP/1."))
	if !ok || len(rest) < 5 || !digit(rest[0]) || rest[1] != ' ' {
		return 0, false
	}
	minor, rest = rest[0], bytes.TrimLeft(rest[1:], " ")
	if len(rest) < 3 || len(rest) > 3 && rest[3] != ' ' {
		return 0, false
	}
	for _, c := range rest[:3] {
		if !digit(c) {
			return 0, false
		}
		a.code = a.code*10 + int(c-'0')
	}
	return minor, a.code >= 100
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

// The fields that matter here.
var (
	nameConnection       = []byte("Connection")
	nameRetryAfter       = []byte("Retry-After")
	nameLocation         = []byte("Location")
	nameContentType      = []byte("Content-Type")
	nameContentLength    = []byte("Content-Length")
	nameContentEncoding  = []byte("Content-Encoding")
	nameTransferEncoding = []byte("Transfer-Encoding")
)

// readField takes one field in, and tells whether it says where the answer ends.
func (a *answer) readField(name, value []byte, want bool) (framing bool, err error) {
	is := func(n []byte) bool { return len(name) == len(n) && bytes.EqualFold(name, n) }
	switch {
	case is(nameContentLength):
		length, ok := decimal(value)
		if !ok || a.length >= 0 && a.length != length {
			return true, fmt.Errorf("%w: content length %.20q", retry.ErrProtocol, value)
		}
		a.length = length
		return true, nil
	case is(nameTransferEncoding):
		if a.chunked || !strings.EqualFold(string(value), "chunked") {
			return true, fmt.Errorf("%w: transfer encoding %.20q", retry.ErrProtocol, value)
		}
		a.chunked = true
		return true, nil
	case is(nameConnection):
		for option := range bytes.SplitSeq(value, []byte(",")) {
			switch option = bytes.Trim(option, " \t"); {
			case bytes.EqualFold(option, []byte("close")):
				a.ends = true
			case bytes.EqualFold(option, []byte("keep-alive")) && a.ends:
				a.ends = false // of HTTP/1.0, which closes without it
			}
		}
		return true, nil
	case is(nameRetryAfter):
		if retry.Status(a.code) == retry.Retry {
			a.retryAfter = string(value)
		}
	case is(nameLocation):
		if a.code >= 300 && a.code <= 399 {
			a.location = string(value)
		}
	case is(nameContentType):
		if want {
			a.contentType = string(value)
		}
	case is(nameContentEncoding):
		if want {
			a.encoding += string(value)
		}
	}
	return false, nil
}

func decimal(text []byte) (n int64, ok bool) {
	const digitsMax = 18 // no overflow, and more than any body
	if len(text) == 0 || len(text) > digitsMax {
		return 0, false
	}
	for _, c := range text {
		if !digit(c) {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, true
}

// frame decides where the body ends (RFC 9112 §6.3).
func (a *answer) frame(method string) {
	switch {
	case a.code < 200:
		a.length, a.chunked, a.ends = 0, false, true // not HTTP any more
	case method == nethttp.MethodHead || a.code == nethttp.StatusNoContent ||
		a.code == nethttp.StatusNotModified:
		a.length, a.chunked = 0, false
	case a.chunked:
		a.ends = a.ends || a.length >= 0 // both: somebody on the way may have read it otherwise
		a.length = -1
	case a.length < 0:
		a.ends = true
	}
}

// line reads up to a line feed and cuts off the line's end. It holds until the next read.
func (c *conn) line() ([]byte, error) {
	line, err := c.reader.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		var long []byte // bounded by what the reader below it lets through
		for err == bufio.ErrBufferFull {
			long = append(long, line...)
			line, err = c.reader.ReadSlice('\n')
		}
		line = append(long, line...)
	}
	if err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(line[:len(line)-1], []byte("\r")), nil
}

// bodyOf gives the body of an answer as far as it goes; what is cut short ends with an error.
func (c *conn) bodyOf(a *answer) io.Reader {
	switch {
	case a.chunked:
		return &chunks{conn: c, reader: httputil.NewChunkedReader(c.reader)}
	case a.length >= 0:
		return &sized{reader: c.reader, left: a.length}
	}
	return c.reader
}

type sized struct {
	reader *bufio.Reader
	left   int64
}

func (s *sized) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	n, err := s.reader.Read(p[:min(int64(len(p)), s.left)])
	if s.left -= int64(n); err == io.EOF && s.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// chunks reads the trailer as well, so that the connection stands behind the whole answer.
type chunks struct {
	conn   *conn
	reader io.Reader
	ended  bool
}

func (c *chunks) Read(p []byte) (int, error) {
	if c.ended {
		return 0, io.EOF
	}
	n, err := c.reader.Read(p)
	if err != io.EOF {
		return n, err
	}
	for {
		line, err := c.conn.line()
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return n, err
		}
		if len(line) == 0 {
			c.ended = true
			return n, io.EOF
		}
	}
}

// forSender gives the answer as a sender may hear it; nil where it is not whole.
func (a *answer) forSender() *destination.Answer {
	if !a.whole || a.code < 200 {
		return nil
	}
	body, ok := decode(a.encoding, a.body)
	if !ok {
		return nil
	}
	to := &destination.Answer{Status: a.code, Body: body}
	if strings.IndexFunc(a.contentType, func(r rune) bool { return r < ' ' || r > '~' }) < 0 {
		to.ContentType = a.contentType
	}
	return to
}

// decode undoes gzip, which a destination may use when the sender's Accept-Encoding came through:
// the sender is told the type of the content and no coding of it. Others are not undone.
func decode(encoding string, body []byte) ([]byte, bool) {
	switch {
	case encoding == "" || strings.EqualFold(encoding, "identity"):
		return body, true
	case !strings.EqualFold(encoding, "gzip") || len(body) == 0:
		return body, len(body) == 0
	}
	reader, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, false
	}
	plain, err := io.ReadAll(io.LimitReader(reader, destination.AnswerBodyMax+1))
	return plain, err == nil && len(plain) <= destination.AnswerBodyMax
}
