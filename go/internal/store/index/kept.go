package index

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"sluice/go/internal/store/filter"
	"sluice/go/internal/store/thread"
)

// KeptFilter names a file with the filter of the keys that came to a day between two places, so
// that a start need not go through their rows. The meta row of the commit that has the keys names
// it, or one of later: what a crash takes back of the rows it takes back of the names. A file that
// no meta row names is nobody's.
type KeptFilter struct {
	From  Place  `json:"from"`
	To    Place  `json:"to"`
	Bytes int64  `json:"bytes"`
	Sum   uint32 `json:"sum"` // CRC-32C of the file
}

// Place is one between the keys of a day, in the order in which they came.
type Place struct {
	Part uint16 `json:"part"`
	Keys int    `json:"keys"` // of the part, before it
}

func (p Place) compare(q Place) int {
	return cmp.Or(cmp.Compare(p.Part, q.Part), cmp.Compare(p.Keys, q.Keys))
}

// last is the last part with a key before the place.
func (p Place) last() uint16 {
	if p.Keys == 0 && p.Part > 0 {
		return p.Part - 1
	}
	return p.Part
}

func (k *KeptFilter) name(day uint32) string {
	return fmt.Sprintf("%d-%d-%d-%08x", day, k.From.Part, k.From.Keys, k.Sum) + keptSuffix
}

// keptSuffix is of files in the engine's directory that are not the engine's.
const keptSuffix = ".filter"

const (
	// keepBytesMin is the least of a filter that is kept: rows of fewer keys are read in a second.
	keepBytesMin = 4 << 20
	// keepPiece is written and synced at once, so that the journal's own writes need not wait for
	// all of a file.
	keepPiece = 1 << 20
	// keepQueue bounds the filters that wait to be written. What has no room in it is not kept.
	keepQueue = 16
)

// keeper writes filters beside the writer, who learns of it with the next commit.
type keeper struct {
	fs   vfs.FS
	dir  string
	log  *slog.Logger
	jobs chan keepJob
	done sync.WaitGroup
	stop context.CancelFunc

	mu      sync.Mutex // also held while a filter's bytes are copied: they go with the bucket
	changes []keptChange
}

type keepJob struct {
	bucket *bucket
	bytes  []byte // of the bucket's filters
	kept   KeptFilter
	// Instead of all that:
	past    []string      // files of days that are over
	reached chan struct{} // closed when all before is done
}

// keptChange is a filter that is kept now, or that turned out not to be.
type keptChange struct {
	day  uint32
	kept KeptFilter
	gone bool
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func newKeeper(o Options, dir string) *keeper {
	ctx, stop := context.WithCancel(context.Background())
	k := &keeper{
		fs: o.FS, dir: dir, log: o.Log, stop: stop,
		jobs: make(chan keepJob, keepQueue),
	}
	k.done.Go(func() { k.run(ctx) })
	return k
}

// sweep removes the files that no day names, before any is written.
func (k *keeper) sweep(days map[uint32]*DedupDay) error {
	named := map[string]bool{}
	for day, d := range days {
		for i := range d.Kept {
			named[d.Kept[i].name(day)] = true
		}
	}
	list, err := k.fs.List(k.dir)
	if err != nil {
		return fmt.Errorf("list filters: %w", err)
	}
	for _, name := range list {
		if strings.HasSuffix(name, keptSuffix) && !named[name] {
			err = errors.Join(err, k.fs.Remove(filepath.Join(k.dir, name)))
		}
	}
	return err
}

func (k *keeper) run(ctx context.Context) {
	runtime.LockOSThread()
	thread.Yield()
	for job := range k.jobs {
		if ctx.Err() != nil {
			continue // nobody waits for it
		}
		for _, name := range job.past {
			_ = k.fs.Remove(filepath.Join(k.dir, name)) // else the next start does
		}
		if job.reached != nil {
			close(job.reached)
		}
		if job.bucket == nil {
			continue
		}
		if err := k.write(ctx, &job); err != nil && ctx.Err() == nil {
			k.log.Warn("filter of dedup keys is not kept; the next start reads their rows",
				"day", job.bucket.day, "err", err)
		}
	}
}

var errPast = errors.New("the day is past")

// write makes the file of a job durable and tells the writer.
func (k *keeper) write(ctx context.Context, job *keepJob) (err error) {
	err = k.pieces(ctx, job, func(piece []byte) error {
		job.kept.Sum = crc32.Update(job.kept.Sum, castagnoli, piece)
		return nil
	})
	if err != nil {
		return err
	}
	path := filepath.Join(k.dir, job.kept.name(job.bucket.day))
	file, err := k.fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	err = k.pieces(ctx, job, func(piece []byte) error {
		_, err := file.Write(piece)
		return cmp.Or(err, file.Sync())
	})
	if err = errors.Join(err, file.Close()); err == nil {
		err = syncDir(k.fs, k.dir)
	}
	if err != nil {
		return errors.Join(err, k.fs.Remove(path))
	}
	k.tell(keptChange{day: job.bucket.day, kept: job.kept})
	return nil
}

// pieces goes through copies of a filter's bytes.
func (k *keeper) pieces(ctx context.Context, job *keepJob, do func([]byte) error) error {
	piece := make([]byte, keepPiece)
	for from := 0; from < len(job.bytes); from += keepPiece {
		n, err := k.copy(piece, job, from)
		if err := cmp.Or(err, ctx.Err()); err != nil {
			return err
		}
		if err := do(piece[:n]); err != nil {
			return err
		}
	}
	return nil
}

func (k *keeper) copy(piece []byte, job *keepJob, from int) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if job.bucket.gone.Load() {
		return 0, errPast
	}
	return copy(piece, job.bytes[from:]), nil
}

