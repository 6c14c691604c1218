package store

import (
	"time"

	"sluice/go/internal/event"
	"sluice/go/internal/store/journal"
	"sluice/shm-abi/shmabi"
)

// Payload is the request of one event as it came: Method, Target, Header(i), Body and Peer are
// views that end with Release. Frame().D() and Frame().C() hold the rest (token, ack
// level, and so on).
type Payload struct {
	shmabi.Event
	lease *journal.Lease
}

// ID names the event.
func (p *Payload) ID() event.ID { return event.ID(p.Frame().C().EventID()) }

// Received is when the request was whole.
func (p *Payload) Received() time.Time { return time.Unix(0, int64(p.Frame().D().ReceivedNS())) }

// Release gives the memory back; views into the payload must not be used any more.
func (p *Payload) Release() { p.lease.Release() }
