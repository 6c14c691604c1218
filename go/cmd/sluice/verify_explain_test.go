package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// signedByGitHub writes a body and its headers; nobody has the key.
func signedByGitHub(t *testing.T, body string) (headers, path string) {
	t.Helper()
	folder := t.TempDir()
	headers, path = filepath.Join(folder, "headers"), filepath.Join(folder, "body")
	write(t, headers, "X-GitHub-Event: push\n"+
		"X-Hub-Signature-256:  sha256="+strings.Repeat("c7", sha256.Size)+"\n")
	write(t, path, body)
	return headers, path
}

func TestTheSignedBytesAreShownAndWrittenWhole(t *testing.T) {
	body := "\xef\xbb\xbf{\"a\":\t\"" + strings.Repeat("é", 500) + "\"}\r\n\x00"
	headers, path := signedByGitHub(t, body)
	signed := filepath.Join(t.TempDir(), "signed")
	code, out, errs := run(t, "verify", "github", "--secret", "a-secret-of-ours", "--headers", headers,
		"--body", path, "--explain", "--json", "--signed-to", signed)
	var got verified
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 1 || errs != "" {
		t.Fatalf("exit code %d, %v, %q, %q", code, err, out, errs)
	}
	whole, err := os.ReadFile(signed)
	if err != nil || string(whole) != body {
		t.Errorf("written %q, %v", whole, err)
	}
	sum := sha256.Sum256([]byte(body))
	way := got.Explain.Ways[got.Explain.Best]
	text := way.Signed.Text
	if way.Signed.Bytes != len(body) || way.Signed.SHA256 != hex.EncodeToString(sum[:]) ||
		!strings.HasPrefix(text, `"\xef\xbb\xbf{\"a\":\t\"\xc3\xa9`) ||
		!strings.HasSuffix(text, `\xc3\xa9\"}\r\n\x00"`) || !strings.Contains(text, " left out ... ") {
		t.Errorf("%+v", way.Signed)
	}
	if len(way.Notes) == 0 || !strings.Contains(way.Notes[0], "blanks around") {
		t.Errorf("notes %q", way.Notes)
	}
	if strings.Contains(out, "a-secret-of-ours") || got.Explain.Secrets[0].Origin != "given" {
		t.Errorf("%s", out)
	}
}

func TestNoTokenIsShown(t *testing.T) {
	folder := t.TempDir()
	headers, body := filepath.Join(folder, "headers"), filepath.Join(folder, "body")
	write(t, headers, "X-Gitlab-Token: nearly-the-right-token\n")
	write(t, body, "{}")
	for _, form := range []string{"--json", "--explain"} {
		_, out, errs := run(t, "verify", "gitlab", "--secret", "the-right-token",
			"--headers", headers, "--body", body, "--explain", form)
		if strings.Contains(out+errs, "right-token") {
			t.Errorf("%s%s", out, errs)
		}
	}
}

const ownScheme = `signature: header:X-Acme-Signature
items: {separator: ";", assign: ":"}
label: s2
algorithm: hmac-sha384
encoding: hex
key: {encoding: text}
content:
  - timestamp
  - {literal: "|"}
  - body
timestamp:
  from: header:X-Acme-Time
  format: unix-s
  tolerance: 2m
handshakes:
  - name: ask
    match: [{from: json:/ask}]
    status: 200
`

func TestASchemeWithAFaultIsRefusedWithItsLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "scheme.yaml")
	verify := func() (int, string, string) {
		return run(t, "verify", "--scheme", path, "--headers", os.DevNull, "--secret", "x")
	}
	write(t, path, ownScheme)
	if code, out, errs := verify(); code != 1 || !strings.Contains(out, "missing-header") {
		t.Fatalf("without a fault: exit code %d, %q %q", code, out, errs)
	}
	for _, test := range []struct{ old, new, want string }{
		{"label: s2", "lable: s2", "3: lable: unknown key, want "},
		{"hmac-sha384", "hmac-md5", `4: algorithm: algorithm "hmac-md5" is unknown, want `},
		{"hmac-sha384", "keyed-sha256", "4: algorithm: "},
		{"hmac-sha384", "rsa-sha1", "4: algorithm: "},
		{"encoding: hex", "encoding: text", "5: encoding: "},
		{"encoding: text", "encoding: base46", "6: key.encoding: "},
		{"  - body\n", "", "7: content: body is missing; "},
		{"  - body\n", "  - bodi\n", "10: content[2]: "},
		{"header:X-Acme-Time", "numbered:X-Acme-Time", "12: timestamp.from: "},
		{"unix-s", "unix", "13: timestamp.format: "},
		{"  - timestamp\n", "", "11: timestamp: it is not part of the content"},
		{"2m", "2 minutes", "14: timestamp.tolerance: "},
		{"status: 200", "status: 500", "18: handshakes[0].status: "},
		{"[{from: json:/ask}]", "[]", "handshakes[0]"},
		{"json:/ask", "json:ask", "17: handshakes[0].match[0].from: "},
		{"items: {", "items: [", "scheme.yaml:"},
	} {
		write(t, path, strings.Replace(ownScheme, test.old, test.new, 1))
		code, out, errs := verify()
		if code != 2 || out != "" || !strings.Contains(errs, test.want) ||
			!strings.HasPrefix(errs, "sluice: "+path+" is refused: 1 fault\n"+path+":") {
			t.Errorf("%s for %s: exit code %d, %q, want %q", test.new, test.old, code, errs, test.want)
		}
	}
}
