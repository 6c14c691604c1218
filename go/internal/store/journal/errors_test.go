package journal

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"syscall"
	"testing"
	"time"

	"sluice/go/internal/store/vfs"
)

// callErrors are what calls of a file system may come back with.
var callErrors = []struct {
	name string
	op   vfs.Op
	err  error
}{
	{"the disk is broken", vfs.OpWrite | vfs.OpSync | vfs.OpSyncDir | vfs.OpCreate | vfs.OpOpen |
		vfs.OpRename | vfs.OpRemove | vfs.OpList | vfs.OpPreallocate | vfs.OpTruncate, syscall.EIO},
	{"the disk is full", vfs.OpWrite | vfs.OpSync | vfs.OpSyncDir | vfs.OpCreate | vfs.OpRename |
		vfs.OpPreallocate, syscall.ENOSPC},
	{"no descriptors", vfs.OpCreate | vfs.OpOpen | vfs.OpList | vfs.OpSyncDir, syscall.EMFILE},
	{"mounted again to read only", vfs.OpAll &^ (vfs.OpRead | vfs.OpOpen | vfs.OpList | vfs.OpSpace),
		syscall.EROFS},
	{"short writes", vfs.OpWrite, io.ErrShortWrite},
	{"the size is unknown", vfs.OpSpace, syscall.EIO},
}

// stumble makes a call until it succeeds. A fault lasts for a few tries; once it is over, the next
// try has to succeed.
func (d *drill) stumble(what string, call func() error) {
	d.t.Helper()
	for try := 0; ; try++ {
		if try == 3 {
			d.faulty.Clear("error")
		}
		err := call()
		if err == nil {
			return
		}
		if try == 3 {
			d.t.Fatalf("%s: without a fault: %v", what, err)
		}
	}
}

// script is a life and the beginning of another, with all that a journal does.
func (d *drill) script(arm func()) {
	open := func() {
		d.opens++
		d.stumble("open", func() (err error) {
			var r *Recovery
			// The same faults stay armed over the start.
			o := options(d.faulty, d.clock, d.seed<<16+d.opens)
			o.SegmentSize = 20 << 10
			if d.j, r, err = Open(o); err == nil && len(r.Damage) > 0 {
				d.t.Fatalf("false alarm: %v", r.Damage)
			}
			return err
		})
		d.stumble("settle", d.j.Settle)
	}
	d.options(d.rec, 0) // makes d.faulty
	arm()
	open()
	for i := range 16 {
		b := tagBatch(d.t, d.tag+1, d.tag+2)
		if i%5 == 4 {
			b.Frames[0] = eventFrame(d.t, d.tag+1, 9000)
		}
		tags := offered{d.tag + 1, d.tag + 2}
		d.tag += 2
		d.rec.Note(tags)
		var g *Group
		d.stumble("append", func() (err error) {
			g, err = d.j.Append(b)
			if (err != nil) != errors.Is(err, ErrUnwritable) || d.j.Writable() != (err == nil) {
				d.t.Fatalf("append says %v, the journal is writable: %v", err, d.j.Writable())
			}
			return err
		})
		d.rec.Note(acknowledged{g.Number, tags})
		g.Release()
		switch i {
		case 3, 9:
			d.stumble("prepare", d.j.Prepare)
		case 6, 12:
			d.drop()
			d.stumble("reclaim", d.j.Reclaim)
			d.stumble("prepare", d.j.Prepare)
		case 7:
			d.clock.now = d.clock.now.Add(IdleAfter)
			d.stumble("idle", func() error { _, err := d.j.Idle(); return err })
		case 10:
			if err := d.j.Close(); err != nil && !errors.Is(err, ErrUnwritable) {
				d.t.Fatalf("close: %v", err)
			}
			open()
		}
	}
	abandon(d.j)
}

// One call, or all from one on, comes back with an error: what was acknowledged survives a power
// cut, and everything goes on by itself when the disk is well again.
func Test_an_error_at_any_call_breaks_no_promise(t *testing.T) {
	stride := 2
	if soak() {
		stride = 1
	}
	runs := 0
	for _, e := range callErrors {
		for _, times := range []int{1, 0} {
			count := 0
			for after := 0; after == 0 || after < count; after += stride {
				d := newDrill(t, uint64(runs+1))
				name := fmt.Sprintf("%s, behind call %d, times %d", e.name, after, times)
				d.script(func() {
					fault := vfs.Fault{Op: e.op, Err: e.err, After: after, Times: times}
					if err := d.faulty.Set("error", fault); err != nil {
						t.Fatal(err)
					}
					if err := d.faulty.Set("count", vfs.Fault{Op: e.op}); err != nil {
						t.Fatal(err)
					}
				})
				count = int(d.faulty.Met("count"))
				runs++
				end := d.rec.End()
				p := promisesOf(end.Notes())
				for disk := range end.States(d.rng, 8) {
					if err := d.recovered(disk, p); err != nil {
						t.Fatalf("%s:\n%v%v", name, end, err)
					}
				}
			}
		}
	}
	t.Logf("%d runs", runs)
}

