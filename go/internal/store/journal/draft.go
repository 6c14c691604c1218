package journal

import (
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"sluice/go/internal/event"
	"sluice/shm-abi/shmabi"
)

// Draft is a group that has no place yet. Frames are copied into it one behind the other, as they
// come; Append adds what the control plane has to say, gives it head, place and checksum, and
// writes it. It keeps its number over all attempts to do that, and its frames until one succeeds:
// what was copied once is never read again, since its memory belongs to another process.
//
// One goroutine at a time may use a draft. Any other call may run meanwhile, an Append of another
// draft too: so the next group is laid out while the one before it is written.
type Draft struct {
	j   *Journal
	buf *Buf // nil: nothing is laid
	// The frames are in buf from head to end, and whatever head they get goes before them.
	head, end int64
	frames    []laid
	lines     uint32 // CRC32C of the lines of all frames, one behind the other
	// Where the frames began and the group ended last time: the next one is often like it.
	lastHead, lastSize int64

	// The rest is Append's.
	number uint64
	time   int64
	idle   bool
	spans  []event.Span
	config []byte // the catalogue among the frames, nil for none
	ended  []event.LaneID
}

// laid is a frame of a draft.
type laid struct {
	length, check uint32 // check is the CRC32C of its lines
	kind          Kind
}

// NewDraft gives an empty draft, which is empty again, and to be used again, when its group is
// durable.
func (j *Journal) NewDraft() *Draft { return &Draft{j: j} }

// Bytes is what the frames take of GroupBytesMax.
func (d *Draft) Bytes() int64 { return d.end - d.head }

// Frames counts them.
func (d *Draft) Frames() int { return len(d.frames) }

// Add lays whole EVENT frames out, all or, with an error, none. ErrBatch: one is none, or was
// changed while it was copied. ErrTooLarge: they do not fit into the group. Whether the payloads
// are sound was judged before `verified`.
func (d *Draft) Add(frames [][]byte) error {
	size := framesSize(frames)
	if err := d.fits(size, len(frames)); err != nil {
		return err
	}
	if err := d.grow(size); err != nil {
		return err
	}
	before := d.mark()
	for i, f := range frames {
		kind, err := d.lay(f)
		if err == nil && kind != KindEvent {
			err = fmt.Errorf("kind %d, want %d", kind, KindEvent)
		}
		if err != nil {
			d.cut(before)
			return fmt.Errorf("%w: frame %d: %w", ErrBatch, i, err)
		}
	}
	return nil
}

// Drop takes all frames out and gives the memory back.
func (d *Draft) Drop() {
	if d.buf != nil {
		d.buf.Release()
	}
	*d = Draft{j: d.j, frames: d.frames[:0]}
}

// handOver gives the memory to the group that is durable. The draft is empty then.
func (d *Draft) handOver(g *Group) {
	d.buf = nil
	d.Drop()
	// A table is in one group of a segment alone.
	d.lastHead, d.lastSize = headSize(len(g.Spans), nil), g.size
}

// fits holds more frames against the bounds of a group. One frame is left free for the catalogue
// that the first group of a segment carries.
func (d *Draft) fits(size int64, frames int) error {
	size, frames = d.Bytes()+size, len(d.frames)+frames
	if (size > GroupBytesMax && frames > 1) || frames >= event.GroupFrames {
		return fmt.Errorf("%w: %d frames of %d bytes", ErrTooLarge, frames, size)
	}
	return nil
}

// reserve makes room for all that a batch will add.
func (d *Draft) reserve(b *Batch) error {
	size := b.Size()
	if err := d.fits(size, len(b.Frames)); err != nil {
		return err
	}
	return d.grow(size)
}

// mark is how far a draft has come.
type mark struct {
	end    int64
	frames int
	lines  uint32
}

func (d *Draft) mark() mark { return mark{d.Bytes(), len(d.frames), d.lines} }

// cut takes out what was laid behind a mark.
func (d *Draft) cut(m mark) {
	d.end, d.frames, d.lines = d.head+m.end, d.frames[:m.frames], m.lines
}

