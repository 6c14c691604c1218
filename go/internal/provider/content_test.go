package provider

import (
	"fmt"
	"hash/crc32"
	"strings"
	"testing"
	"time"
)

// over is a scheme that signs a content with HMAC.
func over(v Variant, content ...Part) *Scheme {
	v.Signature = Source{SourceHeader, "X-Sig"}
	v.Proofs = []Proof{{Algorithm: HMACSHA256, Encoding: Hex, Prefix: "sha256="}}
	v.Content = content
	return &Scheme{AnyOf: []Variant{v}}
}

func literal(text string) Part { return Part{Kind: PartLiteral, Literal: text} }

func TestPartsOfTheSignedText(t *testing.T) {
	const body = `{"Message":"a\nb","Subject":null,"n":1.50}`
	json := func(name string) Source { return Source{SourceJSON, name} }
	list := List{Separator: ',', Assign: ':', Join: ';'}
	for want, s := range map[string]*Scheme{
		fmt.Sprintf("t|1767323045|%d", crc32.ChecksumIEEE([]byte(body))): over(Variant{},
			Part{Kind: PartSource, Source: Source{SourceHeader, "X-Id"}}, literal("|"),
			Part{Kind: PartSource, Source: Source{SourceHeader, "X-Time"}}, literal("|"),
			Part{Kind: PartBodyCRC32}),
		"Message\na\nb\nn\n1.50\n": over(Variant{UnsignedBody: true},
			literal("Message\n"), Part{Kind: PartSource, Source: json("/Message")}, literal("\n"),
			Part{Kind: PartSource, Source: json("/Subject"), Optional: true, Before: "Subject\n",
				After: "\n"},
			Part{Kind: PartSource, Source: json("/n"), Optional: true, Before: "n\n", After: "\n"}),
		"x-time:1767323045;x-id:t|" + body: over(Variant{
			Timestamp: Timestamp{
				From: Source{SourceHeader, "X-Time"}, Format: UnixSeconds, Tolerance: time.Minute,
			},
		}, Part{Kind: PartHeaders, Source: Source{SourceHeader, "X-List"}, List: list}, literal("|"),
			Part{Kind: PartBody}),
		"hook-7" + body: over(Variant{}, Part{Kind: PartSecret, Role: "hook"}, Part{Kind: PartBody}),
	} {
		v, err := Compile(s, []Secret{{Value: "k"}, {Value: "hook-7", Role: "hook"}},
			Options{KeepUnusable: true})
		if err != nil {
			t.Fatal(err)
		}
		r := request(body, "X-Id", "t", "X-Time", " 1767323045", "X-List", "X-Time, X-Id",
			"X-Sig", signBody("k", want))
		r.ReceivedNS = 1767323045e9
		if got := v.Verify(r); got.Outcome != OK {
			t.Errorf("%q: %s (%s), the text is %q", want, got.Outcome, got.Detail, v.parts)
		}
	}
}

func TestAListOfHeadersCoversTheTime(t *testing.T) {
	s := over(Variant{Timestamp: Timestamp{
		From: Source{SourceHeader, "X-Time"}, Format: UnixSeconds, Tolerance: time.Minute,
	}}, Part{
		Kind: PartHeaders, Source: Source{SourceHeader, "X-List"},
		List: List{Separator: ',', Assign: ':', Join: ';'},
	}, Part{Kind: PartBody})
	v := compile(t, s, Options{}, "k")
	for listed, text := range map[string]string{
		"X-Id": "x-id:t", "x-id,gone": "x-id:t;gone:", "": "", "x-time,twice": "x-time:0;twice:1",
		"x-time" + strings.Repeat(",x-id", componentsMax): "x-time:0" +
			strings.Repeat(";x-id:t", componentsMax),
	} {
		r := request("b", "X-Id", "t", "X-Time", "0", "Twice", "1", "Twice", "2", "X-List", listed,
			"X-Sig", signBody("k", text+"b"))
		if got := v.Verify(r); got.Outcome != Malformed {
			t.Errorf("%.30q: %s", listed, got.Outcome)
		}
	}
}

