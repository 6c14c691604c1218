package ingest

import (
	"crypto/sha256"
	"encoding/binary"
	"sync/atomic"
	"time"

	"sluice/go/internal/event"
	"sluice/go/internal/provider"
	"sluice/shm-abi/shmabi"
)

// Source is how the frames of one source are judged.
type Source struct {
	ID    uint32
	Name  string
	Route uint32 // route version under which its events are delivered
	Ack   shmabi.Ack
	// Verifier judges the request. One that takes everything is for `provider: none`.
	Verifier *provider.Verifier
	// Unverified marks its events as taken without a proof.
	Unverified bool
	// Enforce false takes what does not hold as well, and marks it.
	Enforce bool
	// URL is the public URL, for schemes that sign it.
	URL string
	// Dedup is the window; 0 is off.
	Dedup time.Duration
	// Destinations are those of Route, in the order of the config.
	Destinations []uint32
	// Respond, with AckDelivered: the answer of the first of Destinations is the sender's.
	Respond bool
	// Degraded tells that the breaker of any of Destinations is not closed; nil: never. It is called
	// for each frame, from several goroutines.
	Degraded func() bool
	// OrderKey gives the event's ordering key; nil or 0 is none.
	OrderKey func(*provider.Request) uint64
}

// Table is all sources of one config. It is not changed once it is in use.
type Table struct {
	Version uint32
	Sources map[uint32]*Source
}

// Tally counts what became of a source's frames since the start.
type Tally struct {
	Verified, Duplicates, Unauthorized, Answered, Unknown atomic.Uint64
}

// verdict is the decision over one frame, before it is written down.
type verdict struct {
	state      shmabi.State
	code       uint16
	ack        shmabi.Ack
	flags      shmabi.VerdictFlag
	secret     uint16
	id         event.ID
	dedup      [16]byte
	dedupUntil uint64
	orderKey   uint64
	route      uint32
	response   *provider.Response
}

// knower answers from memory which ids are durable already.
type knower interface {
	Known(source uint32, key [16]byte, at int64) (event.ID, bool)
}

// judge decides over frames. One belongs to one goroutine.
type judge struct {
	table     *Table
	verifiers map[uint32]*provider.Verifier
	known     knower
	delivered func(event.ID) bool
	tally     func(source uint32) *Tally
	refused   func(source *Source, v provider.Verdict)
	answerMax int // bytes that a reply carries
	request   provider.Request
}

// use takes another table up; verifiers hold state, so each judge has its own.
func (j *judge) use(t *Table) {
	if j.table == t {
		return
	}
	j.table = t
	j.verifiers = make(map[uint32]*provider.Verifier, len(t.Sources))
	for id, s := range t.Sources {
		j.verifiers[id] = s.Verifier.Clone()
	}
}

