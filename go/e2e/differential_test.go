package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// message is what became of one request: taken, with what was read of it, or not.
type message struct {
	taken                bool
	code                 int // of the answer; 0: none came
	method, target, body string
	known                bool // whether method, target and body are
	over                 bool // answered without a look at the body, perhaps
}

func (m message) String() string {
	if !m.taken {
		return fmt.Sprintf("refused (%d)", m.code)
	}
	if !m.known {
		return fmt.Sprintf("taken (%d)", m.code)
	}
	return fmt.Sprintf("%s %.40q with %.40q", m.method, m.target, m.body)
}

// difference is a rule by which sluice and Go's net/http differ, with its reason.
type difference struct {
	reason string
	// ours is what sluice makes of such a message: an answer's code, taken, or 0 where it is not
	// there any more.
	ours int
	// when finds the cause in the bytes of a connection.
	when func(raw string) bool
	// such is one.
	such string
}

const (
	taken = 200
	// No rule excuses that both took a message and read it differently.
	misread = -1
)

// matching finds a pattern, whatever the case of its letters.
func matching(pattern string) func(string) bool {
	return regexp.MustCompile(`(?is)` + pattern).MatchString
}

const (
	plain = " HTTP/1.1\r\nHost: a\r\n"
	post  = "POST /in/t" + plain
	// One that RFC 3986 has in no target; the pattern of a backquote is \x60.
	oddCharacter = `["<>\\^\x60{|}#\x80-\x{10ffff}]|%[^0-9a-f]|%.[^0-9a-f]`
)

