package ingest

import (
	"time"

	"sluice/go/internal/lane"
	"sluice/go/internal/provider"
	"sluice/shm-abi/shmabi"
)

// entry is a frame between its verdict and the release of its room.
type entry struct {
	from, to uint64
	frame    shmabi.Frame
	token    uint64
	seq      uint32
	verdict  verdict
	replied  bool
	wait     *wait         // its sender waits for the delivery; nil: for what else the verdict says
	leaves   time.Duration // the station; 0: it passed none
}

func (e *entry) stored() bool { return e.verdict.state == shmabi.StateVerified }

// queue holds a lane's entries in lane order. The three marks count entries since the beginning and
// only grow; each stands at the first entry that its worker has not dealt with.
type queue struct {
	entries []entry
	head    int    // entries before it are done with
	base    uint64 // number of entries[head]
	written uint64 // the committer's
	atOnce  uint64 // the replier's, for replies that wait for nothing
	durable uint64 // the replier's, for those that wait for the sync

	durableTo uint64 // lane position

	waits *waits
	late  []*wait // whose answers may leave and whose frames are durable; at most waitsMax
}

func (q *queue) len() int                { return len(q.entries) - q.head }
func (q *queue) end() uint64             { return q.base + uint64(q.len()) }
func (q *queue) at(number uint64) *entry { return &q.entries[q.head+int(number-q.base)] }

// push appends an entry; the front half is moved out of the way when it is all done with.
func (q *queue) push(e entry) {
	if q.head > 0 && len(q.entries) == cap(q.entries) && q.head >= len(q.entries)/2 {
		q.entries = q.entries[:copy(q.entries, q.entries[q.head:])]
		q.head = 0
	}
	q.entries = append(q.entries, e)
}

// take collects what the committer may write next: frames of at most room bytes (or one frame), and
// the position up to which they reach. Frames that are not stored are stepped over. It stops before
// a frame that has not left the station by now; due is when that one does, or 0.
func (q *queue) take(from uint64, frames [][]byte, room int, now time.Duration) (
	taken [][]byte, to uint64, used int, due time.Duration,
) {
	to = from
	for ; q.written < q.end(); q.written++ {
		e := q.at(q.written)
		if e.stored() {
			if e.leaves > now {
				due = e.leaves
				break
			}
			if len(frames) > 0 && used+len(e.frame) > room {
				break
			}
			frames = append(frames, e.frame)
			used += len(e.frame)
		}
		to = e.to
	}
	return frames, to, used, due
}

// reply writes every reply that may leave. It stops where the ring is full and tells so.
func (q *queue) reply(l *lane.Lane) (published, full bool, err error) {
	published, full, err = q.replyLate(l)
	if full || err != nil {
		return published, full, err
	}
	some, full, err := q.replyInOrder(l)
	if published = published || some; full || err != nil {
		return published, full, err
	}
	some, full, err = q.replyLate(l) // those that were decided before they were durable
	return published || some, full, err
}

// replyLate writes the answers of senders that waited for a delivery.
func (q *queue) replyLate(l *lane.Lane) (published, full bool, err error) {
	for len(q.late) > 0 {
		w := q.late[0]
		if ok, err := l.Reply(&w.reply); !ok || err != nil {
			return published, !ok, err
		}
		published = true
		q.waits.end(w)
		q.late[0], q.late = nil, q.late[1:]
	}
	q.late = nil
	return published, false, nil
}

// dropLate is for when nobody reads them.
func (q *queue) dropLate() {
	for _, w := range q.late {
		q.waits.end(w)
	}
	q.late = nil
}

// abandon is for when the lane is gone.
func (q *queue) abandon() {
	q.dropLate()
	for i := range q.entries[q.head:] {
		if w := q.entries[q.head+i].wait; w != nil {
			q.waits.end(w)
		}
	}
}

// replyInOrder writes what waits for the verdict or the sync alone, and sees the frames off whose
// replies wait for more: those keep no room.
func (q *queue) replyInOrder(l *lane.Lane) (published, full bool, err error) {
	for ; q.atOnce < q.end(); q.atOnce++ {
		e := q.at(q.atOnce)
		if e.replied || e.verdict.waitsForDurable() {
			continue
		}
		if ok, err := e.reply(l); !ok || err != nil {
			return published, !ok, err
		}
		published = true
	}
	for q.durable = max(q.durable, q.base); q.durable < q.end(); q.durable++ {
		e := q.at(q.durable)
		if e.to > q.durableTo {
			break
		}
		if e.replied || !e.verdict.waitsForDurable() {
			continue
		}
		if e.wait != nil {
			if e.replied = true; q.waits.store(e.wait) {
				q.late = append(q.late, e.wait)
			}
			continue
		}
		if ok, err := e.reply(l); !ok || err != nil {
			return published, !ok, err
		}
		published = true
	}
	return published, false, nil
}

// settle drops entries from the front whose reply is written (or has no reader) and whose frame is
// durable or not stored, and gives the position up to which room may be given back.
func (q *queue) settle(nobodyReads bool, released uint64) uint64 {
	if nobodyReads {
		q.dropLate()
	}
	n := 0
	for ; n < q.len(); n++ {
		e := &q.entries[q.head+n]
		if (!e.replied && !nobodyReads) || e.to > q.durableTo {
			break
		}
		if e.wait != nil && !e.replied {
			q.waits.end(e.wait)
		}
		released = e.to
		*e = entry{} // lets the answer's body go
	}
	q.head += n
	q.base += uint64(n)
	q.written, q.atOnce = max(q.written, q.base), max(q.atOnce, q.base)
	q.durable = max(q.durable, q.base)
	if q.head == len(q.entries) {
		q.entries, q.head = q.entries[:0], 0
	}
	return released
}

func (e *entry) reply(l *lane.Lane) (bool, error) {
	r := lane.Reply{
		Code: e.verdict.code, Token: e.token, Seq: e.seq,
		EventID: e.verdict.id, Position: e.from,
	}
	switch {
	case e.verdict.queued():
		r.Kind, r.Code = shmabi.ReplyQueued, 202
	case e.verdict.state == shmabi.StateDuplicate:
		r.Kind = shmabi.ReplyDuplicate
	case e.verdict.state == shmabi.StateVerified:
		r.Kind = shmabi.ReplyAccepted
	case e.verdict.state == shmabi.StateAnswered:
		r.Kind = shmabi.ReplyInline
		if answer := e.verdict.response; answer != nil {
			r.Head, r.Body = headLines(answer.ContentType, answer.Headers), answer.Body
		}
	default:
		r.Kind = shmabi.ReplyRefused
		if r.Code == 503 { // it is about this request, and no sign of a slow journal
			r.RetryAfterS = retryAfterMin + uint32(e.from/shmabi.LineSize%retryAfterSpread)
		}
	}
	ok, err := l.Reply(&r)
	e.replied = ok
	return ok, err
}

func headLines(contentType string, fields []provider.Field) []byte {
	var b []byte
	if contentType != "" {
		b = append(b, "Content-Type: "+contentType+"\r\n"...)
	}
	for _, f := range fields {
		b = append(b, f.Name...)
		b = append(b, ": "...)
		b = append(b, f.Value...)
		b = append(b, "\r\n"...)
	}
	return b
}
