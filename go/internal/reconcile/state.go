package reconcile

import (
	"encoding/json"
	"fmt"
	"path"
	"time"

	"sluice/go/internal/store/vfs"
)

// state is what outlives this process of one source. Times are nanoseconds since 1970; 0: never.
type state struct {
	// Began is when the source was first one to reconcile: a provider that does not say what was
	// delivered is not asked for what is older, unless by hand.
	Began int64 `json:"began_ns"`
	// Done is up to where all was dealt with; Ended is when the last run ended, Failed whether it
	// failed.
	Done   int64 `json:"done_ns"`
	Ended  int64 `json:"ended_ns"`
	Failed bool  `json:"failed,omitempty"`
	// Tried is up to where gaps were looked at.
	Tried int64 `json:"tried_ns"`
	// Run is one that has not ended.
	Run *runState `json:"run,omitempty"`
	// Last is the last one that has.
	Last *Progress `json:"last,omitempty"`
}

// runState is how far a run has come.
type runState struct {
	Since int64 `json:"since_ns"`
	Until int64 `json:"until_ns"`
	Done  int64 `json:"done_ns"` // up to where of it
}

// file keeps the state of one source: it belongs to who runs it.
type file struct {
	whole *vfs.Whole
	state state
}

// openFile reads a source's state; what cannot be read begins anew, which costs work and loses
// nothing.
func openFile(f vfs.FS, dir, source string) (*file, error) {
	out := &file{whole: vfs.NewWhole(f, path.Join(dir, source+".json"))}
	if err := f.MkdirAll(dir); err != nil {
		return out, err
	}
	text, err := out.whole.Read(stateBytesMax)
	if err != nil || text == nil {
		return out, err
	}
	if err := json.Unmarshal(text, &out.state); err != nil {
		out.state = state{}
		return out, fmt.Errorf("how far reconciliation of %s came: %w", source, err)
	}
	return out, nil
}

func (f *file) save() error {
	text, err := json.Marshal(&f.state)
	if err != nil {
		return err
	}
	return f.whole.Write(append(text, '\n'))
}

func timeOf(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}
