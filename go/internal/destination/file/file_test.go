package file

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sluice/go/internal/destination"
	"sluice/go/internal/event"
)

func request(n int, body string) *destination.Request {
	return &destination.Request{
		EventID: event.NewID(event.LaneID{1}, uint64(n), 1767225945123456789), Source: "github",
		Attempt: 1, Method: "POST", Target: "/hooks/github?a=<b>", Body: []byte(body),
		Headers: []destination.Header{
			{Name: []byte("x-Odd"), Value: []byte("caf\xe9")},
			{Name: []byte("X-odd"), Value: []byte("")},
			{Name: []byte("X-Utf8"), Value: []byte("<\u00e9>")},
		},
		ReceivedNS: 1767225945123456789,
	}
}

func open(t *testing.T, path string) *Destination {
	t.Helper()
	d, err := New(Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func deliver(t *testing.T, d *Destination, r *destination.Request) {
	t.Helper()
	if result := d.Deliver(context.Background(), r); result.Kind != destination.Delivered {
		t.Fatalf("%v: %v", result.Kind, result.Err)
	}
}

// lines reads the file; every line must be whole JSON unless it is in foreign.
func lines(t *testing.T, path string, foreign ...string) []map[string]any {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(data) > 0 && data[len(data)-1] != '\n' {
		t.Errorf("%s ends inside a line", path)
	}
	var list []map[string]any
	for l := range strings.Lines(string(data)) {
		if len(foreign) > 0 && strings.TrimSuffix(l, "\n") == foreign[0] {
			foreign = foreign[1:]
			continue
		}
		var m map[string]any
		if err := json.Unmarshal([]byte(l), &m); err != nil {
			t.Fatalf("line %q: %v", l, err)
		}
		list = append(list, m)
	}
	if len(foreign) > 0 {
		t.Errorf("lines of somebody else are gone: %q", foreign)
	}
	return list
}

func TestALineHoldsTheWholeRequest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.ndjson")
	r := request(1, "\x00\xff body\n")
	deliver(t, open(t, path), r)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"id":"` + r.EventID.String() + `","source":"github",` +
		`"received_at":"2026-01-01T00:05:45.123456789Z","method":"POST",` +
		`"target":"/hooks/github?a=<b>","headers":[["x-Odd",{"base64":"Y2Fm6Q=="}],["X-odd",""],` +
		`["X-Utf8","<é>"]],"body":"AP8gYm9keQo="}` + "\n"
	if string(data) != want {
		t.Errorf("got  %swant %s", data, want)
	}
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
}

func TestEveryByteOfABodyComesBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	d := open(t, path)
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	big := bytes.Repeat(all, 4096)
	for _, body := range [][]byte{nil, all, big} {
		r := request(1, "")
		r.Body, r.Headers = body, nil
		deliver(t, d, r)
	}
	for i, l := range lines(t, path) {
		body, err := base64.StdEncoding.DecodeString(l["body"].(string))
		if err != nil || !bytes.Equal(body, [][]byte{nil, all, big}[i]) {
			t.Errorf("line %d: %d bytes, %v", i, len(body), err)
		}
	}
}

func TestWhatACrashLeftIsHealed(t *testing.T) {
	whole := `{"id":"whole"}` + "\n"
	long := strings.Repeat("x", 64<<10)
	for name, c := range map[string]struct {
		found   string
		lines   int
		foreign []string
	}{
		"nothing":             {"", 1, nil},
		"whole lines":         {whole + whole, 3, nil},
		"a torn line":         {whole + `{"id":"01J`, 2, nil},
		"a torn first line":   {`{"id":"01J`, 1, nil},
		"one byte of a line":  {whole + `{`, 2, nil},
		"zeros":               {whole + strings.Repeat("\x00", 5000), 2, nil},
		"zeros alone":         {strings.Repeat("\x00", 200<<10), 1, nil},
		"a long torn line":    {whole + `{"id":"01J` + strings.Repeat("x", 300<<10), 2, nil},
		"somebody's text":     {"precious", 1, []string{"precious"}},
		"somebody's JSON":     {whole + `{"name":1}`, 2, []string{`{"name":1}`}},
		"a line of 64 KiB":    {whole + long, 2, []string{long}},
		"newline at a border": {"xxxx\n" + strings.Repeat("\x00", 64<<10), 1, []string{"xxxx"}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "f")
			if err := os.WriteFile(path, []byte(c.found), 0o600); err != nil {
				t.Fatal(err)
			}
			deliver(t, open(t, path), request(1, "new"))
			if got := lines(t, path, c.foreign...); len(got) != c.lines {
				t.Errorf("%d lines, want %d", len(got), c.lines)
			}
		})
	}
}

func TestARotationIsFollowed(t *testing.T) {
	dir := t.TempDir()
	path, rotated := filepath.Join(dir, "f"), filepath.Join(dir, "f.1")
	d := open(t, path)
	deliver(t, d, request(1, "a"))
	if err := os.Rename(path, rotated); err != nil {
		t.Fatal(err)
	}
	deliver(t, d, request(2, "b"))
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	deliver(t, d, request(3, "c"))
	if a, c := lines(t, rotated), lines(t, path); len(a) != 1 || len(c) != 1 {
		t.Errorf("%d and %d lines", len(a), len(c))
	}
	if err := os.Truncate(path, 0); err != nil { // as copytruncate does
		t.Fatal(err)
	}
	deliver(t, d, request(4, "d"))
	if got := lines(t, path); len(got) != 1 {
		t.Errorf("%d lines after truncation", len(got))
	}
}

