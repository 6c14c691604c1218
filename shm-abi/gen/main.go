// Command gen turns layout.abi into its Rust and Go face, with compile-time size and offset checks,
// the layout hash and one golden image a struct.
//
// It knows nothing of what the words mean; the protocol lives in the two lane packages.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	root := flag.String("root", "shm-abi", "directory that holds layout.abi")
	flag.Parse()
	if err := run(*root); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run(root string) error {
	text, err := os.ReadFile(filepath.Join(root, "layout.abi"))
	if err != nil {
		return err
	}
	layout, err := parse(string(text))
	if err != nil {
		return err
	}
	golang, err := emitGo(layout)
	if err != nil {
		return err
	}
	files := map[string][]byte{
		"shmabi/layout.go":      golang,
		"shmabi/layout_test.go": emitGoTest(layout),
		"rust/src/layout.rs":    emitRust(layout),
	}
	for _, s := range layout.structs {
		files["testdata/image/"+snake(s.name)+".hex"] = image(s)
	}
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
