package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"
	"time"

	"sluice/go/internal/event"
	"sluice/go/internal/store/vfs"
	"sluice/shm-abi/shmabi"
)

const dir = "data/journal"

// soak tells whether the long forms of the tests were asked for.
func soak() bool { return os.Getenv("SLUICE_SOAK") == "1" }

// eventFrame is the frame of one request: body has the given size and begins with the tag.
func eventFrame(t testing.TB, tag uint64, size int) shmabi.Frame {
	t.Helper()
	body := make([]byte, max(size, 8))
	for i := range body {
		body[i] = byte(tag) + byte(i)
	}
	binary.LittleEndian.PutUint64(body, tag)
	f, err := shmabi.BuildEvent(shmabi.EventParts{
		Method: "POST", Target: "/hooks/test", Headers: [][2]string{{"Host", "localhost"}},
		Body: body, SourceID: 1, ConfigVersion: 1, ReceivedNS: 1_700_000_000_000_000_000 + tag,
		Token: tag, Position: tag,
	})
	if err != nil {
		t.Fatal(err)
	}
	f.C().SetState(uint16(shmabi.StateVerified))
	f.C().SetRouteVersion(1)
	return f
}

// tagOf reads back what eventFrame was given.
func tagOf(frame []byte) uint64 { return shmabi.Frame(frame).D().Token() }

// wallClock is a clock that moves when told.
type wallClock struct{ now time.Time }

func (c *wallClock) Now() time.Time { return c.now }

func newClock() *wallClock { return &wallClock{time.Unix(1_700_000_000, 0)} }

func seeded(seed uint64) func([]byte) {
	rng := rand.New(rand.NewPCG(seed, 7))
	return func(b []byte) {
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
	}
}

func options(fs vfs.FS, clock *wallClock, seed uint64) Options {
	return Options{FS: fs, Dir: dir, SegmentSize: 64 << 10, CacheBytes: 1 << 20,
		Clock: clock.Now, Random: seeded(seed)}
}

func open(t testing.TB, o Options) (*Journal, *Recovery) {
	t.Helper()
	j, r, err := Open(o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() { abandon(j) })
	return j, r
}

// settled opens a journal that is expected to be whole.
func settled(t testing.TB, o Options) (*Journal, *Recovery) {
	t.Helper()
	j, r := open(t, o)
	if len(r.Damage) != 0 {
		t.Fatalf("damage in a whole journal: %v", r.Damage)
	}
	if err := j.Settle(); err != nil {
		t.Fatalf("settle: %v", err)
	}
	return j, r
}

func laneOf(n byte) event.LaneID { return event.LaneID{n, 1} }

// appendTags appends one group with a frame per tag in lane 1, whose positions are the tags.
func appendTags(t testing.TB, j *Journal, tags ...uint64) *Group {
	t.Helper()
	g, err := j.Append(tagBatch(t, tags...))
	if err != nil {
		t.Fatalf("append %v: %v", tags, err)
	}
	t.Cleanup(g.Release)
	return g
}

func tagBatch(t testing.TB, tags ...uint64) *Batch {
	t.Helper()
	b := &Batch{Spans: []event.Span{{Lane: laneOf(1), From: tags[0],
		To: tags[len(tags)-1] + 1}}}
	for _, tag := range tags {
		b.Frames = append(b.Frames, eventFrame(t, tag, 100))
	}
	return b
}

// groupSize is what a batch of frames takes on the disk, behind the first group of a segment.
func groupSize(b *Batch) int64 {
	return roundUp(headSize(len(b.Spans), nil)+framesSize(b.Frames), BlockSize)
}

// tagsIn replays the whole journal.
func tagsIn(t testing.TB, j *Journal) []uint64 {
	t.Helper()
	var tags []uint64
	err := j.Replay(0, func(g *Group) error {
		for _, f := range g.Frames {
			if f.Kind == KindEvent && !f.Damaged {
				tags = append(tags, tagOf(f.Bytes))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatalf("replay: %v", err)
	}
	return tags
}

func wantTags(t testing.TB, j *Journal, want ...uint64) {
	t.Helper()
	if got := tagsIn(t, j); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("the journal holds %v, want %v", got, want)
	}
}

// ioError arms a fault for the next `times` writes of groups.
func ioError(t testing.TB, f *vfs.Faulty, point string, times int) {
	t.Helper()
	if err := f.Set(point, vfs.Fault{Err: syscall.EIO, Times: times}); err != nil {
		t.Fatal(err)
	}
}

// bufferedOnly makes the file system refuse direct writes, as some do.
func bufferedOnly(t testing.TB, f *vfs.Faulty) {
	t.Helper()
	err := f.Set("no direct", vfs.Fault{Op: vfs.OpCreate, Pattern: probeName, Err: syscall.EINVAL})
	if err != nil {
		t.Fatal(err)
	}
}

func isHalted(err error) bool { return errors.Is(err, vfs.ErrHalted) }

func newRand(t testing.TB, seed uint64) *rand.Rand {
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 99))
}

// abandon gives the memory of a journal back whose process is dead, which the kernel would do.
func abandon(j *Journal) {
	if j == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = true
	if j.doubt != nil {
		j.doubt.buf.Release()
		j.doubt = nil
	}
	j.cache.clear()
	j.pool.close()
}
