package main

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"
)

// key names one row of the result.
type key struct {
	subject     string
	body        int
	connections int
}

func (k key) String() string {
	return fmt.Sprintf("%s, %d bytes, %d connections", k.subject, k.body, k.connections)
}

var subjects = []string{
	"ring", "durable", "nethttp-hmac", "nethttp-fsync", "nethttp-group", "nethttp-postgres",
	"nethttp-copy", "rawdisk",
}

// readScenario reads lines of `SUBJECT BODY CONNECTIONS`; `#` begins a comment.
func readScenario(path string) ([]key, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var plan []key
	lines := bufio.NewScanner(f)
	for at := 1; lines.Scan(); at++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		if strings.TrimSpace(text) == "" {
			continue
		}
		var k key
		if _, err := fmt.Sscan(text, &k.subject, &k.body, &k.connections); err != nil {
			return nil, fmt.Errorf("%s:%d: SUBJECT BODY CONNECTIONS is wanted: %w", path, at, err)
		}
		if !slices.Contains(subjects, k.subject) {
			return nil, fmt.Errorf("%s:%d: no subject %q; known are %s",
				path, at, k.subject, strings.Join(subjects, ", "))
		}
		if k.body < 1 || k.connections < 1 {
			return nil, fmt.Errorf("%s:%d: body and connections start at 1", path, at)
		}
		if slices.Contains(plan, k) {
			return nil, fmt.Errorf("%s:%d: %s is there already", path, at, k)
		}
		plan = append(plan, k)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(plan) == 0 {
		return nil, fmt.Errorf("%s: nothing to measure in it", path)
	}
	return plan, nil
}
