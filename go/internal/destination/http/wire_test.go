package http

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"sluice/go/internal/destination"
	"sluice/go/internal/provider"
	"sluice/go/internal/provider/catalogue"
)

// sent delivers one request and gives back the bytes that went over the wire.
func sent(t *testing.T, o Options, r *destination.Request) string {
	t.Helper()
	got := make(chan string, 1)
	p := listen(t, func(_ int, c net.Conn) {
		text, _ := readRequest(c)
		got <- text
		_, _ = io.WriteString(c, ok200)
	})
	credentials := o.URL
	o.URL = strings.Replace(p.url(), "http://", "http://"+credentials, 1)
	if result := open(t, o).Deliver(context.Background(), r); result.Kind != destination.Delivered {
		t.Fatalf("not delivered: %v", result.Err)
	}
	text := <-got
	return strings.Replace(text, p.listener.Addr().String(), "ADDRESS", 1)
}

func TestTheWireHoldsTheSendersBytesAndOnlyOursBesides(t *testing.T) {
	body := "\x00\xff{\"a\": 1}\r\n\r\n\u00e9"
	r := request(body,
		header("x-gitHub-EVENT", "push"),
		header("X-Rep", "1"), header("x-rep", "2"), header("X-REP", ""), header("X-Rep", "3"),
		header("Z-first", "stays before a"), header("a-Second", "b"),
		header("X-Obs", "caf\xe9 \xff\x80"), header("X-Utf8", "caf\u00e9"),
		header("X-Tab", "a\tb  c"), header("X-Control", "\x01\x7f\x1b"), header("X-Empty", ""),
		header("user-agent", "GitHub-Hookshot/abc"), header("User-Agent", ""),
		header("ACCEPT-ENCODING", "zstd"), header("content-type", "application/json"),
		header("Cookie", "a=b; c=d"), header("authorization", "Bearer theirs"),
		header("host", "sluice.example"), header("CONTENT-length", "999"),
		header("idempotency-KEY", "theirs"), header("expect", "100-continue"),
		header("connection", "keep-alive, X-Hop"), header("x-hop", "gone"),
		header("Keep-Alive", "timeout=5"), header("te", "trailers"), header("Trailer", "X"),
		header("Transfer-Encoding", "chunked"), header("UPGRADE", "h2c"),
		header("Proxy-Connection", "x"), header("Proxy-Authorization", "secret"),
		header("X-Internal", "dropped"),
	)
	want := "POST /hook?a=%20b HTTP/1.1\r\n" +
		"Host: ADDRESS\r\n" +
		"x-gitHub-EVENT: push\r\n" +
		"X-Rep: 1\r\nx-rep: 2\r\nX-REP: \r\nX-Rep: 3\r\n" +
		"Z-first: stays before a\r\na-Second: b\r\n" +
		"X-Obs: caf\xe9 \xff\x80\r\nX-Utf8: caf\u00e9\r\n" +
		"X-Tab: a\tb  c\r\nX-Control: \x01\x7f\x1b\r\nX-Empty: \r\n" +
		"user-agent: GitHub-Hookshot/abc\r\nUser-Agent: \r\n" +
		"ACCEPT-ENCODING: zstd\r\ncontent-type: application/json\r\n" +
		"Cookie: a=b; c=d\r\nauthorization: Bearer theirs\r\n" +
		"Idempotency-Key: 01JGFJJZ00ABCDEFGHJKMNPQRS\r\n" +
		"Content-Length: 16\r\n\r\n" + body
	if got := sent(t, Options{DropHeaders: []string{"x-INTERNAL"}}, r); got != want {
		t.Errorf("on the wire:\n%q\nwant:\n%q", got, want)
	}
}

