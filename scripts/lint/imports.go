package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
)

// module is this module's name, the first element of every import path of ours.
const module = "sluice"

// layer is a row of the import table in ARCHITECTURE.md.
type layer struct {
	name     string
	packages []string // each with all below it, which is its family
	imports  []string // names of the layers it may import
	siblings bool     // whether a package may import another family of its own layer
	standard bool     // whether it is held to the standard library
}

var layers = []layer{
	{name: "faces", packages: []string{"shm-abi/shmabi", "proto/sluice/v1"}},
	{name: "pure", siblings: true, standard: true, packages: []string{
		"go/internal/admission", "go/internal/breaker", "go/internal/event",
		"go/internal/faultpoint", "go/internal/provider", "go/internal/retry", "go/internal/rhythm",
	}},
	{name: "adapters", imports: []string{"faces", "pure"}, packages: []string{
		"go/internal/config", "go/internal/dataplane", "go/internal/destination",
		"go/internal/doctor", "go/internal/gameday", "go/internal/gaps", "go/internal/keyfetch",
		"go/internal/keyring",
		"go/internal/lane", "go/internal/listen", "go/internal/observe",
		"go/internal/provider/catalogue",
		"go/internal/share", "go/internal/signal", "go/internal/store", "go/internal/tlsfiles",
	}},
	{name: "services", imports: []string{"faces", "pure", "adapters"}, packages: []string{
		"go/internal/admin", "go/internal/deliver", "go/internal/ingest",
		"go/internal/protect", "go/internal/reconcile", "go/internal/supervise", "go/internal/tune",
	}},
	{name: "daemon", packages: []string{"go/internal/daemon"},
		imports: []string{"faces", "pure", "adapters", "services"}},
	{name: "cmd", packages: []string{"go/cmd"},
		imports: []string{"faces", "pure", "adapters", "services", "daemon"}},
	{name: "e2e", packages: []string{"go/e2e"},
		imports: []string{"faces", "pure", "adapters", "services"}},
	{name: "referee", packages: []string{"bench/referee"}},
	{name: "storebench", packages: []string{"go/storebench"},
		imports: []string{"faces", "pure", "adapters", "referee"}},
	{name: "sim", packages: []string{"go/sim"},
		imports: []string{"faces", "pure", "adapters", "services"}},
	{name: "bench", packages: []string{"bench/run"}, imports: []string{"referee"}},
	{name: "tools", packages: []string{"shm-abi/gen", "scripts/lint", "go/internal/testserver"}},
}

// goPackage is what `go list` says of a package.
type goPackage struct {
	ImportPath string
	Imports    []string
}

func checkImports() ([]string, error) {
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports", "./...")
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return nil, fmt.Errorf("go list: %s", exit.Stderr)
	}
	if err != nil {
		return nil, err
	}
	var packages []goPackage
	decoder := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p goPackage
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return judgeImports(packages), nil
		} else if err != nil {
			return nil, err
		}
		packages = append(packages, p)
	}
}

// judgeImports names every import that the table does not allow.
func judgeImports(packages []goPackage) []string {
	var faults []string
	for _, p := range packages {
		from, family := place(p.ImportPath)
		if from == nil {
			faults = append(faults, p.ImportPath+
				": in no layer; give it one in ARCHITECTURE.md and scripts/lint/imports.go")
			continue
		}
		for _, imported := range p.Imports {
			if why := refuse(from, family, imported); why != "" {
				faults = append(faults, fmt.Sprintf("%s imports %s: %s", p.ImportPath, imported, why))
			}
		}
	}
	return faults
}

// refuse says why a package of this layer may not import that path, or nothing.
func refuse(from *layer, family, imported string) string {
	if imported != module && !strings.HasPrefix(imported, module+"/") {
		first, _, _ := strings.Cut(imported, "/")
		if from.standard && strings.Contains(first, ".") {
			return from.name + " packages use the standard library only"
		}
		return ""
	}
	to, toFamily := place(imported)
	switch {
	case to == nil:
		return "it is in no layer"
	case to == from && (toFamily == family || from.siblings):
		return ""
	case to == from:
		return "one of " + from.name + " never imports another"
	}
	for _, name := range from.imports {
		if name == to.name {
			return ""
		}
	}
	return from.name + " may not import " + to.name
}

// place finds the layer of a package and the entry that put it there: the longest one that fits.
func place(importPath string) (found *layer, longest string) {
	path := strings.TrimPrefix(importPath, module+"/")
	for i := range layers {
		for _, family := range layers[i].packages {
			fits := path == family || strings.HasPrefix(path, family+"/")
			if fits && len(family) > len(longest) {
				found, longest = &layers[i], family
			}
		}
	}
	return found, longest
}
