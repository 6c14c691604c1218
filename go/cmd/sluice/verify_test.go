package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// vectorFolder holds signed requests with their right outcomes; the catalogue's tests use it too.
const vectorFolder = "../../internal/provider/catalogue/testdata/signatures"

type vector struct {
	ID, Method, URL string
	Secrets         []map[string]string
	Headers         [][2]string
	Body            struct {
		UTF8, Base64 string
		Repeat       string `json:"repeat_base64"`
		Times        int
	}
	Tolerance *int64 `json:"tolerance_s"`
	Now       int64
	Expect    string
	Also      []string
	Require   []string
}

func (v *vector) body(t *testing.T) []byte {
	t.Helper()
	text, times := v.Body.Base64, 1
	if v.Body.Repeat != "" {
		text, times = v.Body.Repeat, v.Body.Times
	}
	if text == "" {
		return []byte(v.Body.UTF8)
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Repeat(raw, times)
}

// args is the command line that judges the vector.
func (v *vector) args(t *testing.T, name, folder string) []string {
	t.Helper()
	var headers strings.Builder
	for _, h := range v.Headers {
		fmt.Fprintf(&headers, "%s: %s\n", h[0], h[1])
	}
	write(t, filepath.Join(folder, "headers"), headers.String())
	write(t, filepath.Join(folder, "body"), string(v.body(t)))
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

func TestVerifyGivesEveryVectorsOutcomeAndExitCode(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(vectorFolder, "*.json"))
	if err != nil || len(paths) < 7 {
		t.Fatalf("%d vector files, %v", len(paths), err)
	}
	folder := t.TempDir()
	judged := 0
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".json")
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var file struct{ Vectors []vector }
		if err := json.Unmarshal(text, &file); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for _, v := range file.Vectors {
			judged++
			code, out, errs := run(t, v.args(t, name, folder)...)
			var got struct {
				Outcome string
				Key     *int
				EventID *string `json:"event_id"`
			}
			if err := json.Unmarshal([]byte(out), &got); err != nil {
				t.Errorf("%s: %v: %q %q", v.ID, err, out, errs)
				continue
			}
			if got.Outcome != v.Expect && !slices.Contains(v.Also, got.Outcome) {
				t.Errorf("%s: %s, want %s or %q", v.ID, got.Outcome, v.Expect, v.Also)
			}
			if held := got.Outcome == "ok"; held != (code == 0) || !held && code != 1 ||
				held != (got.Key != nil) || !held && got.EventID != nil || errs != "" {
				t.Errorf("%s: exit code %d with %s, %q", v.ID, code, out, errs)
			}
		}
	}
	t.Logf("%d vectors", judged)
}