func TestABareRequestGainsNothingButFraming(t *testing.T) {
	r := request("")
	r.Headers = nil
	want := "POST /hook?a=%20b HTTP/1.1\r\nHost: ADDRESS\r\n" +
		"Idempotency-Key: 01JGFJJZ00ABCDEFGHJKMNPQRS\r\nContent-Length: 0\r\n\r\n"
	if got := sent(t, Options{}, r); got != want {
		t.Errorf("on the wire:\n%q\nwant:\n%q", got, want)
	}
	r.Method = "GET"
	want = "GET /hook?a=%20b HTTP/1.1\r\nHost: ADDRESS\r\n" +
		"Idempotency-Key: 01JGFJJZ00ABCDEFGHJKMNPQRS\r\n\r\n"
	if got := sent(t, Options{}, r); got != want {
		t.Errorf("on the wire:\n%q\nwant:\n%q", got, want)
	}
}

func TestCredentialsInTheURLReplaceTheSenders(t *testing.T) {
	got := sent(t, Options{URL: "ann:p%40ss@"}, request("x", header("Authorization", "Bearer theirs")))
	if !strings.Contains(got, "\r\nAuthorization: Basic YW5uOnBAc3M=\r\n") {
		t.Errorf("no credentials of ours: %q", got)
	}
	if strings.Contains(got, "theirs") || strings.Contains(got, "ann") {
		t.Errorf("the sender's credentials or the URL's text went out: %q", got)
	}
}

func TestARequestThatWouldBreakTheFramingIsRefusedForGood(t *testing.T) {
	d := open(t, Options{URL: "http://127.0.0.1:1/"})
	for _, r := range []*destination.Request{
		request("x", header("X-A", "a\r\nX-Smuggled: 1")),
		request("x", header("X A", "a")),
		request("x", header("", "a")),
		{Method: "PO ST"},
		{Method: ""},
	} {
		if result := d.Deliver(context.Background(), r); result.Kind != destination.Permanent {
			t.Errorf("%q %q: %v %v", r.Method, r.Headers, result.Kind, result.Err)
		}
	}
}

func TestURLs(t *testing.T) {
	for _, c := range []struct{ url, address, host, target string }{
		{"http://h", "h:80", "h", "/"},
		{"https://h/a//b/?", "h:443", "h", "/a//b/?"},
		{"http://h:9000/hook?x=1#frag", "h:9000", "h:9000", "/hook?x=1"},
		{"http://h:/x", "h:80", "h", "/x"},
		{"http://[::1]:8/x", "[::1]:8", "[::1]:8", "/x"},
		{"http://[fe80::1%25eth0]:8/x", "[fe80::1%eth0]:8", "[fe80::1]:8", "/x"},
		{"http://[fe80::1%25eth0]/x", "[fe80::1%eth0]:80", "[fe80::1]", "/x"},
		{"http://h/a%2Fb", "h:80", "h", "/a%2Fb"},
		{"http://h/a b", "h:80", "h", "/a%20b"},
	} {
		d, err := New(Options{URL: c.url})
		if err != nil {
			t.Errorf("%s: %v", c.url, err)
			continue
		}
		if d.address != c.address || d.host != c.host || d.target != c.target {
			t.Errorf("%s: dial %q, host %q, target %q", c.url, d.address, d.host, d.target)
		}
	}
	for _, bad := range []string{
		"", "h:9000", "ftp://u:hunter2@h/", "http://", "http://u:hunter2@/x", "http:///x",
		"http://u:hunter2@h:port/", "http://u:hunter2@h\x7f/", "http://b\u00fccher.example/",
		"unix:/run/s", "http:h/x",
	} {
		_, err := New(Options{URL: bad})
		if err == nil {
			t.Errorf("%q is taken", bad)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error shows the password: %v", err)
		}
	}
}

