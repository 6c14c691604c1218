package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/go/internal/event"
	"sluice/go/storebench/meter"
	"sluice/shm-abi/shmabi"
)

// small is a case that is over at once.
func small(t *testing.T, subject string) meter.Case {
	one, err := buildFrame(512, 0)
	if err != nil {
		t.Fatal(err)
	}
	return meter.Case{
		Subject: subject, Size: 512, Group: 16, Frame: len(one), Segment: 1 << 20,
		Stored: storedBytes(16, len(one), 4096), Duration: 50 * time.Millisecond, Events: 2000,
		Backlog: 256, Dir: t.TempDir(), Pool: t.TempDir(), Keys: true,
	}
}

func TestEverySubjectOfOursMeasures(t *testing.T) {
	subjects := slices.Sorted(maps.Keys(raws))
	for _, s := range ours {
		if s.name != "open" && s.name != "open-fill" {
			subjects = append(subjects, s.name)
		}
	}
	for _, subject := range subjects {
		t.Run(subject, func(t *testing.T) {
			c := small(t, subject)
			if subject == "steady" {
				c.Events, c.Duration = 0, 1100*time.Millisecond
			}
			r, err := measure(c)
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Notes) > 0 && raws[subject] != nil {
				t.Skip(r.Notes)
			}
			if r.Events == 0 || r.Bytes != int64(r.Events)*int64(c.Frame) || r.CPU <= 0 ||
				r.Times.Count() != r.Events/c.Group {
				t.Fatalf("%+v", r)
			}
			if subject == "steady" && (len(r.Seconds) == 0 || r.Probe.Count() == 0) {
				t.Fatalf("%d seconds and %d bare writes were seen", len(r.Seconds), r.Probe.Count())
			}
		})
	}
}

// TestMain lets the test binary be the process that measures a row.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "-row" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestWhatAKilledProcessLeftIsFoundPending(t *testing.T) {
	run, err := newRunner(options{dir: filepath.Join(t.TempDir(), "rows")})
	if err != nil {
		t.Fatal(err)
	}
	c := small(t, "open-fill")
	if _, err := run.measure(t.Context(), planned{c, "open", true}); err != nil {
		t.Fatal(err)
	}
	c.Subject = "open"
	r, err := run.measure(t.Context(), planned{c, "open", true})
	if err != nil {
		t.Fatal(err)
	}
	if r.Events != c.Events || len(r.Notes) > 0 {
		t.Fatalf("%d of %d events wait: %q", r.Events, c.Events, r.Notes)
	}
}

func TestAGroupIsOfDistinctSoundFrames(t *testing.T) {
	f, err := newFrames(100, 8, true)
	if err != nil {
		t.Fatal(err)
	}
	ids, keys := map[event.ID]bool{}, map[[16]byte]bool{}
	end := uint64(0)
	for range 3 * len(f.list) / 8 {
		list, span := f.group(8)
		if span.From != end {
			t.Fatalf("span begins at %d, want %d", span.From, end)
		}
		for _, b := range list {
			frame := shmabi.Frame(b)
			if err := frame.CheckCRC(); err != nil {
				t.Fatal(err)
			}
			end += uint64(len(b))
			ids[event.ID(frame.C().EventID())] = true
			keys[frame.C().DedupKey()] = true
		}
		if span.To != end {
			t.Fatalf("span ends at %d, want %d", span.To, end)
		}
	}
	if want := 3 * len(f.list) / 8 * 8; len(ids) != want || len(keys) != want {
		t.Fatalf("%d ids and %d keys of %d events", len(ids), len(keys), want)
	}
}

