package e2e

import (
	"bufio"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"
)

const secret = "It's a Secret to Everybody"

// field is one header line.
type field struct{ name, value string }

// request is what a sender writes; Host and Content-Length are added where they are missing.
type request struct {
	method, path string
	fields       []field
	body         string
}

func (r request) bytes() string {
	var b strings.Builder
	method := r.method
	if method == "" {
		method = "POST"
	}
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\n", method, r.path)
	fields := r.fields
	if !has(fields, "Host") {
		fields = append([]field{{"Host", "hooks.example.test"}}, fields...)
	}
	for _, f := range fields {
		fmt.Fprintf(&b, "%s: %s\r\n", f.name, f.value)
	}
	if !has(fields, "Content-Length") && (method != "GET" || r.body != "") {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(r.body))
	}
	return b.String() + "\r\n" + r.body
}

func has(fields []field, name string) bool {
	_, ok := value(fields, name)
	return ok
}

// value finds the first field of a name.
func value(fields []field, name string) (string, bool) {
	for _, f := range fields {
		if strings.EqualFold(f.name, name) {
			return f.value, true
		}
	}
	return "", false
}

// github is a request as GitHub signs it.
func github(path, delivery, body string) request {
	return request{path: path, body: body, fields: []field{
		{"Content-Type", "application/json"}, {"X-GitHub-Event", "push"},
		{"X-GitHub-Delivery", delivery}, {"X-Hub-Signature-256", "sha256=" + hmacHex(secret, body)},
	}}
}

func hmacHex(key, text string) string {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(text))
	return fmt.Sprintf("%x", mac.Sum(nil))
}

// answer is what came back.
type answer struct {
	code   int
	fields []field
	body   string
}

func (a *answer) get(name string) string {
	v, _ := value(a.fields, name)
	return v
}

// closes tells whether the answer announces the end of the connection.
func (a *answer) closes() bool { return strings.EqualFold(a.get("Connection"), "close") }

func (a *answer) String() string { return fmt.Sprintf("%d %v %q", a.code, a.fields, a.body) }

// wire is a sender's connection.
type wire struct {
	conn   net.Conn
	reader *bufio.Reader
}

// dial connects as a sender, or fails the test.
func (i *installation) dial(t testing.TB) *wire {
	t.Helper()
	w, err := connect(i.address)
	must(t, err)
	t.Cleanup(func() { _ = w.conn.Close() })
	return w
}

func connect(address string) (*wire, error) {
	conn, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		return nil, err
	}
	return &wire{conn, bufio.NewReader(conn)}, nil
}

func (w *wire) write(text string) error {
	if err := w.conn.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	_, err := io.WriteString(w.conn, text)
	return err
}

// errEnd says that the connection ended between two answers.
var errEnd = errors.New("the connection ended")

// read takes the next answer, interim ones too. The method is the request's.
func (w *wire) read(method string) (*answer, error) {
	if err := w.conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	line, err := w.line()
	if err != nil {
		if line == "" && !errors.Is(err, errSlow) {
			return nil, fmt.Errorf("%w: %w", errEnd, err)
		}
		return nil, fmt.Errorf("in the status line %q: %w", line, err)
	}
	a := &answer{}
	version, rest, _ := strings.Cut(line, " ")
	code, _, _ := strings.Cut(rest, " ")
	if a.code, err = strconv.Atoi(code); err != nil || !strings.HasPrefix(version, "HTTP/1.") {
		return nil, fmt.Errorf("not a status line: %q", line)
	}
	for {
		line, err := w.line()
		if err != nil {
			return nil, fmt.Errorf("in the fields: %w", err)
		}
		if line == "" {
			break
		}
		name, text, ok := strings.Cut(line, ":")
		if !ok {
			return nil, fmt.Errorf("not a field: %q", line)
		}
		a.fields = append(a.fields, field{name, strings.TrimSpace(text)})
	}
	if a.code < 200 || a.code == 204 || method == "HEAD" {
		return a, nil
	}
	length, err := strconv.Atoi(a.get("Content-Length"))
	if err != nil {
		return nil, fmt.Errorf("answer without a length: %v", a)
	}
	body := make([]byte, length)
	if _, err := io.ReadFull(w.reader, body); err != nil {
		return nil, fmt.Errorf("in the body: %w", err)
	}
	a.body = string(body)
	return a, nil
}

var errSlow = errors.New("no answer in time")

func (w *wire) line() (string, error) {
	line, err := w.reader.ReadString('\n')
	if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
		return line, errSlow
	}
	if err != nil {
		return line, err
	}
	return strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r"), nil
}

// exchange sends one request and takes its final answer.
func (w *wire) exchange(r request) (*answer, error) {
	if err := w.write(r.bytes()); err != nil {
		return nil, err
	}
	for {
		a, err := w.read(r.method)
		if err != nil || a.code >= 200 {
			return a, err
		}
	}
}

// ask is exchange where nothing may go wrong.
func (w *wire) ask(t testing.TB, r request) *answer {
	t.Helper()
	a, err := w.exchange(r)
	must(t, err)
	return a
}

// raw sends bytes and takes the next final answer.
func (w *wire) raw(t testing.TB, text string) *answer {
	t.Helper()
	a, err := w.exchangeRaw(text)
	must(t, err)
	return a
}

func (w *wire) exchangeRaw(text string) (*answer, error) {
	writeErr := w.write(text)
	for {
		a, err := w.read("")
		if err != nil {
			return nil, errors.Join(err, writeErr)
		}
		if a.code >= 200 {
			return a, nil
		}
	}
}

// isClosed waits for the end of the connection: nothing but the end may come.
func (w *wire) isClosed(t testing.TB) {
	t.Helper()
	must(t, w.conn.SetReadDeadline(time.Now().Add(patience)))
	b, err := w.reader.ReadByte()
	if err == nil {
		t.Fatalf("byte %q where the connection should end", b)
	}
	if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
		t.Fatal("the connection stays open")
	}
}

// isOpen proves that the connection serves another request.
func (w *wire) isOpen(t testing.TB, path string) {
	t.Helper()
	a := w.ask(t, request{method: "GET", path: path})
	if a.code == 0 {
		t.Fatal("no answer")
	}
}

// send sends one request on a connection of its own.
func (i *installation) send(r request) (*answer, error) {
	w, err := connect(i.address)
	if err != nil {
		return nil, err
	}
	defer w.conn.Close()
	return w.exchange(r)
}

// accepted sends a request that must be taken, and gives the event's id.
func (i *installation) accepted(r request) string {
	i.t.Helper()
	a, err := i.send(r)
	must(i.t, err)
	if a.code != 200 || a.get("X-Event-Id") == "" {
		i.t.Fatalf("not accepted: %v", a)
	}
	return a.get("X-Event-Id")
}