func TestAddedHeadersReplaceTheSendersOfTheirNames(t *testing.T) {
	r := request("x", header("x-ENV", "theirs"), header("X-A", "1"), header("X-Env", "theirs too"))
	got := sent(t, Options{
		URL: "ann:secret@", Headers: []Header{{"X-Env", "prod"}, {"X-Api-Key", "k\xc3\xa9y"}},
		DropHeaders: []string{"X-Api-Key"},
	}, r)
	want := "POST /hook?a=%20b HTTP/1.1\r\nHost: ADDRESS\r\nX-A: 1\r\n" +
		"Authorization: Basic YW5uOnNlY3JldA==\r\nX-Env: prod\r\nX-Api-Key: k\xc3\xa9y\r\n" +
		"Idempotency-Key: 01JGFJJZ00ABCDEFGHJKMNPQRS\r\nContent-Length: 1\r\n\r\nx"
	if got != want {
		t.Errorf("on the wire:\n%q\nwant:\n%q", got, want)
	}
}

func TestHeadersThatAreNotTheConfigsToSetAreNamed(t *testing.T) {
	for _, h := range []Header{
		{"Content-Length", "1"}, {"content-length", "1"}, {"Transfer-Encoding", "chunked"}, {"Host", "h"},
		{"Connection", "close"}, {"Idempotency-Key", "x"}, {"Expect", "100-continue"}, {"TE", "trailers"},
		{"Upgrade", "h2c"}, {"Proxy-Authorization", "x"}, {"Keep-Alive", "5"}, {"Trailer", "X"},
		{"webhook-id", "x"}, {"Webhook-Signature", "x"}, {"Authorization", "Bearer x"},
		{"", "x"}, {"X A", "x"}, {"X-A", "a\r\nX-B: b"}, {"X-A", "a\x00"},
	} {
		_, err := New(Options{URL: "http://a:b@h/", Headers: []Header{h},
			Secrets: []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}})
		if err == nil {
			t.Errorf("%q is taken", h)
		}
	}
	if _, err := New(Options{URL: "http://h/", Headers: []Header{{"Authorization", "Bearer x"}}}); err != nil {
		t.Error(err)
	}
}

func TestEachSecretSignsWhatIsSent(t *testing.T) {
	const old, next = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
	now := time.Unix(1614265330, 0)
	r := request(`{"test": 2432232314}`, header("Webhook-Id", "theirs"),
		header("webhook-signature", "v1,theirs"), header("WEBHOOK-TIMESTAMP", "1"))
	got := sent(t, Options{Secrets: []string{old, next}, Now: func() time.Time { return now }}, r)
	if strings.Contains(got, "theirs") {
		t.Errorf("the sender's signature went out: %q", got)
	}
	head, body, _ := strings.Cut(got, "\r\n\r\n")
	seen := &provider.Request{Method: []byte("POST"), Body: []byte(body), ReceivedNS: now.UnixNano()}
	for line := range strings.SplitSeq(head, "\r\n") {
		if name, value, ok := strings.Cut(line, ": "); ok {
			seen.Headers = append(seen.Headers, provider.Field{Name: []byte(name), Value: []byte(value)})
		}
	}
	scheme, _ := catalogue.Lookup("standard-webhooks")
	for secret, want := range map[string]provider.Outcome{
		old: provider.OK, "whsec_" + next: provider.OK,
		"whsec_AAAAr8GKYqrTwjUPD8ILPZIo2LaLaSwA": provider.BadSignature,
	} {
		verifier, err := provider.Compile(scheme, []provider.Secret{{Value: secret}}, provider.Options{})
		if err != nil {
			t.Fatal(err)
		}
		verdict := verifier.Verify(seen)
		if verdict.Outcome != want {
			t.Errorf("a receiver with another secret: %v (%s), want %v", verdict.Outcome, verdict.Detail,
				want)
		}
		if want == provider.OK && string(verdict.EventID) != r.EventID.String() {
			t.Errorf("signed for %q", verdict.EventID)
		}
	}
}

func TestSecretsThatCannotSignAreNamedAndNotShown(t *testing.T) {
	for _, bad := range []string{"", "whsec_", "hunter2!", "whsec_hunter2!"} {
		_, err := New(Options{URL: "http://h/", Secrets: []string{"whsec_MfKQ9r8GKYqrTwjUPD8I", bad}})
		if err == nil || !strings.Contains(err.Error(), "secret 2") ||
			strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
