package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the transcripts in testdata anew")

// TestTranscripts runs the commands of testdata/*.txt and compares all that they print.
//
//	# a note
//	$ sluice COMMAND 'with quoted words'
//	standard output
//	! standard error
//	[exit 1]                  unless it is 0
//
// $DIR is a folder of the test's own, which holds the files of testdata/files.
func TestTranscripts(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d transcripts, %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			folder := t.TempDir()
			if err := os.CopyFS(folder, os.DirFS("testdata/files")); err != nil {
				t.Fatal(err)
			}
			t.Setenv(adminVariable, newWorld(t).serve(t))
			t.Setenv(tokenVariable, "")
			t.Setenv("TEST_SECRET", "It's a Secret to Everybody")
			t.Setenv("TEST_DATABASE", "postgres://sluice:hunter2@127.0.0.1/events")
			got := transcript(t, string(want), folder)
			switch {
			case got == string(want):
			case *rewrite:
				write(t, path, got)
			default:
				t.Errorf("%s is otherwise now (-rewrite takes it over):\n%s", path, firstDifference(
					string(want), got))
			}
		})
	}
}

func transcript(t *testing.T, text, folder string) string {
	t.Helper()
	var out strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		command, isCommand := strings.CutPrefix(line, "$ sluice ")
		if strings.HasPrefix(line, "# ") {
			fmt.Fprintln(&out, line)
		}
		if !isCommand {
			continue
		}
		var o, e bytes.Buffer
		args := words(strings.ReplaceAll(command, "$DIR", folder))
		code := execute(t.Context(), args, strings.NewReader(""), &o, &e)
		fmt.Fprintln(&out, line)
		out.WriteString(stable(o.String(), folder))
		for said := range strings.Lines(stable(e.String(), folder)) {
			out.WriteString("! " + said)
		}
		if code != 0 {
			fmt.Fprintf(&out, "[exit %d]\n", code)
		}
		out.WriteString("\n")
	}
	return out.String()
}

// stable takes out what is another in each run; blanks at the end of a line cannot be reviewed.
func stable(text, folder string) string {
	text = strings.ReplaceAll(text, folder, "$DIR")
	text = strings.ReplaceAll(text, os.Getenv(adminVariable), "$SOCKET")
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return out.String()
}

// words splits a command line at blanks outside of single quotes.
func words(text string) []string {
	var list []string
	var word strings.Builder
	quoted, begun := false, false
	for _, r := range text {
		switch {
		case r == '\'':
			quoted, begun = !quoted, true
		case r == ' ' && !quoted:
			if begun {
				list = append(list, word.String())
			}
			word.Reset()
			begun = false
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	if begun {
		list = append(list, word.String())
	}
	return list
}

func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(w), len(g)) {
		if w[i] != g[i] {
			return fmt.Sprintf("line %d\nwant %q\ngot  %q", i+1, w[i], g[i])
		}
	}
	return fmt.Sprintf("want %d lines, got %d", len(w), len(g))
}