// differences are all that is known.
var differences = []difference{
	{"methods without a meaning here are not known, nor are CONNECT and OPTIONS *; net/http takes " +
		"any token",
		501, matching(`.`), "BREW /in/t" + plain + "\r\n"},
	{"HTTP/1.0 and 1.1 are spoken, and no preface of HTTP/2; net/http takes any 1.x, and hands the " +
		"preface to its handler",
		505, matching(`HTTP/`), "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"},
	{"a head has a bound on its fields",
		431, matching(`(\n[^\n]*){128}`), post + strings.Repeat("A: b\r\n", 128) + "\r\n"},
	{"RFC 9112 §2.2 lets a recipient take a bare LF for a line's end; where one does and the next " +
		"does not, requests are smuggled",
		400, matching(`(^|[^\r])\n`), post + "A: b\n\r\n"},
	{"RFC 9112 §5.2 has a server refuse folded lines or unfold them: refused, also in trailers",
		400, matching(`\n[ \t]`), post + "A: b\r\n c\r\n\r\n"},
	{"RFC 9112 §6.3 lets a server refuse Content-Length beside Transfer-Encoding; net/http drops it",
		400, matching(`content-length:.*transfer-encoding:|transfer-encoding:.*content-length:`),
		post + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
	{"RFC 9112 §6.1 has the framing of HTTP/1.0 with Transfer-Encoding be faulty; net/http takes " +
		"no notice of it",
		400, matching(`HTTP/1\.0\r.*\ntransfer-encoding:`),
		"POST /in/t HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
	{"RFC 9110 §8.6 lets a server refuse a length that comes twice",
		400, matching(`content-length:.*content-length:`),
		post + "Content-Length: 0\r\nContent-Length: 0\r\n\r\n"},
	{"a GET or HEAD with a body has no meaning (RFC 9110 §9.3.1) and a past of smuggling",
		400, matching(`(^|\n)(GET|HEAD) .*(content-length|transfer-encoding):`),
		"GET /in/t" + plain + "Content-Length: 1\r\n\r\n1"},
	{"a target has the characters of RFC 3986, brackets in its query, and % before two digits; " +
		"net/http takes others, and in queries any %",
		400, matching(`(^|\n)[^ ]+ ([^ ?\n]*[][]|[^ \n]*(` + oddCharacter + `))[^\n]* HTTP/`),
		"GET /in/<t>" + plain + "\r\n"},
	{"a target is of origin-form or absolute-form with http(s); net/http takes * and host:port of " +
		"any method",
		400, matching(`(^|\n)[^ ]+ [^/ \n][^ \n]* HTTP/`), "POST a.test:80" + plain + "\r\n"},
	{"Host is a host of RFC 3986 and a port of digits; net/http takes more",
		400, hasOddHost, "GET /in/t HTTP/1.1\r\nHost: a:http\r\n\r\n"},
	{"a chunk extension is of visible ASCII; net/http takes any bytes",
		400, matching(`\n[0-9a-f]+;[^\n]*[^\t -~\r\n]`),
		post + "Transfer-Encoding: chunked\r\n\r\n0;\x00\r\n\r\n"},
	{"a chunk's size ends at its line or extension (RFC 9112 §7.1); net/http trims blanks",
		400, matching(`\n[0-9a-f]+[ \t]+[\r;]`),
		post + "Transfer-Encoding: chunked\r\n\r\n0 \r\n\r\n"},
	{"RFC 9112 §5.1 has no blank in a name or behind it; net/http takes them in trailers",
		400, matching(`\r\n0.*\n[^\n:]*[ \t][^\n:]*:`),
		post + "Transfer-Encoding: chunked\r\n\r\n0\r\nA : b\r\n\r\n"},
	{"100-continue is all that may be expected (RFC 9110 §10.1.1); net/http looks at the first one " +
		"alone and finds it among others",
		417, matching(`\nexpect:`),
		post + "Expect: a, 100-continue\r\nContent-Length: 1\r\n\r\n1"},
	{"RFC 9110 §10.1.1 has a server ignore what HTTP/1.0 expects; net/http refuses what it does not " +
		"know",
		taken, matching(`HTTP/1\.0\r.*\nexpect:`), "GET /in/t HTTP/1.0\r\nExpect: a\r\n\r\n"},
	{"the options of Connection are a list (RFC 9110 §7.6.1); net/http finds close between blanks too",
		taken, matching(`\nconnection:[^\n]*[^,\s][ \t]+close`),
		post + "Connection: a close\r\n\r\n" + post + "\r\n"},
	{"a connection of HTTP/1.0 ends with its answer; net/http keeps it where the sender asks for it",
		0, matching(`HTTP/1\.0\r.*\nconnection:`),
		strings.Repeat("GET /in/t HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", 2)},
	{"RFC 9112 §2.2 has a server skip an empty line before a request; net/http does behind a POST " +
		"alone",
		taken, matching(`(^|\n)\r\n[^\r\n]+ HTTP/`), "\r\nGET /in/t" + plain + "\r\n"},
	{"RFC 9112 §2.2 speaks of one empty line; behind a POST net/http skips up to four CR and LF",
		400, matching(`POST .*[\r\n][^\r\n]+ HTTP/`),
		post + "\r\n\r\n\r\n" + post + "\r\n"},
	{"trailers are dropped, so their names do not matter; net/http refuses to announce framing",
		taken, matching(`\ntrailer:`), post +
			"Transfer-Encoding: chunked\r\nTrailer: Content-Length\r\n\r\n0\r\n\r\n"},
}

var (
	hostLine = regexp.MustCompile(`(?im)^host:[ \t]*(.*?)[ \t]*\r?$`)
	goodHost = regexp.MustCompile(`^([\w.~!$&'()*+,;=-]|%[[:xdigit:]]{2})+(:\d*)?$`)
)

func hasOddHost(raw string) bool {
	for _, line := range hostLine.FindAllStringSubmatch(raw, -1) {
		if !goodHost.MatchString(line[1]) {
			return true
		}
	}
	return false
}

// reference is a server of net/http that takes whatever it can read.
type reference struct {
	address string
	seen    sync.Map // by the sender's address: *record
}

// record is what was read from one connection.
type record struct {
	mu       sync.Mutex
	messages []message
}

type recordKey struct{}

func startReference(t testing.TB) *reference {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	r := &reference{address: l.Addr().String()}
	server := &http.Server{
		Handler:        http.HandlerFunc(r.take),
		ErrorLog:       log.New(io.Discard, "", 0),
		MaxHeaderBytes: 32 << 10,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			all := &record{}
			r.seen.Store(c.RemoteAddr().String(), all)
			return context.WithValue(ctx, recordKey{}, all)
		},
	}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	return r
}

// take reads a request to its end. Its answer comes after what was seen is written down, and the
// requests of a connection come one after the other.
func (r *reference) take(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	if err != nil {
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	all := q.Context().Value(recordKey{}).(*record)
	all.mu.Lock()
	defer all.mu.Unlock()
	all.messages = append(all.messages, message{
		taken: true, known: true, method: q.Method, target: q.RequestURI, body: string(body),
	})
	w.WriteHeader(http.StatusOK)
}

// messages are what net/http made of the bytes.
func (r *reference) messages(raw string) ([]message, error) {
	local, answers, err := say(r.address, raw)
	if err != nil && !(errors.Is(err, syscall.ECONNRESET) && len(answers) > 0) {
		return nil, err // net/http does not linger over a head that is too long
	}
	value, ok := r.seen.LoadAndDelete(local)
	if !ok {
		return nil, errors.New("the connection was never accepted")
	}
	all := value.(*record)
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, a := range answers {
		if a.code >= 400 {
			all.messages = append(all.messages, message{code: a.code})
		}
	}
	return all.messages, nil
}

// say sends bytes and the end, and collects the answers up to theirs. It gives the own address.
func say(address, raw string) (string, []*answer, error) {
	w, err := connect(address)
	if err != nil {
		return "", nil, err
	}
	defer w.conn.Close()
	go func() {
		if w.write(raw) == nil { // else an early answer ended it
			_ = w.conn.(*net.TCPConn).CloseWrite()
		}
	}()
	if err := w.conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return "", nil, err
	}
	all, err := io.ReadAll(w.conn)
	answers, faulty := answersIn(all)
	return w.conn.LocalAddr().String(), answers, errors.Join(faulty, err)
}

// answersIn reads final answers. A body that is announced and not there was of a HEAD.
func answersIn(all []byte) ([]*answer, error) {
	var answers []*answer
	for len(all) > 0 {
		head, rest, found := bytes.Cut(all, []byte("\r\n\r\n"))
		if !found {
			return nil, fmt.Errorf("an answer that is not whole: %q", all)
		}
		lines := strings.Split(string(head), "\r\n")
		a := &answer{}
		minor := 0
		if _, err := fmt.Sscanf(lines[0], "HTTP/1.%d %d", &minor, &a.code); err != nil {
			return nil, fmt.Errorf("not a status line: %q", lines[0])
		}
		for _, line := range lines[1:] {
			name, text, _ := strings.Cut(line, ":")
			a.fields = append(a.fields, field{name, strings.TrimSpace(text)})
		}
		length, err := strconv.Atoi(a.get("Content-Length"))
		if err != nil && a.code >= 200 {
			length = len(rest) // up to the end, as net/http's own answers are
		}
		if length > 0 && (len(rest) == 0 || bytes.HasPrefix(rest, []byte("HTTP/1.1 "))) {
			length = 0
		}
		if length > len(rest) {
			return nil, fmt.Errorf("%d bytes of a body of %d", len(rest), length)
		}
		a.body, all = string(rest[:length]), rest[length:]
		if a.code >= 200 {
			answers = append(answers, a)
		}
	}
	return answers, nil
}

// ours are what sluice made of the bytes.
func (i *installation) ours(raw string) ([]message, error) {
	_, answers, err := say(i.address, raw)
	if err != nil {
		return nil, err
	}
	var all []message
	for _, a := range answers {
		m := message{code: a.code}
		switch a.code {
		case 404, 405: // of no source; where the connection goes on, it was read whole
			m.taken, m.over = !a.closes(), a.closes()
		case 200:
			e := i.event(a.get("X-Event-Id"))
			m.taken, m.known = true, true
			m.method, m.target, m.body = e.GetMethod(), e.GetTarget(), string(e.GetBody())
		}
		all = append(all, m)
	}
	return all, nil
}

// compare tells where the two part: "" if they do not, else what each made of that message.
func compare(ours, theirs []message) (fault string, code int) {
	for n := range max(len(ours), len(theirs)) {
		var a, b message
		if n < len(ours) {
			a = ours[n]
		}
		if n < len(theirs) {
			b = theirs[n]
		}
		code = a.code
		if a.taken {
			code = taken
		}
		switch {
		case a.over:
			return "", 0
		case a.taken != b.taken:
			return fmt.Sprintf("message %d: %v, net/http: %v", n, a, b), code
		case a.known && (a.method != b.method || a.target != b.target || a.body != b.body):
			return fmt.Sprintf("message %d is read as %v, by net/http as %v", n, a, b), misread
		case !a.taken:
			return "", 0 // both refused it, or it never came to an end
		}
	}
	return "", 0
}

// excuse finds the rule for a difference.
func excuse(raw string, code int) string {
	for _, d := range differences {
		if d.ours == code && d.when(raw) {
			return d.reason
		}
	}
	return ""
}

// TestWhatNetHTTPReadsOtherwiseHasAReason sends the same bytes to net/http and to sluice.
func TestWhatNetHTTPReadsOtherwiseHasAReason(t *testing.T) {
	random := seeded(t)
	cases := corpus(t)
	i := install(t, corpusConfig(cases))
	i.start()
	r := startReference(t)
	var all []string
	for _, c := range cases {
		if raw := joined(t, c.Raw, c.RawGen); len(raw) <= 64<<10 {
			all = append(all, raw)
		}
	}
	originals := all
	for range count(4000, 200_000) {
		all = append(all, alter(random, originals))
	}
	for _, d := range differences {
		all = append(all, d.such)
	}
	var mu sync.Mutex
	used := map[string]int{}
	var wait sync.WaitGroup
	next := make(chan string)
	for range 8 {
		wait.Go(func() {
			for raw := range next {
				ours, err := i.ours(raw)
				theirs, theirErr := r.messages(raw)
				if err = errors.Join(err, theirErr); err != nil {
					t.Errorf("%v\n\tin %.1500q", err, raw)
					continue
				}
				fault, code := compare(ours, theirs)
				if fault == "" {
					continue
				}
				reason := excuse(raw, code)
				if reason == "" {
					t.Errorf("%s\n\tin %.1500q", fault, raw)
				}
				mu.Lock()
				used[reason]++
				mu.Unlock()
			}
		})
	}
	for _, raw := range all {
		next <- raw
	}
	close(next)
	wait.Wait()
	for _, d := range differences {
		t.Logf("%5d differ: %s", used[d.reason], d.reason)
		if used[d.reason] == 0 {
			t.Errorf("nothing differs for this reason: %s", d.reason)
		}
	}
}

// alter changes a few places of a connection, mostly where framing is decided.
func alter(random *rand.Rand, from []string) string {
	tokens := []string{
		"\r\n", "\n", "\r", " ", "\t", ":", ",", ";", "0", "1", "\x00", "\x7f", "\xe9", "%", "chunked",
		"Content-Length: 1\r\n", "Transfer-Encoding: chunked\r\n", "Host: b\r\n", "HTTP/1.0",
		"Connection: close\r\n", "Expect: 100-continue\r\n", "0\r\n\r\n", "GET", "POST ",
	}
	raw := from[random.IntN(len(from))]
	for range 1 + random.IntN(3) {
		at := random.IntN(min(len(raw), 2000) + 1)
		end := min(at+random.IntN(12), len(raw))
		switch random.IntN(5) {
		case 0:
			raw = raw[:at] + tokens[random.IntN(len(tokens))] + raw[at:]
		case 1:
			raw = raw[:at] + raw[end:]
		case 2:
			raw = raw[:end] + raw[at:]
		case 3:
			if at < len(raw) {
				raw = raw[:at] + string(raw[at]^1<<random.IntN(8)) + raw[at+1:]
			}
		case 4:
			raw = raw[:at] + tokens[random.IntN(len(tokens))] + raw[end:]
		}
	}
	return raw
}
