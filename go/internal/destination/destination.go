// Package destination is the port through which one event is handed to whoever should have it.
//
// It decides neither when to try nor when to give up, keeps no queue and writes no outcome; the
// adapters below it (http, file, stdout) each know one kind of receiver.
package destination

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"sluice/go/internal/event"
	"sluice/go/internal/retry"
)

// Destination takes events. Deliver may be called from many goroutines at once.
type Destination interface {
	// Deliver makes one attempt and says what became of it. It returns soon after ctx ends. The
	// request and all that it points at belong to the caller again when it returns.
	Deliver(ctx context.Context, r *Request) Result
	// Close frees what the destination holds. No Deliver may run or follow.
	Close() error
}

// Header is one field of the request as it came, the value without the blanks around it.
type Header struct {
	Name, Value []byte
}

// Request is one attempt to hand over one event: what the sender sent, byte for byte.
type Request struct {
	EventID    event.ID
	Seq        event.Seq // its place in the journal
	Source     string
	Attempt    int // 1 for the first
	Method     string
	Target     string // request target at our door, query included
	Headers    []Header
	Body       []byte
	ReceivedNS int64  // ns since 1970
	OrderKey   uint64 // 0: none
	// WantAnswer asks for Result.Answer: a sender waits for it.
	WantAnswer bool
}

// Answer is what an HTTP destination said, as far as a sender may hear it.
type Answer struct {
	Status      int
	ContentType string // empty: none
	Body        []byte // whole, the adapter's no more; at most AnswerBodyMax bytes
}

// AnswerBodyMax bounds Answer.Body. A longer one is no Answer: half of it helps nobody.
const AnswerBodyMax = 32 << 10

// Filter says which events a destination wants.
type Filter interface {
	// Match is safe for concurrent use and keeps nothing of the request. An error is the event's or
	// the expression's: the same event gets the same one again.
	Match(r *Request) (bool, error)
}

// Transform makes the body that a destination gets out of the one that was stored.
type Transform interface {
	// Apply is safe for concurrent use and changes nothing in the request; what it gives is the
	// caller's. contentType replaces the sender's; empty keeps it.
	Apply(r *Request) (body []byte, contentType string, err error)
}

// The verdicts, under the names that adapters use.
const (
	Delivered = retry.Delivered
	Retry     = retry.Retry
	Permanent = retry.Permanent
)

// Result is what became of one attempt.
type Result struct {
	Kind       retry.Verdict
	Code       int           // HTTP status; 0 where there was none
	RetryAfter time.Duration // the destination's own wish, already capped; 0 for none
	Err        error         // nil when delivered; names no body and no secret
	Answer     *Answer       // with Request.WantAnswer, where there was one; else nil
}

// Delivery is the result of an attempt that reached its end.
func Delivery(code int) Result { return Result{Kind: Delivered, Code: code} }

// Failure is the result of an attempt that may pass later.
func Failure(err error) Result { return Result{Kind: Retry, Err: err} }

// Refusal is the result of an attempt that will never pass.
func Refusal(err error) Result { return Result{Kind: Permanent, Err: err} }

// Cause names what stopped the attempt where there was no answer.
func (r Result) Cause() retry.Cause {
	if r.Err == nil {
		return retry.Unknown
	}
	return retry.CauseOf(r.Err)
}

// hopByHop are the fields that end at each hop (RFC 9110 §7.6.1), with Trailer, because no trailer
// is passed on, and Proxy-Authorization, which is meant for the nearest proxy alone (§11.7.2).
var hopByHop = [][]byte{
	[]byte("Connection"),
	[]byte("Keep-Alive"),
	[]byte("Proxy-Authenticate"),
	[]byte("Proxy-Authorization"),
	[]byte("Proxy-Connection"),
	[]byte("TE"),
	[]byte("Trailer"),
	[]byte("Transfer-Encoding"),
	[]byte("Upgrade"),
}

// EndToEnd gives the fields that go on to the next hop, in order, without changing headers. Names
// listed in a Connection field are left out as well.
func EndToEnd(headers []Header) []Header {
	return AppendEndToEnd(make([]Header, 0, len(headers)), headers)
}

// AppendEndToEnd appends what EndToEnd gives to a list of the caller's.
func AppendEndToEnd(list, headers []Header) []Header {
	var named [][]byte
	for _, h := range headers {
		if !Named(h.Name, hopByHop[:1]) {
			continue
		}
		for option := range bytes.SplitSeq(h.Value, []byte(",")) {
			if option = bytes.Trim(option, " \t"); len(option) > 0 {
				named = append(named, option)
			}
		}
	}
	for _, h := range headers {
		if !Named(h.Name, hopByHop) && !Named(h.Name, named) {
			list = append(list, h)
		}
	}
	return list
}

// Named tells whether name is one of names, whatever their case. Names are ASCII: what folds to
// one of them from elsewhere in Unicode is longer, and is another name.
func Named(name []byte, names [][]byte) bool {
	for _, n := range names {
		if len(name) == len(n) && bytes.EqualFold(name, n) {
			return true
		}
	}
	return false
}

// Check finds what would break the framing of a text protocol: such a header is ours to refuse,
// whoever let it in.
func (h Header) Check() error {
	if len(h.Name) == 0 {
		return fmt.Errorf("header without a name")
	}
	for _, c := range h.Name {
		if !tokenByte[c] {
			return fmt.Errorf("header name %q holds %q, which no name may", h.Name, c)
		}
	}
	if i := bytes.IndexAny(h.Value, "\r\n\x00"); i >= 0 {
		return fmt.Errorf("value of header %q breaks the line at byte %d", h.Name, i)
	}
	return nil
}

// tokenByte holds the characters of a token (RFC 9110 §5.6.2).
var tokenByte = func() (table [256]bool) {
	const marks = "!#$%&'*+-.^_`|~0123456789" +
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	for i := range len(marks) {
		table[marks[i]] = true
	}
	return table
}()

// IsToken tells whether text may stand as a method or a field name.
func IsToken(text string) bool {
	for i := range len(text) {
		if !tokenByte[text[i]] {
			return false
		}
	}
	return text != ""
}
