package catalogue_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"sluice/go/internal/provider"
	"sluice/go/internal/provider/catalogue"
)

const ownScheme = `
signature: header:X-Acme-Signature
items: {separator: ";", assign: ":"}
label: s2
algorithm: hmac-sha384
encoding: base64url
prefix: "~"
key: {encoding: hex}
content: [{literal: "acme|"}, method, timestamp, header:X-Acme-Id, {literal: "|"}, body]
timestamp: {from: header:X-Acme-Time, format: rfc3339, tolerance: 2m}
id: [header:X-Acme-Id, json:/event/id]
type: [json:/event/type]
`

func TestAnOperatorsOwnSchemeVerifies(t *testing.T) {
	scheme, err := catalogue.Parse([]byte(ownScheme))
	if err != nil {
		t.Fatal(err)
	}
	secret := provider.Secret{Value: "00ff10"}
	now := time.Date(2026, 1, 1, 3, 25, 45, 0, time.UTC)
	body := []byte(`{"event":{"id":7,"type":"made"}}`)
	fields, err := provider.Sign(scheme, secret,
		&provider.SignRequest{Method: "PUT", Body: body, Now: now, ID: "acme-1"})
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := provider.Compile(scheme, []provider.Secret{secret}, provider.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := &provider.Request{
		Method: []byte("PUT"), Body: body, Headers: fields,
		ReceivedNS: now.Add(2 * time.Minute).UnixNano(),
	}
	verdict := verifier.Verify(r)
	if verdict.Outcome != provider.OK || string(verdict.EventID) != "acme-1" ||
		string(verdict.EventType) != "made" {
		t.Errorf("%s (%s) %q %q", verdict.Outcome, verdict.Detail, verdict.EventID, verdict.EventType)
	}
	r.ReceivedNS += int64(time.Second)
	if got := verifier.Verify(r).Outcome; got != provider.Expired {
		t.Errorf("later: %s", got)
	}
	r.Method = []byte("POST")
	if got := verifier.Verify(r).Outcome; got != provider.BadSignature {
		t.Errorf("other method: %s", got)
	}
}

func TestFaultsNameTheKeyAndTheLine(t *testing.T) {
	for _, test := range []struct {
		old, new string
		line     int
		key      string
	}{
		{"label: s2", "lable: s2", 4, "lable"},
		{"{encoding: hex}", "{encodign: hex}", 8, "key.encodign"},
		{"hmac-sha384", "hmac-md5", 5, "algorithm"},
		{"base64url", "base46", 6, "encoding"},
		{"header:X-Acme-Signature", "X-Acme-Signature", 2, "signature"},
		{"method, timestamp", "methud, timestamp", 9, "content[1]"},
		{"tolerance: 2m", "tolerance: 2 minutes", 10, "timestamp.tolerance"},
		{"tolerance: 2m", "tolerance: 2m, skew: 1s", 10, "timestamp.skew"},
		{"rfc3339", "iso", 10, "timestamp.format"},
		{"json:/event/id", "json:event", 11, "id[1]"},
		{`";"`, `";;"`, 3, "items.separator"},
		{"prefix: \"~\"", "prefix: [x]", 7, "prefix"},
		{"prefix: \"~\"", "label: twice", 7, "label"},
		{", body]", "]", 9, "content"},
		{"algorithm: hmac-sha384", "algorithm: keyed-sha256", 5, "algorithm"},
		{"algorithm: hmac-sha384", "algorithm: rsa-sha1", 5, "algorithm"},
		{"encoding: base64url", "encoding: text", 6, "encoding"},
		{"encoding: base64url\n", "", 2, "encoding"},
		{"{encoding: hex}", "{encoding: spki}", 8, "key.encoding"},
		{"{encoding: hex}", "{encoding: sha1}", 8, "key.encoding"},
		{"header:X-Acme-Id, {lit", "item:t, jose:kid, {lit", 9, "content[4]"},
		{"tolerance: 2m", "tolerance: 2m, optional: true", 10, "timestamp.optional"},
		{"type: [", "content_type: [", 12, "content_type"},
		{"type: [json:/event/type]", "contract: {retry_headers: {value: [X-Retry, X Y], source: me}}",
			12, "contract.retry_headers"},
		{"type: [json:/event/type]", "contract: {retry_headers: {source: me}}",
			12, "contract.retry_headers"},
		{"type: [json:/event/type]", "contract: {retry_headers: {value: [X-Retry]}}",
			12, "contract.retry_headers"},
		{"type: [json:/event/type]",
			"contract: {retry_headers: {value: [a,b,c,d,e,f,g,h,i], source: me}}",
			12, "contract.retry_headers"},
		{"type: [json:/event/type]", "handshakes:\n  - {status: 500}", 13, "handshakes[0].status"},
		{"type: [json:/event/type]", "batch: {items: header:X}", 12, "batch.items"},
		{"type: [json:/event/type]", "contract: {drop_statuses: {value: [4xx], source: me}}",
			12, "contract.drop_statuses"},
	} {
		_, err := catalogue.Parse([]byte(strings.Replace(ownScheme, test.old, test.new, 1)))
		var fault *catalogue.Fault
		if !errors.As(err, &fault) || fault.Line != test.line || fault.Key != test.key {
			t.Errorf("%s: %v, want line %d key %q", test.new, err, test.line, test.key)
		}
	}
	for _, text := range []string{"", "mtls", "[a]", "a: b: c", "{}", ownScheme + "---\na: 1\n"} {
		if _, err := catalogue.Parse([]byte(text)); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

func TestLinesCountInTheWholeDocument(t *testing.T) {
	var file struct {
		Sources map[string]struct{ Verify yaml.Node }
	}
	text := "sources:\n  a:\n    verify:\n      signature: header:X\n      nonsense: 1\n"
	if err := yaml.Unmarshal([]byte(text), &file); err != nil {
		t.Fatal(err)
	}
	node := file.Sources["a"].Verify
	_, err := catalogue.ParseNode(&node)
	if err == nil || !strings.Contains(err.Error(), "line 5: nonsense") {
		t.Error(err)
	}
}