// A disk that stalls delays acknowledgements and nothing else; when it goes on, so do they.
func Test_a_stalled_disk_delays_acknowledgements_alone(t *testing.T) {
	for _, point := range []string{"journal.write", "journal.sync"} {
		mem := vfs.NewMem()
		faulty := vfs.NewFaulty(mem, time.Now, nil)
		bufferedOnly(t, faulty)
		j, _ := settled(t, options(faulty, newClock(), 1))
		g := appendTags(t, j, 1)
		if err := faulty.Set(point, vfs.Fault{Delay: time.Hour}); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() {
			g, err := j.Append(tagBatch(t, 2))
			if err == nil {
				g.Release()
			}
			done <- err
		}()
		for faulty.Met(point) == 0 {
			time.Sleep(time.Millisecond)
		}
		// Everything that is not a group goes on.
		lease, err := j.Read(g.Frames[0].Loc)
		if err != nil {
			t.Fatalf("%s: read: %v", point, err)
		}
		lease.Release()
		wantTags(t, j, 1)
		if _, err := j.Space(); err != nil || j.Durable() != 1 || !j.Writable() {
			t.Fatalf("%s: %v, durable %d, writable %v", point, err, j.Durable(), j.Writable())
		}
		select {
		case err := <-done:
			t.Fatalf("%s: acknowledged by a disk that stands: %v", point, err)
		default:
		}
		faulty.Clear(point)
		if err := <-done; err != nil {
			t.Fatalf("%s: append: %v", point, err)
		}
		wantTags(t, j, 1, 2)
	}
}

// A read that fails anywhere in a start: the start fails, or what it could not read is named, or
// nothing was missing. One that fails once costs nothing.
func Test_a_read_that_fails_is_named_or_costs_nothing(t *testing.T) {
	for _, times := range []int{1, 2} {
		readsThatFail(t, times)
	}
}

func readsThatFail(t *testing.T, times int) {
	m := makeImage(t)
	outcomes := map[string]int{}
	for after := 0; ; after++ {
		mem := vfs.NewMem()
		for name, b := range m.files {
			mem.Put(dir+"/"+name, b)
		}
		faulty := vfs.NewFaulty(mem, time.Now, nil)
		fault := vfs.Fault{Op: vfs.OpRead, Err: syscall.EIO, After: after, Times: times}
		if err := faulty.Set("read", fault); err != nil {
			t.Fatal(err)
		}
		o := options(faulty, newClock(), 9)
		o.SegmentSize, o.Witness.IndexGroup = 20<<10, m.last
		j, _, err := Open(o)
		if err != nil {
			if !errors.Is(err, syscall.EIO) {
				t.Fatalf("read %d: open: %v", after, err)
			}
			outcomes["refused"]++
			continue
		}
		groups := map[uint64]int{}
		err = errors.Join(j.Settle(), j.Replay(0, func(g *Group) error {
			for _, f := range g.Frames {
				if f.Kind == KindEvent && !f.Damaged {
					groups[g.Number]++
				}
			}
			return nil
		}))
		if err != nil && !errors.Is(err, syscall.EIO) {
			t.Fatalf("read %d: %v", after, err)
		}
		lost := lostGroups(j.Damage())
		for number, tags := range m.groups {
			if groups[number] != len(tags) && !slices.Contains(lost, number) && err == nil {
				t.Fatalf("read %d: group %d has %d events of %d, named are %v", after, number,
					groups[number], len(tags), j.Damage())
			}
		}
		met := faulty.Met("read")
		abandon(j)
		switch {
		case met <= uint64(after):
			t.Logf("of %d reads: %v", after, outcomes)
			return
		case len(lost) > 0 && times == 1:
			t.Fatalf("read %d failed once, and %v is given up", after, j.Damage())
		case len(lost) > 0:
			outcomes["named"]++
		default:
			outcomes["harmless"]++
		}
	}
}
