package main

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sluice/go/internal/provider/catalogue"
)

var envReference = regexp.MustCompile(`env:([A-Z0-9_]+)`)

func TestWhatAProviderPageSaysToConfigureIsTaken(t *testing.T) {
	for _, name := range catalogue.Names() {
		scheme, _ := catalogue.Lookup(name)
		text := providerConfig(scheme)
		path := filepath.Join(t.TempDir(), "sluice.yaml")
		write(t, path, text)
		secret := ""
		for _, pair := range pairs { // One of them has the form of this sender's secret.
			for _, match := range envReference.FindAllStringSubmatch(text, -1) {
				t.Setenv(match[1], pair.verify)
				if pair.verify == "" {
					t.Setenv(match[1], pair.send)
				}
			}
			code, out, errs := run(t, "check", path)
			if secret = out + errs; code == 0 {
				secret = ""
				break
			}
		}
		if secret != "" {
			t.Errorf("%s: %s\n%s", name, secret, text)
		}
	}
}

func TestEveryProviderHasALineAndAPage(t *testing.T) {
	code, out, errs := run(t, "providers", "list")
	if code != 0 || errs != "" {
		t.Fatal(errs)
	}
	for _, name := range catalogue.Names() {
		if !strings.Contains(out, "\n"+name+" ") {
			t.Errorf("%s has no line", name)
		}
		code, page, errs := run(t, "providers", "show", name)
		if code != 0 || !strings.Contains(page, "    provider: "+name+"\n") {
			t.Errorf("%s: exit code %d, %s%s", name, code, page, errs)
		}
		_, page, _ = run(t, "providers", "show", name, "--json")
		var told providerPage
		if err := json.Unmarshal([]byte(page), &told); err != nil || told.Name != name {
			t.Errorf("%s: %v: %s", name, err, page)
		}
		scheme, _ := catalogue.Lookup(name)
		if scheme.Contract.Deadline.Known() && !strings.Contains(page, `"fact":"deadline"`) {
			t.Errorf("%s: no deadline in %s", name, page)
		}
		for _, fact := range told.Contract {
			if fact.Source == "" || fact.Value == nil {
				t.Errorf("%s: %+v", name, fact)
			}
		}
	}
}
