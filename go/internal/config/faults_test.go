package config

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write what is found as what is expected")

// scenario is one config of a testdata/faults file with the faults it must have:
//
//	=== behaviour
//	dev                        (literal secrets are taken; may be absent)
//	env NAME=value             (any number)
//	file NAME=value            (any number; \n is a line end)
//	--- config
//	…
//	--- faults
//	…                          (`none` when the config is good)
type scenario struct {
	name    string
	world   []string
	config  string
	faults  string
	options Options
}

func readScenarios(t *testing.T, file string) []*scenario {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var scenarios []*scenario
	for _, part := range strings.Split("\n"+string(text), "\n=== ")[1:] {
		head, rest, ok := strings.Cut(part, "\n--- config\n")
		config, faults, ok2 := strings.Cut(rest, "--- faults\n")
		if !ok || !ok2 {
			t.Fatalf("%s: scenario %q has no config or no faults", file, head)
		}
		lines := strings.Split(head, "\n")
		s := &scenario{name: lines[0], world: lines[1:], config: config}
		s.faults = strings.TrimSpace(faults)
		s.build(t)
		scenarios = append(scenarios, s)
	}
	return scenarios
}

func (s *scenario) build(t *testing.T) {
	t.Helper()
	env, files := map[string]string{}, map[string]string{}
	s.options = testOptions(env, files)
	for _, line := range s.world {
		word, rest, _ := strings.Cut(line, " ")
		name, value, _ := strings.Cut(rest, "=")
		value = strings.ReplaceAll(value, `\n`, "\n")
		switch word {
		case "dev":
			s.options.Dev = true
		case "env":
			env[name] = value
		case "file":
			files[name] = value
		default:
			t.Fatalf("scenario %q: %q says nothing", s.name, line)
		}
	}
}

func TestEveryFaultIsReportedWithItsLineAndItsMend(t *testing.T) {
	files, err := filepath.Glob("testdata/faults/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		scenarios := readScenarios(t, file)
		var rewritten strings.Builder
		for _, s := range scenarios {
			found := "none"
			_, err := Parse(filepath.Join(testFolder, "sluice.yaml"), []byte(s.config), s.options)
			var faults Faults
			if errors.As(err, &faults) {
				found = strings.ReplaceAll(faults.Error(), testFolder+"/sluice.yaml", "sluice.yaml")
			} else if err != nil {
				t.Fatalf("%s: an error that is no Faults: %v", s.name, err)
			}
			head := strings.Join(append([]string{s.name}, s.world...), "\n")
			fmt.Fprintf(&rewritten, "=== %s\n--- config\n%s--- faults\n%s\n\n", head, s.config, found)
			if !*rewrite && found != s.faults {
				t.Errorf("%s: %s\nwant:\n%s\ngot:\n%s", file, s.name, s.faults, found)
			}
		}
		if *rewrite {
			text := strings.TrimSuffix(rewritten.String(), "\n")
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}