func TestAValueThatBothSidesKnowMustBeConfigured(t *testing.T) {
	s := over(Variant{}, Part{Kind: PartSecret, Role: "hook"}, Part{Kind: PartBody})
	_, err := Compile(s, []Secret{{Value: "k"}}, Options{})
	if err == nil || !strings.Contains(err.Error(), "role hook") {
		t.Error(err)
	}
	// It is no key, or whoever knows the id of the hook could sign.
	v, err := Compile(s, []Secret{{Value: "k"}, {Value: "id", Role: "hook"}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := v.Verify(request("b", "X-Sig", signBody("id", "idb"))); got.Outcome != BadSignature {
		t.Errorf("%s", got.Outcome)
	}
}

func TestWhatIsNotSignedAsAWholeHasNoKeyTwice(t *testing.T) {
	text := func(name string) Part { return Part{Kind: PartSource, Source: Source{SourceJSON, name}} }
	s := over(Variant{UnsignedBody: true}, text("/a/b"), literal(":"), text("/c/0"))
	v := compile(t, s, Options{}, "k")
	for body, want := range map[string]Outcome{
		`{"a":{"b":1},"c":[2]}`:                  OK,
		`{"a":{"b":1,"B":9},"c":[2,2],"d":1}`:    OK,
		`{"a":{"b":1,"b":9},"c":[2]}`:            Malformed,
		`{"a":{"b":1},"c":[2],"a":{"b":9}}`:      Malformed,
		`{"a":{"b":1},"c":[2],"\u0061":{"b":9}}`: Malformed,
		`{"a":{"b":1},"c":[2],"c":9}`:            Malformed,
		`{"a":{"b":1},"c":[]}`:                   MissingHeader,
	} {
		if got := v.Verify(request(body, "X-Sig", signBody("k", "1:2"))); got.Outcome != want {
			t.Errorf("%s: %s (%s), want %s", body, got.Outcome, got.Detail, want)
		}
	}
}

func TestASignatureInAForm(t *testing.T) {
	s := &Scheme{AnyOf: []Variant{{
		Signature: Source{SourceForm, "sig"}, Items: Items{Separator: '&', Assign: '|', KeyIDs: true},
		Proofs:  []Proof{{Algorithm: HMACSHA256, Encoding: Hex, Prefix: "sha256="}},
		Content: []Part{{Kind: PartSource, Source: Source{SourceForm, "payload"}}},

		UnsignedBody: true,
	}}}
	secrets := []Secret{{Value: "a", KeyID: "pub-a"}, {Value: "b", KeyID: "pub-b"}}
	v, err := Compile(s, secrets, Options{})
	if err != nil {
		t.Fatal(err)
	}
	a, b := "pub-a|"+signBody("a", "x y"), "pub-b|"+signBody("b", "x y")
	for _, test := range []struct {
		sig, rest string
		want      Outcome
		secret    int
	}{
		{a, "payload=x+y", OK, 0}, {b, "payload=x%20y", OK, 1},
		{"pub-c|" + signBody("c", "x y") + "%26" + b, "payload=x+y", OK, 1},
		{"pub-b|" + signBody("a", "x y"), "payload=x+y", BadSignature, -1},
		{"pub-c|" + signBody("a", "x y"), "payload=x+y", BadSignature, -1},
		{a, "payload=x", BadSignature, -1}, {a, "payload=x+y&payload=z", Malformed, -1},
		{a, "", MissingHeader, -1}, {signBody("a", "x y"), "payload=x+y", Malformed, -1},
		{a + "&sig=" + b, "payload=x+y", Malformed, -1}, {"", "payload=x+y", Malformed, -1},
	} {
		got := v.Verify(request("sig=" + test.sig + "&" + test.rest))
		if got.Outcome != test.want || got.Secret != test.secret {
			t.Errorf("%s&%s: %s (%s) with %d", test.sig, test.rest, got.Outcome, got.Detail, got.Secret)
		}
	}
	if _, err := Compile(s, []Secret{{Value: "a"}}, Options{}); err == nil {
		t.Error("a secret without the id that names it")
	}
}

func TestTimesHaveTheirOwnFormsAndDistances(t *testing.T) {
	sentAt := Source{SourceHeader, "X-Time"}
	s := over(Variant{Timestamp: Timestamp{
		From: sentAt, Format: HTTPDate, Tolerance: time.Minute, Future: 5 * time.Second,
	}}, Part{Kind: PartTimestamp}, Part{Kind: PartBody})
	v := compile(t, s, Options{}, "k")
	const sent = "Sun, 06 Nov 1994 08:49:37 GMT"
	for text, want := range map[string]map[int64]Outcome{
		sent: {
			784111777: OK, 784111837: OK, 784111838: Expired, 784111772: OK, 784111771: Expired,
		},
		"Sunday, 06-Nov-94 08:49:37 GMT": {784111777: Malformed},
		"Sun Nov  6 08:49:37 1994":       {784111777: Malformed},
		"784111777":                      {784111777: Malformed},
	} {
		for at, outcome := range want {
			r := request("b", "X-Time", text, "X-Sig", signBody("k", text+"b"))
			r.ReceivedNS = at * 1e9
			if got := v.Verify(r); got.Outcome != outcome {
				t.Errorf("%s at %d: %s, want %s", text, at, got.Outcome, outcome)
			}
		}
	}
	if got := HTTPDate.format(time.Unix(784111777, 0)); got != sent {
		t.Error(got)
	}
	optional := over(Variant{Timestamp: Timestamp{
		From: Source{SourceJSON, "/t"}, Format: UnixSeconds, Tolerance: time.Minute, Optional: true,
	}}, Part{Kind: PartBody})
	w := compile(t, optional, Options{}, "k")
	for body, want := range map[string]Outcome{
		`{}`: OK, `{"t":1}`: OK, `{"t":99}`: Expired, `{"t":"1"}`: Malformed, `{"t":null}`: Malformed,
	} {
		if got := w.Verify(request(body, "X-Sig", signBody("k", body))); got.Outcome != want {
			t.Errorf("%s: %s", body, got.Outcome)
		}
	}
	for _, change := range []func(*Variant){
		func(v *Variant) { v.Timestamp.From = sentAt; v.Content = []Part{{Kind: PartTimestamp}} },
		func(v *Variant) { v.UnsignedBody = true },
	} {
		s := *optional
		s.AnyOf = []Variant{optional.AnyOf[0]}
		change(&s.AnyOf[0])
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), "take the time away") {
			t.Errorf("anybody could take the time away: %v", err)
		}
	}
}

