package lane

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/shm-abi/shmabi"
)

// handProducer is the data plane of a script: every rule of its side in plain sight.
type handProducer struct {
	t        *testing.T
	path     string
	file     *os.File
	dead     bool
	capacity uint64
	replyCap uint64

	commit       uint64
	consume      uint64
	replyConsume uint64
	replyStored  uint64
	refusedAt    *uint64
	published    bool
	asleep       bool
	ticket       uint64
	lastRung     uint64
	seq          uint32
	open         map[uint32]bool // requests that wait for an answer
}

func newHandProducer(t *testing.T, path string, capacity, replyCap uint64) *handProducer {
	t.Helper()
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	if err := file.Truncate(int64(shmabi.PageSize + capacity + replyCap)); err != nil {
		t.Fatal(err)
	}
	h := &handProducer{
		t: t, path: path, file: file, capacity: capacity, replyCap: replyCap,
		open: map[uint32]bool{},
	}
	for at, v := range map[int64]uint64{
		shmabi.LaneHeaderLayoutHashOffset:      shmabi.LayoutHash,
		shmabi.LaneHeaderJournalIDOffset:       1,
		shmabi.LaneHeaderBootIDOffset:          2,
		shmabi.LaneHeaderLaneIDOffset:          3,
		shmabi.LaneHeaderRequestCapacityOffset: capacity,
		shmabi.LaneHeaderReplyCapacityOffset:   replyCap,
	} {
		h.words().store(at, v)
	}
	h.words().store(shmabi.LaneHeaderMagicOffset, shmabi.LaneMagic)
	return h
}

// peek is the file, also when the producer is dead and its descriptor gone.
func (h *handProducer) peek() *os.File {
	if h.dead {
		file, err := os.OpenFile(h.path, os.O_RDWR, 0)
		if err != nil {
			h.t.Fatal(err)
		}
		h.t.Cleanup(func() { _ = file.Close() })
		h.file, h.dead = file, false
	}
	return h.file
}

func (h *handProducer) words() *producer { return &producer{t: h.t, file: h.peek()} }

// put writes bytes at a position, around the end of the ring if need be.
func (h *handProducer) put(position uint64, b []byte) {
	h.t.Helper()
	at := position & (h.capacity - 1)
	head := b[:min(uint64(len(b)), h.capacity-at)]
	for _, piece := range []struct {
		at uint64
		b  []byte
	}{{at, head}, {0, b[len(head):]}} {
		if _, err := h.peek().WriteAt(piece.b, int64(shmabi.PageSize+piece.at)); err != nil {
			h.t.Fatal(err)
		}
	}
}

func bodyOf(seq uint32, size int) []byte {
	body := make([]byte, size)
	for i := range body {
		body[i] = byte((int(seq) + i) % 251)
	}
	return body
}

func (h *handProducer) publish(size int) string {
	h.seq++
	f, err := shmabi.BuildEvent(shmabi.EventParts{
		Method: "POST", Target: "/a", Headers: [][2]string{{"Host", "x"}},
		Body: bodyOf(h.seq, size),
		Peer: netip.MustParseAddrPort("192.0.2.1:9"), SourceID: 7, ConfigVersion: 1, Seq: h.seq,
		ReceivedNS: 1, AdmittedNS: 2, Token: uint64(h.seq), Position: h.commit,
	})
	if err != nil {
		h.t.Fatal(err)
	}
	consume := h.words().load(shmabi.LaneHeaderConsumeOffset)
	if consume < h.consume || consume > h.commit {
		h.seq--
		return fmt.Sprintf("wrong: consume = %#x", consume)
	}
	h.consume = consume
	if h.commit-consume+uint64(len(f)) > h.capacity {
		h.seq--
		if h.refusedAt == nil {
			h.refusedAt = &consume
		}
		return fmt.Sprintf("no room for %d bytes: %d of %d used",
			len(f), h.commit-consume, h.capacity)
	}
	// The C line stays as it is: garbage of an older lap.
	h.put(h.commit+shmabi.FrameHeader, f[shmabi.FrameHeader:])
	h.put(h.commit, f[:shmabi.DLineSize])
	at := h.commit
	h.commit += uint64(len(f))
	h.words().store(shmabi.LaneHeaderCommitOffset, h.commit)
	h.published, h.open[h.seq] = true, true
	return fmt.Sprintf("frame %d at %d: %d bytes", h.seq, at, len(f))
}

