package lane

import (
	"fmt"

	"sluice/shm-abi/shmabi"
)

// Reply answers one frame.
type Reply struct {
	Kind        shmabi.Reply
	Code        uint16
	Token       uint64
	Seq         uint32
	EventID     [16]byte
	Position    uint64 // of the frame
	RetryAfterS uint32
	Head        []byte // ReplyInline: header lines, each ended by CRLF
	Body        []byte
}

// ReplyMax is the most that one reply may carry, so that a ring of any size moves on.
func (l *Lane) ReplyMax() int {
	return int(min(l.replyCap/4, shmabi.ReplyInlineMax)) - shmabi.ReplyEntrySize
}

func (l *Lane) replyRoom() (uint64, error) {
	consume := l.header.ReplyConsume()
	if consume < l.replyConsume || consume > l.replyCommit || l.replyCommit-consume > l.replyCap {
		return 0, corrupt("reply_consume", consume)
	}
	l.replyConsume = consume
	return l.replyCap - (l.replyCommit - consume), nil
}

// Reply writes one reply behind those written before; PublishReplies shows them. False: the ring is
// full, try again when the data plane has drained some.
func (l *Lane) Reply(r *Reply) (bool, error) {
	length := (shmabi.ReplyEntrySize + len(r.Head) + len(r.Body) + 63) &^ 63
	if length > l.ReplyMax()+shmabi.ReplyEntrySize {
		return false, fmt.Errorf("reply of %d bytes is over the %d that a ring of %d carries",
			len(r.Head)+len(r.Body), l.ReplyMax(), l.replyCap)
	}
	room, err := l.replyRoom()
	if err != nil {
		return false, err
	}
	if room < uint64(length) {
		if !l.refused {
			l.refused, l.refusedAt = true, l.replyConsume
		}
		return false, nil
	}
	at := l.replyCommit & (l.replyCap - 1)
	e := shmabi.ReplyEntry(l.reply[at : at+shmabi.ReplyEntrySize])
	e.SetLength(uint32(length))
	e.SetKind(uint16(r.Kind))
	e.SetCode(r.Code)
	e.SetToken(r.Token)
	e.SetSeq(r.Seq)
	e.SetFlags(0)
	e.SetHeadLength(uint32(len(r.Head)))
	e.SetBodyLength(uint32(len(r.Body)))
	e.SetEventID(r.EventID)
	e.SetPosition(r.Position)
	e.SetRetryAfterS(r.RetryAfterS)
	rest := l.reply[at+shmabi.ReplyEntrySize:]
	copy(rest[copy(rest, r.Head):], r.Body)
	l.replyCommit += uint64(length)
	return true, nil
}

// PublishReplies shows the replies written so far to the data plane.
func (l *Lane) PublishReplies() { l.header.StoreReplyCommit(l.replyCommit) }