// grow makes room for so many bytes more.
func (d *Draft) grow(size int64) error {
	if d.buf == nil {
		d.head = max(d.lastHead, headSize(2, nil))
		d.end = d.head
		size = max(size, d.lastSize-d.head)
	}
	if need := d.end + size; d.buf == nil || need > int64(len(d.buf.data)) {
		return d.move(d.head, need)
	}
	return nil
}

// move puts the frames behind a head of another size, into a larger buffer if size needs one, or
// a smaller one: what waits for its delivery is kept by its buffers.
func (d *Draft) move(head, size int64) error {
	buf := d.buf
	if buf == nil || size > int64(len(buf.data)) || size <= int64(len(buf.data))/spareShare {
		var err error
		if buf, err = d.j.pool.get(size); err != nil {
			return err
		}
	} else if head == d.head {
		return nil
	}
	end := head + d.Bytes()
	if d.buf != nil {
		copy(buf.data[head:end], d.buf.data[d.head:d.end])
		if buf != d.buf {
			d.buf.Release()
		}
	}
	d.buf, d.head, d.end = buf, head, end
	return nil
}

// spareShare bounds what a buffer may be larger than its group.
const spareShare = 4

// lay copies a frame, for which there is room, and looks at the form of the copy.
func (d *Draft) lay(src []byte) (Kind, error) {
	b := d.buf.data[d.end : d.end+int64(len(src)) : d.end+int64(len(src))]
	copy(b, src)
	f, err := shmabi.ParseFrame(b)
	if err != nil {
		return 0, err
	}
	if len(f) != len(b) {
		return 0, fmt.Errorf("%d bytes hold a frame of %d", len(b), len(f))
	}
	check := crc32.Checksum(f[:frameHeader], castagnoli)
	d.frames = append(d.frames, laid{uint32(len(f)), check, f.Kind()})
	d.lines = joinLines(d.lines, check)
	d.end += int64(len(f))
	return f.Kind(), nil
}

// addOwn lays frames that are no other process's.
func (d *Draft) addOwn(frames ...shmabi.Frame) error {
	if err := d.grow(framesSize(frames)); err != nil {
		return err
	}
	for _, f := range frames {
		if _, err := d.lay(f); err != nil {
			return errors.Join(ErrBatch, err)
		}
	}
	return nil
}

func framesSize[F ~[]byte](frames []F) (size int64) {
	for _, f := range frames {
		size += int64(len(f))
	}
	return size
}

// sizeWith is what the group will take on the disk.
func (d *Draft) sizeWith(t *table) int64 {
	return roundUp(headSize(len(d.spans), t)+d.Bytes(), BlockSize)
}

// seal makes of the draft a group for the end of a segment: with a table, its first one. The draft
// keeps the memory until the group is durable.
func (d *Draft) seal(s *segment, t *table) (*Group, error) {
	head, size := headSize(len(d.spans), t), d.sizeWith(t)
	if err := d.move(head, size); err != nil {
		return nil, err
	}
	h := header{
		format: formatVersion, epoch: s.epoch, segment: s.number, group: d.number, time: d.time,
		length: size, headLength: int(head), spans: len(d.spans), frames: len(d.frames),
		tableLength: t.size(), framesLength: d.Bytes(), journal: d.j.id, block: BlockSize,
	}
	if t != nil {
		h.flags |= flagFirst
	}
	if d.idle {
		h.flags |= flagIdle
	}
	b := d.buf.data[:size]
	clear(b[d.end:])
	encodeHead(b, &h, d.spans, t)
	putChecksum(b, joinFrames(headChecksum(h.epoch, b[:head]), len(d.frames), d.lines))
	g := &Group{
		Number: d.number, Segment: s.number, Time: time.Unix(0, d.time), Idle: d.idle,
		Spans: d.spans, Frames: d.buf.frameList(len(d.frames)), buf: d.buf, begin: s.end, size: size,
	}
	at := head
	for _, f := range d.frames {
		end := at + int64(f.length)
		g.addFrame(shmabi.Frame(b[at:end:end]), f.kind, s.end+at, f.check)
		at = end
	}
	return g, nil
}