// turn ends a turn: room of replies back, then the decision to ring.
func (h *handProducer) turn() bool {
	published, freed := h.published, h.replyConsume != h.replyStored
	h.published = false
	if freed {
		h.words().store(shmabi.LaneHeaderReplyConsumeOffset, h.replyConsume)
		h.replyStored = h.replyConsume
	}
	ticket := h.words().load(shmabi.LaneHeaderCPTicketOffset)
	wanted := published || freed && ticket&ticketRoom != 0
	if ticket&ticketAsleep == 0 || !wanted || ticket == h.lastRung {
		return false
	}
	h.lastRung = ticket
	return true
}

func (h *handProducer) sleep(room bool) string {
	refusedAt := h.consume
	if h.refusedAt != nil {
		refusedAt, h.refusedAt = *h.refusedAt, nil
	}
	h.ticket = (h.ticket + ticketNext) &^ (ticketNext - 1)
	word := h.ticket | ticketAsleep
	if room {
		word |= ticketRoom
	}
	h.words().store(shmabi.LaneHeaderDPTicketOffset, word)
	if h.words().load(shmabi.LaneHeaderReplyCommitOffset) != h.replyConsume ||
		room && h.words().load(shmabi.LaneHeaderConsumeOffset) != refusedAt {
		h.nextTicket()
		return asleep(false, h.ticket)
	}
	h.asleep = true
	return asleep(true, word)
}

// wake ends a sleep; a producer that is awake stores nothing.
func (h *handProducer) wake() {
	if h.asleep {
		h.asleep = false
		h.nextTicket()
	}
}

func (h *handProducer) nextTicket() {
	h.ticket = (h.ticket + ticketNext) &^ (ticketNext - 1)
	h.words().store(shmabi.LaneHeaderDPTicketOffset, h.ticket)
}

func (h *handProducer) drain() string {
	var out strings.Builder
	for {
		commit := h.words().load(shmabi.LaneHeaderReplyCommitOffset)
		there := commit - h.replyConsume
		if there > h.replyCap || commit%shmabi.LineSize != 0 {
			fmt.Fprintf(&out, "wrong: reply_commit = %#x\n", commit)
			return out.String()
		}
		if there == 0 {
			break
		}
		at := shmabi.PageSize + h.capacity + h.replyConsume&(h.replyCap-1)
		var line [shmabi.ReplyEntrySize]byte
		if _, err := h.peek().ReadAt(line[:], int64(at)); err != nil {
			h.t.Fatal(err)
		}
		e := shmabi.ReplyEntry(line[:])
		length, body := uint64(e.Length()), uint64(e.BodyLength())
		if length < shmabi.LineSize || length%shmabi.LineSize != 0 || length > there ||
			uint64(e.HeadLength())+body+shmabi.LineSize > length {
			fmt.Fprintf(&out, "wrong: reply length = %#x\n", length)
			return out.String()
		}
		seq := e.Seq()
		switch {
		case !h.open[seq] || e.Token() != uint64(seq):
			fmt.Fprintf(&out, "reply to %d: %d, nobody waits\n", seq, e.Code())
		case body > 0:
			fmt.Fprintf(&out, "reply to %d: %d, body of %d\n", seq, e.Code(), body)
		default:
			fmt.Fprintf(&out, "reply to %d: %d\n", seq, e.Code())
		}
		got := h.ring(h.replyConsume+shmabi.LineSize, body)
		if string(got) != string(bodyOf(seq, len(got))) {
			h.t.Errorf("body of the reply to %d is another one", seq)
		}
		delete(h.open, seq)
		h.replyConsume += length
	}
	if out.Len() == 0 {
		return "nothing"
	}
	return out.String()
}

// ring reads from the reply ring, around its end if need be.
func (h *handProducer) ring(position, length uint64) []byte {
	out := make([]byte, length)
	for i := range out {
		at := int64(shmabi.PageSize + h.capacity + (position+uint64(i))&(h.replyCap-1))
		if _, err := h.peek().ReadAt(out[i:i+1], at); err != nil {
			h.t.Fatal(err)
		}
	}
	return out
}