func TestAPlaceThatCannotBeWrittenIsTriedAgain(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "later", "f")
	d := open(t, path)
	r := d.Deliver(context.Background(), request(1, "a"))
	if r.Kind != destination.Retry || !errors.Is(r.Err, os.ErrNotExist) {
		t.Errorf("%v %v", r.Kind, r.Err)
	}
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	deliver(t, d, request(1, "a"))
	if r := open(t, dir).Deliver(context.Background(), request(1, "a")); r.Kind != destination.Retry {
		t.Errorf("a directory: %v", r.Kind)
	}
	if r := open(t, os.DevNull).Deliver(context.Background(), request(1, "a")); r.Kind !=
		destination.Retry {
		t.Errorf("a device: %v", r.Kind)
	}
	if _, err := New(Options{}); err == nil {
		t.Error("no path is taken")
	}
}

// faulty fails where the test says.
type faulty struct {
	handle
	writeMax int   // bytes of the next write that get through; negative: all
	syncErr  error // of the next sync
	noCut    bool
	syncs    *int
	hold     chan struct{} // a sync waits for it
}

func (f *faulty) Write(p []byte) (int, error) {
	if f.writeMax < 0 {
		return f.handle.Write(p)
	}
	n, err := f.handle.Write(p[:f.writeMax])
	f.writeMax = -1
	return n, errors.Join(err, syscall.ENOSPC)
}

func (f *faulty) Sync() error {
	*f.syncs++
	if f.hold != nil {
		<-f.hold
	}
	if err := f.syncErr; err != nil {
		f.syncErr = nil
		return err
	}
	return f.handle.Sync()
}

func (f *faulty) Truncate(size int64) error {
	if f.noCut {
		return syscall.EIO
	}
	return f.handle.Truncate(size)
}

func TestALineThatDidNotFitIsTakenOut(t *testing.T) {
	for _, noCut := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "f")
		d := open(t, path)
		syncs, opens := 0, 0
		d.open = func(path string) (handle, error) {
			h, err := openFile(path)
			if opens++; opens > 1 {
				return h, err
			}
			return &faulty{handle: h, writeMax: 20, noCut: noCut, syncs: &syncs}, err
		}
		r := d.Deliver(context.Background(), request(1, "a"))
		if r.Kind != destination.Retry || !errors.Is(r.Err, syscall.ENOSPC) {
			t.Errorf("%v %v", r.Kind, r.Err)
		}
		deliver(t, d, request(1, "a"))
		if got := lines(t, path); len(got) != 1 {
			t.Errorf("no cut %v: %d lines", noCut, len(got))
		}
		if noCut != (opens == 2) {
			t.Errorf("no cut %v: opened %d times", noCut, opens)
		}
	}
}

func TestAFailedSyncIsNeverTrustedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	d := open(t, path)
	syncs, opens := 0, 0
	d.open = func(path string) (handle, error) {
		opens++
		h, err := openFile(path)
		return &faulty{handle: h, writeMax: -1, syncErr: syscall.EIO, syncs: &syncs}, err
	}
	for i := range 2 {
		r := d.Deliver(context.Background(), request(1, "a"))
		if r.Kind != destination.Retry || !errors.Is(r.Err, syscall.EIO) {
			t.Errorf("attempt %d: %v %v", i, r.Kind, r.Err)
		}
	}
	if opens != 2 {
		t.Errorf("opened %d times: the file of the failed sync was used again", opens)
	}
}

func TestAttemptsShareASync(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	d := open(t, path)
	syncs := 0
	hold := make(chan struct{})
	d.open = func(path string) (handle, error) {
		h, err := openFile(path)
		return &faulty{handle: h, writeMax: -1, hold: hold, syncs: &syncs}, err
	}
	var all sync.WaitGroup
	const events = 50
	for i := range events {
		all.Go(func() {
			if r := d.Deliver(context.Background(), request(i, fmt.Sprint(i))); r.Kind !=
				destination.Delivered {
				t.Error(r.Err)
			}
		})
	}
	// Until all lines are written, the first sync holding.
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		d.mu.Lock()
		written := uint64(0)
		if d.current != nil {
			written = d.current.written.Load()
		}
		d.mu.Unlock()
		if written == events {
			break
		}
		if time.Now().After(deadline) {
			close(hold)
			t.Fatalf("%d of %d lines while a sync holds", written, events)
		}
	}
	close(hold)
	all.Wait()
	if syncs > 2 {
		t.Errorf("%d syncs for %d events", syncs, events)
	}
	if got := lines(t, path); len(got) != events {
		t.Errorf("%d lines", len(got))
	}
}

func TestRotationsUnderLoadLoseNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	d := open(t, path)
	const workers, each = 8, 25
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for i := range each {
				if i == each/2 {
					_ = os.Rename(path, filepath.Join(dir, fmt.Sprintf("f.%d", w)))
				}
				r := d.Deliver(context.Background(), request(w*each+i, "x"))
				if r.Kind != destination.Delivered {
					t.Error(r.Err)
				}
			}
		})
	}
	all.Wait()
	seen := map[string]bool{}
	names, err := filepath.Glob(filepath.Join(dir, "f*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		for _, l := range lines(t, name) {
			seen[l["id"].(string)] = true
		}
	}
	if len(seen) != workers*each {
		t.Errorf("%d of %d events", len(seen), workers*each)
	}
}
