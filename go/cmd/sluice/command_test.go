package main

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
)

func TestAnAddressIsCalledWithTheTokenOfTheEnvironment(t *testing.T) {
	address := newWorld(t).serveTCP(t, "open sesame")
	t.Setenv(tokenVariable, "open sesame")
	code, out, errs := run(t, "status", "--admin", address)
	if code != 0 || !strings.HasPrefix(out, "ready ") {
		t.Errorf("exit code %d, %q %q", code, out, errs)
	}
	for _, wrong := range []string{"", "open"} {
		t.Setenv(tokenVariable, wrong)
		code, out, errs = run(t, "events", "list", "--admin", address)
		if code != 1 || out != "" || !strings.Contains(errs, tokenVariable) {
			t.Errorf("with token %q: exit code %d, %q %q", wrong, code, out, errs)
		}
	}
}

func TestDoctorFindsItsThingsAndMeasuresAgainstAConfig(t *testing.T) {
	t.Setenv("TEST_SECRET", "x")
	code, out, errs := run(t, "doctor", "--json", "--config", "testdata/files/good.yaml")
	if code != 0 && code != 1 || errs != "" {
		t.Fatalf("exit code %d, %q", code, errs)
	}
	found := map[string]string{}
	for line := range strings.Lines(out) {
		var f struct{ Name, Level, Detail string }
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			t.Fatal(err)
		}
		found[f.Name] = f.Level
		if f.Level == "fail" && code == 0 {
			t.Errorf("%s will not work, and the exit code is 0", f.Name)
		}
	}
	for _, name := range []string{"kernel", "io_uring", "shm_dir", "data_dir", "port 0.0.0.0:8080"} {
		if found[name] == "" {
			t.Errorf("nothing is found about %s", name)
		}
	}
	code, _, errs = run(t, "doctor", "--config", filepath.Join(t.TempDir(), "none.yaml"))
	if code != 2 || !strings.Contains(errs, "none.yaml") {
		t.Errorf("without its config: exit code %d, %q", code, errs)
	}
}

func TestVersionNamesTheBuildAndItsLayout(t *testing.T) {
	code, out, _ := run(t, "version", "--json")
	var v struct{ Version, Revision, Go, Layout string }
	if err := json.Unmarshal([]byte(out), &v); err != nil || code != 0 {
		t.Fatalf("exit code %d, %v: %q", code, err, out)
	}
	if v.Version != version || v.Revision == "" || len(v.Layout) != 16 {
		t.Errorf("the version is %+v", v)
	}
	if code, text, _ := run(t, "version"); code != 0 || !strings.HasPrefix(text, "sluice "+version) {
		t.Errorf("exit code %d, %q", code, text)
	}
}

func TestNoSecretIsEverPrinted(t *testing.T) {
	const secret = "hunter2-in-the-clear"
	folder := t.TempDir()
	write(t, filepath.Join(folder, "h"), "X-Hub-Signature-256: sha256=00\n")
	for _, args := range [][]string{
		{"verify", "github", "--secret", secret, "--headers", filepath.Join(folder, "h")},
		{"verify", "discord", "--secret", secret, "--headers", filepath.Join(folder, "h")},
		{"verify", "github", "--secret", `{"value":` + secret, "--headers", folder + "/h"},
		{"send", "discord", "--secret", secret, "http://127.0.0.1:1/"},
		{"send", "github", "--secret", `{"` + secret, "http://127.0.0.1:1/"},
		{"send", "github", "--secret", secret, "http://127.0.0.1:1/"},
	} {
		code, out, errs := run(t, args...)
		if code == 0 || strings.Contains(out+errs, "hunter2") {
			t.Errorf("%s %s: exit code %d, %q %q", args[0], args[1], code, out, errs)
		}
	}
}

func TestWhatIsHardlyMeantIsLoggedWhenTheDaemonReadsIt(t *testing.T) {
	t.Setenv("TEST_SECRET", "It's a Secret to Everybody")
	t.Setenv("TEST_DATABASE", "postgres://sluice:hunter2@127.0.0.1/events")
	c, err := loadConfig("testdata/files/doubtful.yaml", false)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	logWarnings(c, slog.New(slog.NewTextHandler(&out, nil)))
	if strings.Count(out.String(), "level=WARN") != 2 ||
		!strings.Contains(out.String(), "doubtful.yaml:7: destinations.ledger.postgres") {
		t.Errorf("logged %s", out.String())
	}
}
