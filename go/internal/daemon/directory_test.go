package daemon

import (
	"os"
	"path/filepath"
	"testing"

	"sluice/go/internal/store"
)

// Whatever a daemon leaves in its data directory is its own by name, so that a check of it names
// nothing but what others put there.
func TestWhatADaemonLeavesIsItsOwn(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.start().stop()
	for _, o := range owned {
		if !o.folder {
			must(t, os.WriteFile(filepath.Join(s.data, o.name+".new"), nil, 0o600))
		}
	}
	must(t, os.WriteFile(filepath.Join(s.data, "standing.jsonl"), nil, 0o600))
	r, err := store.Check(s.data, nil)
	must(t, err)
	var foreign []string
	for _, name := range r.Others {
		if !Owns(name) {
			foreign = append(foreign, name)
		}
	}
	if len(foreign) != 1 || foreign[0] != "standing.jsonl" {
		t.Errorf("of %q, %q is not its own", r.Others, foreign)
	}
	if len(r.Others) < len(owned) {
		t.Errorf("it left no more than %q", r.Others)
	}
}
