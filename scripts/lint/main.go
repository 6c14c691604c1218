// Command lint holds the tree against the rules that no other tool knows: who may import whom,
// and what CONTRIBUTING.md asks of every file.
//
// It does not format, type-check or look for bugs; gofmt, vet, staticcheck, rustfmt and clippy
// do, and `make lint` runs all of them.
package main

import (
	"fmt"
	"os"
)

const usage = `usage: lint imports | tidy

  imports  the import table of ARCHITECTURE.md, over the Go packages of this module
  tidy     line length, names, words and paths that do not belong here, tests switched off
`

func main() {
	if len(os.Args) != 2 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	var faults []string
	var err error
	switch os.Args[1] {
	case "imports":
		faults, err = checkImports()
	case "tidy":
		faults, err = checkTree(os.Stdout, ".")
	default:
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "lint:", err)
		os.Exit(1)
	}
	for _, fault := range faults {
		fmt.Fprintln(os.Stderr, fault)
	}
	if len(faults) > 0 {
		fmt.Fprintf(os.Stderr, "lint %s: %d faults\n", os.Args[1], len(faults))
		os.Exit(1)
	}
}
