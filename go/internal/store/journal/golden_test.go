package journal

import (
	"bytes"
	"flag"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"sluice/go/internal/event"
	"sluice/go/internal/store/vfs"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// The bytes of a journal are a promise to every later version: if this fails, the format changed.
func Test_the_format_has_not_drifted(t *testing.T) {
	fs, clock := vfs.NewMem(), newClock()
	o := options(fs, clock, 42)
	j, _ := settled(t, o)
	b := tagBatch(t, 10, 11)
	b.Config = []byte(`{"config_version":4,"sources":[{"id":1,"name":"github"}]}`)
	b.Outcomes = []event.Outcome{{Seq: event.NewSeq(9, 1), Destination: 3, Kind: event.Retry,
		Attempt: 2, Code: 503, At: 100, Next: 200, Err: "503 Service Unavailable", By: "ops"}}
	b.LaneEnds = []event.LaneID{laneOf(7)}
	b.Rescues = []Rescue{{Seq: event.NewSeq(2, 3), Frame: eventFrame(t, 5, 20)}}
	for _, batch := range []*Batch{b, tagBatch(t, 12)} {
		g, err := j.Append(batch)
		if err != nil {
			t.Fatal(err)
		}
		g.Release()
	}
	first := j.Segments()[0]
	if err := j.Reclaim(); err != nil { // a first group with a table that names a segment
		t.Fatal(err)
	}
	second := j.Segments()[1]
	golden(t, "testdata/first.golden", fs.Dump(dir + "/" + first.File)[:first.End])
	golden(t, "testdata/second.golden", fs.Dump(dir + "/" + second.File)[:second.End])
	golden(t, "testdata/JOURNAL.golden", fs.Dump(dir+"/"+identityName))
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(got, want) {
		return
	}
	at := 0
	for at < min(len(got), len(want)) && got[at] == want[at] {
		at++
	}
	t.Fatalf("%s: %d bytes, want %d; the first difference is at %d", name, len(got), len(want), at)
}

// Outcomes of all kinds, with the flag of a dead letter that blocks.
func Test_the_format_of_outcomes_has_not_drifted(t *testing.T) {
	list := []event.Outcome{
		{Seq: event.NewSeq(9, 1), Destination: 3, Kind: event.Done, Attempt: 1, Code: 200, At: 100},
		{Seq: event.NewSeq(9, 2), Destination: 3, Kind: event.Retry, Attempt: 2, Code: 503, At: 101,
			Next: 200, Err: "503 Service Unavailable"},
		{Seq: event.NewSeq(9, 3), Destination: 3, Kind: event.Dead, Attempt: 16, Code: 410, At: 102,
			Err: "410 Gone"},
		{Seq: event.NewSeq(9, 3), Destination: 4, Kind: event.Dead, Attempt: 1, Code: 410, At: 103,
			Err: "410 Gone", Blocks: true},
		{Seq: event.NewSeq(9, 3), Destination: 4, Kind: event.Replay, At: 104, Next: 300, By: "ops"},
		{Seq: event.NewSeq(9, 3), Destination: 3, Kind: event.Drop, At: 105, Err: "gone", By: "ops"},
		{Seq: event.NewSeq(9, 4), Destination: 4, Kind: event.Skip, At: 106},
	}
	var b []byte
	for i := range list {
		b = appendOutcome(b, &list[i], false)
	}
	golden(t, "testdata/outcomes.golden", b)
	got, err := parseOutcomes(b, nil)
	if err != nil || !slices.Equal(got, list) {
		t.Fatalf("read %+v, %v, wrote %+v", got, err, list)
	}
}

// The golden journal must stay readable by the code of today, byte for byte.
func Test_the_golden_journal_opens(t *testing.T) {
	fs, clock := vfs.NewMem(), newClock()
	for name, as := range map[string]string{"first": "0000000001.seg", "second": "0000000002.seg",
		"JOURNAL": identityName} {
		b, err := os.ReadFile("testdata/" + name + ".golden")
		if err != nil {
			t.Fatal(err)
		}
		fs.Put(dir+"/"+as, b)
	}
	j, r := settled(t, options(fs, clock, 43))
	if r.LastGroup != 3 || len(r.Catalogue) == 0 || r.Lanes[laneOf(1)] != 13 {
		t.Fatalf("%+v", r)
	}
	wantTags(t, j, 10, 11, 5, 12)
}

func FuzzParseGroup(f *testing.F) {
	for _, name := range []string{"first", "second"} {
		b, err := os.ReadFile("testdata/" + name + ".golden")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(b[:BlockSize])
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		b := bytes.Clone(input)
		// The checksum would stop nearly every mutation; make it right to reach what lies behind.
		for _, seal := range []bool{false, true} {
			if h, _, err := parseHeader(b); seal && err == nil && h.length <= int64(len(b)) {
				p := &parsed{header: h, bytes: b[:h.length]}
				if p.parseFrames() == nil {
					putChecksum(b, checksum(h.epoch, b[:h.headLength], func(y func([]byte) bool) {
						for _, frame := range p.frames {
							if !y(frame) {
								return
							}
						}
					}))
				}
			}
			p, err := parseGroup(b)
			if err != nil {
				continue
			}
			p.checkPayloads()
			g := &Group{Number: p.group, Segment: p.segment}
			for i, frame := range p.frames {
				g.addFrame(frame, frame.Kind(), p.at[i], crc32.Checksum(frame[:frameHeader], castagnoli))
			}
			_, _ = g.Outcomes()
			g.Config()
			g.LaneEnds()
			if end := p.at; len(end) > 0 && end[len(end)-1] >= p.length {
				t.Fatalf("frame at %d of a group of %d", end[len(end)-1], p.length)
			}
		}
	})
}

func FuzzIdentity(f *testing.F) {
	f.Add(encodeIdentity([16]byte{1, 2, 3}, 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		if id, err := parseIdentity(b); err == nil && !bytes.Equal(encodeIdentity(id, 1), b) {
			t.Fatalf("%q is taken for journal %x", b, id)
		}
	})
}

func TestChecksumsOfLinesAreJoined(t *testing.T) {
	const seed = 11
	rng := rand.New(rand.NewPCG(seed, 1))
	crc := rng.Uint32()
	for range 100 {
		var lines [frameHeader]byte
		for i := range lines {
			lines[i] = byte(rng.Uint32())
		}
		want := crc32.Update(crc, castagnoli, lines[:])
		if got := joinLines(crc, crc32.Checksum(lines[:], castagnoli)); got != want {
			t.Fatalf("seed %d: joined %#08x, want %#08x", seed, got, want)
		}
		crc = want
	}
}
