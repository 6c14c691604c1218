package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// statesAt gives what the disk may show at the end of a record: for each state its names with the
// first letter of each block.
func statesAt(t *testing.T, r *Recorder, most int) map[string]bool {
	t.Helper()
	shown := map[string]bool{}
	for m := range r.End().States(rand.New(rand.NewPCG(1, 2)), most) {
		var text []string
		for _, name := range m.Names("") {
			b := m.Dump(name)
			letters := ""
			for at := 0; at < len(b); at += memBlock {
				block := b[at:min(at+memBlock, len(b))]
				if letter := string(block[:1]); bytes.Count(block, block[:1]) == len(block) {
					letters += strings.Trim(letter, "\x00")
				} else {
					letters += "~"
				}
			}
			text = append(text, name+"="+letters)
		}
		shown[strings.Join(text, " ")] = true
	}
	return shown
}

func letters(c string) []byte { return bytes.Repeat([]byte(c), memBlock) }

func noError(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, f File, text string, block int64) {
	t.Helper()
	_, err := f.WriteAt(letters(text), block*memBlock)
	noError(t, err)
}

func Test_all_states_of_a_power_cut_are_built(t *testing.T) {
	r := Record(NewMem())
	f := create(t, r, "f", 0)
	put(t, f, "a", 0)
	put(t, f, "a", 1)
	noError(t, f.Sync(), r.SyncDir("."))
	put(t, f, "b", 0)
	put(t, f, "b", 1)
	got := statesAt(t, r, 64)
	for _, want := range []string{"f=aa", "f=ab", "f=ba", "f=bb"} {
		if !got[want] {
			t.Errorf("%s is not among %v", want, slices.Collect(maps.Keys(got)))
		}
	}
	torn := 0
	for state := range got {
		if strings.Contains(state, "~") {
			torn++
		}
	}
	if torn == 0 {
		t.Error("no block is torn")
	}
	noError(t, f.Sync())
	if got := statesAt(t, r, 64); len(got) != 1 || !got["f=bb"] {
		t.Errorf("after the sync: %v", got)
	}
}

func Test_names_are_lost_until_their_directory_is_synced(t *testing.T) {
	r := Record(NewMem())
	f := create(t, r, "new", 0)
	put(t, f, "n", 0)
	noError(t, f.Sync())
	if got := statesAt(t, r, 64); len(got) != 2 || !got[""] || !got["new=n"] {
		t.Errorf("a file without a sync of its directory: %v", got)
	}
	noError(t, r.SyncDir("."), r.Rename("new", "name"))
	if got := statesAt(t, r, 64); len(got) != 2 || !got["new=n"] || !got["name=n"] {
		t.Errorf("a rename: %v", got)
	}
	noError(t, r.SyncDir("."), r.Remove("name"))
	if got := statesAt(t, r, 64); len(got) != 2 || !got["name=n"] || !got[""] {
		t.Errorf("a removal: %v", got)
	}
}

func Test_a_direct_write_is_cut_in_the_middle_and_durable_behind(t *testing.T) {
	r := Record(NewMem())
	f := create(t, r, "f", Direct)
	noError(t, f.Preallocate(memBlock), f.Sync(), r.SyncDir("."))
	put(t, f, "d", 0)
	r.ops = r.ops[:len(r.ops)-1] // the record ends inside the write
	if got := statesAt(t, r, 64); !got["f="] || !got["f=d"] {
		t.Errorf("inside the write: %v", got)
	}
	put(t, f, "e", 0)
	if got := statesAt(t, r, 64); len(got) != 1 || !got["f=e"] {
		t.Errorf("behind it: %v", got)
	}
}

func Test_a_record_repeats_what_failed(t *testing.T) {
	for seed := range uint64(50) {
		m := NewMem()
		m.Seed(seed)
		m.SetCapacity(8 * memBlock)
		r := Record(m)
		faulty := NewFaulty(r, nil, nil)
		f := create(t, faulty, "f", []Flag{0, Direct}[seed%2])
		noError(t, f.Preallocate(4*memBlock), f.Sync())
		fault := Fault{Op: OpWrite | OpSync, Err: syscall.EIO, After: 1, Times: 2}
		noError(t, faulty.Set("f", fault))
		for i := range int64(12) { // the last ones meet a full disk
			_, _ = f.WriteAt(letters(fmt.Sprint(i%10)), i%10*memBlock)
			_ = f.Sync()
		}
		if end := r.End(); !bytes.Equal(end.Killed().Dump("f"), m.Dump("f")) {
			t.Fatalf("seed %d: the record ends with other bytes:\n%v", seed, end)
		}
	}
}

func Test_notes_are_known_at_later_cuts(t *testing.T) {
	r := Record(NewMem())
	create(t, r, "f", 0)
	r.Note("promise")
	create(t, r, "g", 0)
	var known []int
	for cut := range r.Cuts() {
		known = append(known, len(cut.Notes()))
	}
	if !slices.Equal(known, []int{0, 0, 1, 1}) {
		t.Errorf("notes at the cuts: %v", known)
	}
}
