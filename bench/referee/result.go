package referee

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// Result is a file of results; what is written to it appears on the terminal too.
type Result struct {
	io.Writer
	file *os.File
}

// Create begins a result. Without a path it is one of bench/results/local, which starts with kind
// and is named for the moment.
func Create(path, kind string) (*Result, error) {
	if path == "" {
		stamp := time.Now().UTC().Format("2006-01-02T150405Z")
		path = filepath.Join("bench", "results", "local", kind+stamp+".txt")
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return &Result{io.MultiWriter(os.Stdout, file), file}, nil
}

// Beside is the path of a file with more of it, as the seconds of a run.
func (r *Result) Beside(what string) string {
	path := r.file.Name()
	return path[:len(path)-len(filepath.Ext(path))] + "." + what + ".txt"
}

// Close ends it and says where it is.
func (r *Result) Close() error {
	_, err := fmt.Fprintf(r, "\nwritten to %s\n", r.file.Name())
	return errors.Join(err, r.file.Close())
}

// Exit ends a benchmark: with 1 when it failed, or when gates were missed and gate says that this
// counts.
func Exit(name string, gate bool, missed int, err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
	if gate && missed > 0 {
		os.Exit(1)
	}
}