func TestAPrefixMayBeOptional(t *testing.T) {
	s := bodyHMAC()
	s.AnyOf[0].Proofs[0].PrefixOptional = true
	v := compile(t, s, Options{}, "k")
	text := signBody("k", "b")
	for _, signature := range []string{text, strings.TrimPrefix(text, "sha256=")} {
		if got := v.Verify(request("b", "X-Sig", signature)); got.Outcome != OK {
			t.Errorf("%s: %s", signature, got.Outcome)
		}
	}
	if got := v.Verify(request("b", "X-Sig", "sha256=sha256="+text[7:])); got.Outcome == OK {
		t.Error("the prefix twice")
	}
}

func TestASharedKeyTellsWhoseEventItIs(t *testing.T) {
	topic := Part{Kind: PartSecret, Role: "topic", Source: Source{SourceJSON, "/topic"}}
	s := over(Variant{UnsignedBody: true}, literal("topic:"), topic)
	mine := []Secret{{Value: "k"}, {Value: "a", Role: "topic"}, {Value: "b", Role: "topic"}}
	for _, test := range []struct {
		secrets []Secret
		topic   string
		want    Outcome
	}{
		{mine, "a", OK}, {mine, "b", OK}, {mine, "stranger", BadSignature}, {mine[:1], "any", OK},
	} {
		v, err := Compile(s, test.secrets, Options{})
		if err != nil {
			t.Fatal(err)
		}
		got := v.Verify(request(`{"topic":"`+test.topic+`"}`, "X-Sig",
			signBody("k", "topic:"+test.topic)))
		if got.Outcome != test.want {
			t.Errorf("%s: %s (%s)", test.topic, got.Outcome, got.Detail)
		}
	}
}
