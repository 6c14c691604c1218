package provider

import (
	"errors"
	"testing"
)

const certificate = "sha256:00ff\nsubject:CN=Connect,O=Example\ncn:Connect\n" +
	"dns:Connect.Example.com\nuri:spiffe://example.org/sender\nemail:ops@example.com\nip:192.0.2.1"

func TestAClientCertificateIsKnownByAnyOfItsNames(t *testing.T) {
	for _, test := range []struct {
		client string
		names  []string
		want   Outcome
	}{
		{"", nil, MissingHeader},
		{"", []string{"cn:Connect"}, MissingHeader},
		{"sha256:00ff", nil, OK},
		{certificate, nil, OK},
		{certificate, []string{"sha256:00ff"}, OK},
		{certificate, []string{"subject:CN=Connect,O=Example"}, OK},
		{certificate, []string{"cn:Connect"}, OK},
		{certificate, []string{"uri:spiffe://example.org/sender"}, OK},
		{certificate, []string{"email:ops@example.com"}, OK},
		{certificate, []string{"ip:192.0.2.1"}, OK},
		{certificate, []string{"ip:192.0.2.2", "dns:connect.example.com"}, OK},
		// Only host names have no case.
		{certificate, []string{"cn:connect"}, BadSignature},
		{certificate, []string{"uri:SPIFFE://example.org/sender"}, BadSignature},
		// A part of a name is not the name.
		{certificate, []string{"dns:example.com"}, BadSignature},
		{certificate, []string{"dns:connect.example.co"}, BadSignature},
		{certificate, []string{"ip:192.0.2.10"}, BadSignature},
		{certificate, []string{"ip:192.0.2."}, BadSignature},
		{certificate, []string{"sha256:00"}, BadSignature},
	} {
		v, err := Compile(ClientScheme(test.names), nil, Options{})
		if err != nil {
			t.Fatal(err)
		}
		r := request("{}")
		r.Client = []byte(test.client)
		got := v.Clone().Verify(r)
		if got.Outcome != test.want || got.Secret != -1 || (got.Detail == "") != (test.want == OK) {
			t.Errorf("%.20q for %q: %s (%s)", test.client, test.names, got.Outcome, got.Detail)
		}
		if len(got.EventID) != 0 || got.Response != nil {
			t.Errorf("%q: id %q, response %v", test.names, got.EventID, got.Response)
		}
	}
}

func TestANameInsideAnotherOneIsNoName(t *testing.T) {
	v, err := Compile(ClientScheme([]string{"dns:good.example"}), nil, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, client := range []string{
		"cn:dns:good.example", "uri:x dns:good.example", "dns:good.example.evil.example",
		"dns:good.example\x00.evil.example", "dns:good.example\r", "dns:good.example ",
		"subject:CN=dns:good.example", " dns:good.example", "dns:good.examp\u017fe",
		"cn:a\rdns:good.example", "email:dns:good.example", "dns: good.example", "dns:",
	} {
		r := request("{}")
		r.Client = []byte(client)
		if got := v.Verify(r); got.Outcome != BadSignature {
			t.Errorf("%q is taken: %s", client, got.Outcome)
		}
	}
	// What a sender says in its request is not what TLS has verified.
	r := request("dns:good.example", "dns", "good.example", "Client", "dns:good.example",
		"X-Client-Cert", "dns:good.example")
	r.Target = []byte("/in?client=dns:good.example")
	if got := v.Verify(r); got.Outcome != MissingHeader {
		t.Errorf("a header is taken for a certificate: %s", got.Outcome)
	}
}

func TestAClientSchemeIsChecked(t *testing.T) {
	for _, names := range [][]string{
		{"Connect"}, {"dns:"}, {"issuer:x"}, {"dns:Connect.example"}, {"cn:a\ndns:b"}, {""},
		make([]string, clientNamesMax+1),
	} {
		if err := ClientScheme(names).Check(); err == nil {
			t.Errorf("%.40q are taken", names)
		}
	}
	two := ClientScheme(nil)
	two.AnyOf[0].Proofs = append(two.AnyOf[0].Proofs, Proof{Algorithm: None})
	if two.Check() == nil {
		t.Error("a certificate and nothing beside it is taken")
	}
	if _, err := Compile(ClientScheme(nil), []Secret{{Value: "s"}}, Options{}); err == nil {
		t.Error("a secret that proves nothing is taken")
	}
	if ClientScheme(nil).Unsigned() {
		t.Error("its events would be marked as taken without a proof")
	}
	if _, err := Sign(ClientScheme(nil), Secret{}, &SignRequest{}); !errors.Is(err, ErrNotSignable) {
		t.Errorf("signed by a header: %v", err)
	}
}

func TestJudgingACertificateAllocatesNothing(t *testing.T) {
	v, err := Compile(ClientScheme([]string{"dns:a.example", "ip:192.0.2.1"}), nil, Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := request("{}")
	r.Client = []byte(certificate)
	if n := testing.AllocsPerRun(100, func() { v.Verify(r) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
