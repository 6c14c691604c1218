package main

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	lineMax = 100
	// A longer file is named, not refused: a true state machine may need it.
	fileNoted = 600
	// Nothing written by hand is larger; what is, is data and not looked at.
	fileMax = 1 << 20
)

// rule forbids a pattern. The patterns are written so that they do not match themselves.
type rule struct {
	pattern *regexp.Regexp
	why     string
	source  bool // only in Go and Rust
}

var rules = []rule{
	forbid(`\b(TO[D]O|FIX[M]E|X[X]X|HA[C]K)\b`, "finish it or file it", false),
	forbid(`\b(to[d]o|unimplemente[d])!\(`, "finish it", true),
	forbid(`(?i)\bnot implemented[ ]yet\b|\bfor now[,]`, "finish it or say why", false),
	forbid(`(^|[\s"'\x60=(:,])/(roo[t]|hom[e]|wor[k]|User[s])/`, "a path of one machine", false),
	forbid(`\b(proxy\.golang\.or[g]|crates\.i[o]/|registry\.npmjs\.or[g]|pypi\.or[g])`,
		"a package registry's host", false),
	forbid(`#\[ignor[e]|\bt\.Skip\(\)`, "a test is skipped with its reason or not", true),
	forbid(`time\.Sleep\([0-9]+ \* time\.Secon[d]|thread::sleep\(Duration::from_sec[s]`,
		"wait for the condition, not for the clock", true),
}

func forbid(pattern, why string, source bool) rule {
	return rule{regexp.MustCompile(pattern), why, source}
}

// A name that says nothing about what is inside.
var emptyName = regexp.MustCompile(
	`(?i)(^|/)(utils?|common|helpers?|managers?|misc)(\.[a-z]+)?(/|$)`)

var (
	skippedDirs = []string{
		".git", ".cache", "target", "bin", "node_modules", "sluice-data", "testdata", "results",
	}
	skippedFiles = []string{"Cargo.lock", "go.sum", "LICENSE"}
	textEndings  = []string{
		".go", ".rs", ".md", ".toml", ".yaml", ".yml", ".proto", ".abi", ".sh", ".txt", ".html", "",
	}
)

// checkTree looks at every text file under root and writes a line about sizes to out.
func checkTree(out io.Writer, root string) ([]string, error) {
	var faults []string
	var sizes []int
	documented := map[string]bool{} // folders with Go files: whether one has a package comment
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			if path != root && slices.Contains(skippedDirs, name) {
				return filepath.SkipDir
			}
			return nil
		}
		ending := filepath.Ext(name)
		if !entry.Type().IsRegular() || slices.Contains(skippedFiles, name) ||
			!slices.Contains(textEndings, ending) {
			return nil
		}
		shown, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if len(data) > fileMax || bytes.IndexByte(data, 0) >= 0 {
			return nil
		}
		if emptyName.MatchString(shown) {
			faults = append(faults, shown+": a name that says nothing about what is inside")
		}
		source := ending == ".go" || ending == ".rs"
		if source && generated(data) {
			if ending == ".go" {
				documented[filepath.Dir(shown)] = true
			}
			return nil
		}
		faults = append(faults, checkFile(shown, data, source)...)
		if source {
			lines := bytes.Count(data, []byte("\n"))
			sizes = append(sizes, lines)
			if lines > fileNoted {
				fmt.Fprintf(out, "note: %s has %d lines; does it tell one story?\n", shown, lines)
			}
		}
		if ending == ".go" && !strings.HasSuffix(name, "_test.go") {
			dir := filepath.Dir(shown)
			documented[dir] = documented[dir] || hasPackageComment(data)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for dir, ok := range documented {
		if !ok {
			faults = append(faults, dir+": no package comment that says what it is and is not")
		}
	}
	slices.Sort(faults)
	if len(sizes) > 0 {
		slices.Sort(sizes)
		fmt.Fprintf(out, "tidy: %d source files, median %d lines, longest %d\n",
			len(sizes), sizes[len(sizes)/2], sizes[len(sizes)-1])
	}
	return faults, nil
}

// checkFile holds one file against the rules.
func checkFile(path string, data []byte, source bool) []string {
	var faults []string
	fault := func(line int, format string, args ...any) {
		faults = append(faults, fmt.Sprintf("%s:%d: %s", path, line, fmt.Sprintf(format, args...)))
	}
	for i, line := range strings.Split(string(data), "\n") {
		// A URL cannot be broken.
		n := utf8.RuneCountInString(line)
		if source && n > lineMax && !strings.Contains(line, "://") {
			fault(i+1, "%d characters, at most %d", n, lineMax)
		}
		for _, r := range rules {
			if found := r.pattern.FindString(line); found != "" && (source || !r.source) {
				fault(i+1, "%q: %s", strings.TrimSpace(found), r.why)
			}
		}
	}
	if len(data) > 0 && data[len(data)-1] != '\n' {
		fault(bytes.Count(data, []byte("\n"))+1, "no newline at the end")
	}
	return faults
}

// generated reads the marker that generators leave in the first lines.
func generated(data []byte) bool {
	head := data[:min(len(data), 400)]
	return bytes.Contains(head, []byte("// Code generated ")) ||
		bytes.Contains(head, []byte("@"+"generated"))
}

// hasPackageComment says whether a comment ends on the line above the package clause.
func hasPackageComment(data []byte) bool {
	before := ""
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "package ") {
			return strings.HasPrefix(before, "//") && !strings.HasPrefix(before, "//go:") ||
				strings.HasSuffix(before, "*/")
		}
		before = line
	}
	return false
}