func TestRecycledFilesKeepTheirSize(t *testing.T) {
	c := small(t, bareDisk)
	c.Segment = 1<<20 + 4096
	d, err := newRecycled(c, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	b := meter.Noise(300<<10, 9)
	for range 3 * poolFiles * 4 {
		if err := d.write(b); err != nil {
			t.Fatal(err)
		}
	}
	for i := range poolFiles {
		data, err := os.ReadFile(poolFile(c.Pool, i))
		if err != nil {
			t.Fatal(err)
		}
		if int64(len(data)) != c.Segment || !bytes.Equal(data[:len(b)], b) {
			t.Fatalf("file %d has %d bytes, want %d, or was not written", i, len(data), c.Segment)
		}
	}
}

func TestThePlanHasWhatWasAskedFor(t *testing.T) {
	for _, c := range []struct {
		only, want string
		sizes      []int
		groups     []int
	}{
		{"life", "life 1024/64, life 1024/256", nil, nil},
		{"journal,steady", "journal 512/7, raw-direct-dsync 512/7, steady 512/7, raw-direct-dsync 512/7",
			[]int{512}, []int{7}},
		{"raw-direct", "raw-direct 1024/64, raw-direct-dsync 1024/64", []int{1024}, []int{64}},
		{"open", "open-fill 256/1024, open 256/1024", nil, nil},
		{"postgres-insert", "postgres-insert 512/1, postgres-insert 512/16, postgres-insert 512/64",
			[]int{512}, nil},
		{"sqlite", "sqlite 512/1, sqlite 512/16, sqlite 512/64, sqlite 512/256, sqlite 512/1024",
			[]int{512}, nil},
		{"nothing", "", nil, nil},
	} {
		plan, err := newPlan(options{only: words(c.only), sizes: c.sizes, groups: c.groups})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range plan {
			got = append(got, fmt.Sprintf("%s %d/%d", p.Subject, p.Size, p.Group))
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("-only %s: %v, want %s", c.only, got, c.want)
		}
	}
}

func TestNoRoundIsBegunThatTheTimeIsTooShortFor(t *testing.T) {
	for most, want := range map[time.Duration]int{time.Nanosecond: 1, time.Hour: 3} {
		run, err := newRunner(options{dir: filepath.Join(t.TempDir(), "rows")})
		if err != nil {
			t.Fatal(err)
		}
		c := small(t, "raw-grow")
		var rows table
		plan := []planned{{c, "append", false}, {c, "steady", true}}
		if err := rows.fill(t.Context(), run, plan, options{rounds: 3, most: most}); err != nil {
			t.Fatal(err)
		}
		one := rows.rows[key{"steady", c.Subject, c.Size, c.Group}]
		all := rows.rows[key{"append", c.Subject, c.Size, c.Group}]
		// A row is as long as it is planned, or longer.
		if all.Wall < float64(want)*c.Duration.Seconds() || one == nil {
			t.Errorf("-most %v: rows of %v s, want %d of %v", most, all.Wall, want, c.Duration)
		}
		if told := len(rows.left) > 0; told != (want < 3) {
			t.Errorf("-most %v: %q", most, rows.left)
		}
		if err := run.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAPeerThatHangsIsLeftOut(t *testing.T) {
	peer := filepath.Join(t.TempDir(), "peer")
	if err := os.WriteFile(peer, []byte("#!/bin/sh\nexec sleep 3600\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	run, err := newRunner(options{dir: filepath.Join(t.TempDir(), "rows"), peers: peer})
	if err != nil {
		t.Fatal(err)
	}
	run.grace = time.Millisecond
	c := small(t, "sqlite")
	c.Events = 0
	var rows table
	plan := []planned{{c, "peers", false}}
	err = rows.fill(t.Context(), run, plan, options{rounds: 1, most: time.Hour})
	if err != nil || len(rows.left) != 1 || !strings.Contains(rows.left[0], "not over 1ms after") {
		t.Errorf("%q, %v", rows.left, err)
	}
}

func TestThePlanIsHeldToTheDisk(t *testing.T) {
	for _, o := range []options{
		{pending: 100_000_000}, {only: []string{"raw-grow"}, groups: []int{1 << 17}},
	} {
		if _, err := newPlan(o); err == nil {
			t.Errorf("%+v is planned", o)
		}
	}
}