func (k *keeper) tell(c keptChange) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.changes = append(k.changes, c)
}

func (k *keeper) changed() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.changes) > 0
}

// put queues a job if there is room for it.
func (k *keeper) put(job keepJob) {
	select {
	case k.jobs <- job:
	default:
	}
}

// finish waits for what is queued.
func (k *keeper) finish() {
	reached := make(chan struct{})
	k.jobs <- keepJob{reached: reached}
	<-reached
}

// end waits for what is being written.
func (k *keeper) end() {
	k.stop()
	close(k.jobs)
	k.done.Wait()
}

// forget removes the files of a day that is past.
func (k *keeper) forget(day uint32, list []KeptFilter) {
	job := keepJob{}
	for i := range list {
		job.past = append(job.past, list[i].name(day))
	}
	if len(job.past) > 0 {
		k.put(job)
	}
}

// read brings a kept filter into f.
func (k *keeper) read(f *filter.Filter, day uint32, kept *KeptFilter) error {
	file, err := k.fs.Open(filepath.Join(k.dir, kept.name(day)), vfs.SequentialReadsOption)
	if err != nil {
		return err
	}
	err = f.Adopt(kept.Bytes, kept.From.Part, kept.To.last(), func(bytes []byte) error {
		if _, err := io.ReadFull(file, bytes); err != nil {
			return err
		}
		if sum := crc32.Checksum(bytes, castagnoli); sum != kept.Sum {
			return fmt.Errorf("its checksum is %08x, want %08x", sum, kept.Sum)
		}
		return nil
	})
	return errors.Join(err, file.Close())
}

// release gives the memory of a day's filters back, which the keeper may be reading.
func (k *keeper) release(b *bucket) {
	k.mu.Lock()
	defer k.mu.Unlock()
	b.release()
}

// takeKept brings into Meta which filters are kept.
func (x *Index) takeKept() {
	x.keeper.mu.Lock()
	changes := x.keeper.changes
	x.keeper.changes = nil
	x.keeper.mu.Unlock()
	for _, c := range changes {
		d := x.meta.Dedup[c.day]
		if d == nil {
			continue // past
		}
		d.Kept = slices.DeleteFunc(d.Kept, func(k KeptFilter) bool { return k == c.kept })
		if !c.gone {
			d.Kept = append(d.Kept, c.kept)
		}
	}
}

// commitKept writes which filters are kept where no other commit does.
func (x *Index) commitKept() error {
	if x.keeper.changed() {
		return x.Commit()
	}
	return nil
}

// keepFilled queues the chunk before the last one of a bucket's filter, which is full.
func (x *Index) keepFilled(b *bucket, to Place) {
	if n := b.added.Chunks(); n > 1 {
		x.keepChunk(b, b.added.Chunk(n-2), b.began, to)
	}
	b.began = to
}

// keepOpen queues the chunks that are not full, where it is worth the space that they take.
func (x *Index) keepOpen() {
	for _, b := range x.buckets {
		n := b.added.Chunks()
		if n == 0 {
			continue
		}
		if bytes := b.added.Chunk(n - 1); b.added.Room() <= filter.KeysIn(int64(len(bytes)))/2 {
			x.keepChunk(b, bytes, b.began, b.place())
		}
	}
}

func (x *Index) keepChunk(b *bucket, bytes []byte, from, to Place) {
	if int64(len(bytes)) >= x.keepBytes {
		x.keeper.put(keepJob{
			bucket: b, bytes: bytes, kept: KeptFilter{From: from, To: to, Bytes: int64(len(bytes))},
		})
	}
}
