package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/go/internal/event"
	"sluice/go/internal/store"
	"sluice/shm-abi/shmabi"
)

// dataDirectory makes one with three events and gives it, with its store still open.
func dataDirectory(t *testing.T) (dir string, s *store.Store) {
	t.Helper()
	dir = t.TempDir()
	s, err := store.Open(context.Background(), store.Options{Dir: dir})
	must(t, err)
	must(t, s.Settle(context.Background()))
	lane, at := event.LaneID{1}, uint64(0)
	for i := range 3 {
		f, err := shmabi.BuildEvent(shmabi.EventParts{
			Method: "POST", Target: "/hooks", Body: fmt.Appendf(nil, "event %d", i), SourceID: 1,
			ReceivedNS: 1e18, Position: at,
		})
		must(t, err)
		f.C().SetState(uint16(shmabi.StateVerified))
		f.C().SetEventID(event.NewID(lane, at, 1e18))
		next := at + uint64(len(f))
		must(t, s.Append(store.Batch{
			Spans: []event.Span{{Lane: lane, From: at, To: next}}, Frames: [][]byte{f},
		}))
		at = next
	}
	return dir, s
}

func sum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestFsckNamesWhatIsLostAndChangesNothing(t *testing.T) {
	dir, s := dataDirectory(t)
	code, out, errs := run(t, "fsck", dir)
	if code != exitFailed || out != "" || !strings.Contains(errs, "in use by another sluice") ||
		!strings.Contains(errs, "stop it first") {
		t.Errorf("of a living daemon: exit code %d, %q %q", code, out, errs)
	}
	must(t, s.Close())

	code, out, errs = run(t, "fsck", dir)
	if code != exitDone || errs != "" || !strings.Contains(out, ": 4 groups, 3 events, 1 segment,") ||
		!strings.Contains(out, "index: 3 events, at group 3\n") {
		t.Errorf("whole: exit code %d, %q %q", code, out, errs)
	}

	segment := filepath.Join(dir, "journal", "0000000001.seg")
	b, err := os.ReadFile(segment)
	must(t, err)
	at := bytes.Index(b, []byte("event 1"))
	if at < 0 {
		t.Fatalf("%s does not hold the second event", segment)
	}
	b[at] ^= 1
	must(t, os.WriteFile(segment, b, 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "notes\n.txt"), nil, 0o600))
	before := tree(t, dir)
	code, out, errs = run(t, "fsck", dir)
	if code != exitFailed || errs != "" ||
		!strings.Contains(out, `DAMAGED frame: segment 1, file "0000000001.seg", bytes [`) ||
		!strings.Contains(out, "left alone: notes·.txt\n") {
		t.Errorf("damaged: exit code %d, %q %q", code, out, errs)
	}
	code, out, _ = run(t, "fsck", dir, "--json")
	var r fsckShape
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != exitFailed {
		t.Fatalf("exit code %d, %v: %q", code, err, out)
	}
	if !r.Damaged || r.Events != 2 || len(r.Damage) != 1 || r.Damage[0].Kind != "frame" ||
		r.Damage[0].Offset > int64(at) || r.Damage[0].Offset+r.Damage[0].Length <= int64(at) {
		t.Errorf("byte %d is damaged: %s", at, out)
	}
	if after := tree(t, dir); after != before {
		t.Errorf("it was\n%sand is\n%s", before, after)
	}
}

// tree is all files with their contents.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var list strings.Builder
	must(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		fmt.Fprintf(&list, "%s %d %08x\n", path, len(b), sum(b))
		return err
	}))
	return list.String()
}

func TestFsckSaysWhatIsNoDataDirectoryOrOfANewerSluice(t *testing.T) {
	code, out, errs := run(t, "fsck", t.TempDir())
	if code != exitUsage || out != "" || !strings.Contains(errs, "is no data directory of sluice") {
		t.Errorf("an empty folder: exit code %d, %q %q", code, out, errs)
	}
	dir, s := dataDirectory(t)
	must(t, s.Close())
	identity := filepath.Join(dir, "journal", "JOURNAL")
	text, err := os.ReadFile(identity)
	must(t, err)
	text = bytes.Replace(text, []byte("format 1"), []byte("format 9"), 1)
	text = text[:bytes.Index(text, []byte("crc32c"))]
	must(t, os.WriteFile(identity, fmt.Appendf(text, "crc32c %08x\n", sum(text)), 0o600))
	code, out, errs = run(t, "fsck", dir)
	if code != exitFailed || out != "" || !strings.Contains(errs, "written by a newer sluice") {
		t.Errorf("a newer format: exit code %d, %q %q", code, out, errs)
	}
}

func TestFsckSaysHowFarItIs(t *testing.T) {
	dir, s := dataDirectory(t)
	must(t, s.Close())
	var last store.CheckProgress
	r, err := store.Check(dir, func(p store.CheckProgress) { last = p })
	must(t, err)
	if last.JournalTotal != r.Journal.Bytes || last.JournalBytes > last.JournalTotal ||
		last.JournalBytes == 0 || last.IndexRows != r.Index.Rows {
		t.Errorf("at the end it is at %+v of %d bytes", last, r.Journal.Bytes)
	}
	var out strings.Builder
	now := time.Unix(0, 0)
	tell := fsckProgress(&out, func() time.Time { return now })
	for second := range int64(35) {
		now = time.Unix(second, 0)
		if p := (store.CheckProgress{IndexRows: 1e5}); second < 15 {
			tell(p)
		} else {
			tell(store.CheckProgress{IndexRows: 1e5, JournalBytes: second << 20, JournalTotal: 70 << 20})
		}
	}
	want := "index: 100000 rows so far\njournal: 20.0 MiB of 70.0 MiB, 28 %\n" +
		"journal: 30.0 MiB of 70.0 MiB, 42 %\n"
	if out.String() != want {
		t.Errorf("says\n%swant\n%s", &out, want)
	}
}

// An index that a disk refuses to give is not built again by a start, which says the same.
func TestFsckPromisesNoNewIndexForAnUnreadableOne(t *testing.T) {
	for state, want := range map[store.IndexState]string{
		store.IndexUnreadable: "index is unreadable: why; a start is refused by it as well.",
		store.IndexDamaged:    "index is damaged: why; the next start builds it again",
	} {
		var out strings.Builder
		must(t, printFsck(&out, &store.CheckReport{IndexState: state, IndexDetail: "why"}, nil))
		if !strings.Contains(out.String(), want) {
			t.Errorf("of an index that is %s:\n%s", state, &out)
		}
	}
}