// frame decides over one frame of a lane. It depends on nothing that another life could not see
// again, but for the config and the set of durable ids.
func (j *judge) frame(lane event.LaneID, f shmabi.Frame) (verdict, error) {
	e, err := f.Event()
	if err != nil {
		return verdict{}, err
	}
	if err := e.ValidHeaders(); err != nil {
		return verdict{}, err
	}
	d := f.D()
	source, ok := j.table.Sources[d.SourceID()]
	tally := j.tally(d.SourceID())
	if !ok {
		tally.Unknown.Add(1)
		return verdict{state: shmabi.StateRefused, code: 404}, nil
	}
	r := &j.request
	r.Method, r.Target, r.Body = e.Method(), e.Target(), e.Body()
	r.URL = append(r.URL[:0], source.URL...)
	r.Client = e.Client()
	r.ReceivedNS = int64(d.ReceivedNS())
	r.Headers = r.Headers[:0]
	for i := range e.HeaderCount() {
		name, value := e.Header(i)
		r.Headers = append(r.Headers, provider.Field{Name: name, Value: value})
	}
	found := j.verifiers[source.ID].Verify(r)
	v := verdict{
		state: shmabi.StateVerified, code: 200, ack: source.Ack, route: source.Route,
		secret: uint16(max(found.Secret, 0)),
	}
	if v.ack == shmabi.AckDelivered && len(source.Destinations) == 0 {
		v.ack = shmabi.AckDurable // it is where it should be
	}
	switch {
	case found.Outcome != provider.OK && source.Enforce:
		tally.Unauthorized.Add(1)
		j.refused(source, found)
		return verdict{state: shmabi.StateRefused, code: 401}, nil
	case found.Outcome != provider.OK || source.Unverified:
		v.flags |= shmabi.VerdictFlagUnverified
	}
	if r := found.Response; r != nil && found.Outcome == provider.OK {
		if len(headLines(r.ContentType, r.Headers))+len(r.Body) > j.answerMax {
			return verdict{state: shmabi.StateRefused, code: 503}, nil // the ring is too small for it
		}
		tally.Answered.Add(1)
		return verdict{state: shmabi.StateAnswered, code: uint16(r.Status), response: r}, nil
	}
	v.id = event.NewID(lane, d.Position(), d.ReceivedNS())
	if source.OrderKey != nil {
		v.orderKey = source.OrderKey(r)
	}
	if len(found.EventID) > 0 && source.Dedup > 0 {
		v.dedup = dedupKey(found.EventID)
		v.dedupUntil = d.ReceivedNS() + uint64(source.Dedup)
		if first, ok := j.known.Known(source.ID, v.dedup, int64(d.ReceivedNS())); ok {
			tally.Duplicates.Add(1)
			v := verdict{state: shmabi.StateDuplicate, code: 200, id: first}
			if source.Ack == shmabi.AckDelivered && !j.delivered(first) {
				v.code = 202
			}
			return v, nil
		}
	}
	tally.Verified.Add(1)
	if source.Degraded != nil && source.Degraded() {
		v.code, v.flags = 202, v.flags|shmabi.VerdictFlagDegraded
	}
	return v, nil
}

// dedupKey names the sender's id; never all zero, which means none.
func dedupKey(id []byte) [16]byte {
	sum := sha256.Sum256(id)
	sum[0] |= 1
	return [16]byte(sum[:16])
}

// write puts the verdict into the frame's C line, whole: what an older lap left there is garbage.
func (v *verdict) write(c shmabi.CLine) {
	clear(c)
	c.SetState(uint16(v.state))
	c.SetReplyCode(v.code)
	c.SetAck(uint8(v.ack))
	c.SetFlags(uint8(v.flags))
	c.SetSecretIndex(v.secret)
	c.SetEventID(v.id)
	c.SetDedupKey(v.dedup)
	c.SetDedupUntilNS(v.dedupUntil)
	c.SetOrderKey(v.orderKey)
	c.SetRouteVersion(v.route)
}

// readVerdict takes a final verdict back from its C line. The body of a handshake's answer is not
// there: it is made again from the request, or left empty where the config no longer gives one.
func readVerdict(c shmabi.CLine) verdict {
	return verdict{
		state: shmabi.State(c.State()), code: c.ReplyCode(), ack: shmabi.Ack(c.Ack()),
		flags: shmabi.VerdictFlag(c.Flags()), id: c.EventID(), route: c.RouteVersion(),
	}
}

// waitsForDurable tells whether the reply may leave only after the sync.
func (v *verdict) waitsForDurable() bool {
	return v.state == shmabi.StateVerified && v.ack != shmabi.AckRing
}

// waitsForDelivery tells whether the sender is answered when the event was delivered.
func (v *verdict) waitsForDelivery() bool {
	return v.state == shmabi.StateVerified && v.ack == shmabi.AckDelivered &&
		v.flags&shmabi.VerdictFlagDegraded == 0
}

// queued tells whether the reply is 202. One that should wait for a delivery and leaves without a
// wait is among them.
func (v *verdict) queued() bool {
	switch v.state {
	case shmabi.StateDuplicate:
		return v.code == 202
	case shmabi.StateVerified:
		return v.flags&shmabi.VerdictFlagDegraded != 0 || v.ack == shmabi.AckDelivered
	}
	return false
}

// HashKey turns an ordering key's bytes into the number that frames carry; never 0.
func HashKey(source uint32, key []byte) uint64 {
	h := sha256.New()
	var id [4]byte
	binary.LittleEndian.PutUint32(id[:], source)
	h.Write(id[:])
	h.Write(key)
	return binary.LittleEndian.Uint64(h.Sum(nil)) | 1
}
