package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sluice/go/internal/provider/catalogue"
	"sluice/go/internal/provider/catalogue/vectors"
)

// The folders that hold signed requests with their right outcomes; the catalogue's tests use them
// too.
var vectorFolders = []string{
	"../../internal/provider/catalogue/testdata/signatures",
	"../../internal/provider/catalogue/testdata/vectors",
}

// verifyArgs is the command line that judges a vector.
func verifyArgs(t *testing.T, v *vectors.Vector, name, folder string) []string {
	t.Helper()
	var headers strings.Builder
	for _, h := range v.Headers {
		fmt.Fprintf(&headers, "%s: %s\n", h[0], h[1])
	}
	body, err := v.Body.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(folder, "headers"), headers.String())
	write(t, filepath.Join(folder, "body"), string(body))
	args := []string{"verify", name, "--json", "--headers", filepath.Join(folder, "headers"),
		"--body", filepath.Join(folder, "body"), "--method", v.Method, "--url", v.URL,
		"--at", fmt.Sprint(v.Now)}
	for _, secret := range v.Secrets {
		text, err := json.Marshal(secret)
		if err != nil {
			t.Fatal(err)
		}
		args = append(args, "--secret", string(text))
	}
	if v.Tolerance != nil {
		args = append(args, "--tolerance", fmt.Sprintf("%ds", *v.Tolerance))
	}
	if len(v.Learned) > 0 {
		args = append(args, "--learn")
	}
	for _, component := range v.Require {
		args = append(args, "--require", component)
	}
	return args
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// run executes a command line in this process.
func run(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	code = execute(t.Context(), args, strings.NewReader(""), &o, &e)
	return code, o.String(), e.String()
}

// verified is what verify says with --json.
type verified struct {
	Outcome   string
	Key       *int
	EventID   *string `json:"event_id"`
	EventType *string `json:"event_type"`
	Handshake bool
	Explain   *explanation
}

func TestVerifyGivesEveryVectorsOutcomeAndExitCode(t *testing.T) {
	folder := t.TempDir()
	judged, providers := 0, map[string]bool{}
	for _, from := range vectorFolders {
		sets, err := vectors.Read(from)
		if err != nil {
			t.Fatal(err)
		}
		for _, set := range sets {
			if _, known := catalogue.Lookup(set.Provider); !known {
				t.Logf("%s: no profile", set.Provider)
				continue
			}
			providers[set.Provider] = true
			for _, v := range set.Vectors {
				judged++
				code, out, errs := run(t, verifyArgs(t, &v, set.Provider, folder)...)
				var got verified
				if err := json.Unmarshal([]byte(out), &got); err != nil {
					t.Errorf("%s: %v: %q %q", v.ID, err, out, errs)
					continue
				}
				if got.Outcome != v.Expect && !slices.Contains(v.Also, got.Outcome) {
					t.Errorf("%s: %s, want %s or %q", v.ID, got.Outcome, v.Expect, v.Also)
				}
				held := got.Outcome == "ok"
				if held != (code == 0) || !held && (code != 1 || got.EventID != nil) || errs != "" {
					t.Errorf("%s: exit code %d with %s, %q", v.ID, code, out, errs)
				}
				checkVector(t, &v, &got)
			}
		}
	}
	for _, name := range catalogue.Names() {
		if !providers[name] && name != "none" {
			t.Errorf("%s has no vectors", name)
		}
	}
	t.Logf("%d vectors of %d providers", judged, len(providers))
}

// checkVector holds what a vector says beyond its outcome against the answer.
func checkVector(t *testing.T, v *vectors.Vector, got *verified) {
	t.Helper()
	if v.Key != nil {
		key := -1
		if got.Key != nil {
			key = *got.Key
		}
		if key != *v.Key {
			t.Errorf("%s: key %d, want %d", v.ID, key, *v.Key)
		}
	}
	text := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}
	if v.Event.ID != "" && text(got.EventID) != v.Event.ID ||
		v.Event.Type != "" && text(got.EventType) != v.Event.Type {
		t.Errorf("%s: event %q %q, want %q %q", v.ID, text(got.EventID), text(got.EventType),
			v.Event.ID, v.Event.Type)
	}
	if v.Answer != nil && v.Expect == "ok" && !got.Handshake {
		t.Errorf("%s: is no handshake", v.ID)
	}
}
