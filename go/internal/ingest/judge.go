package ingest

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
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
	// Proof is how its requests are proven now. Whoever keeps the secrets may replace it at any time.
	Proof *atomic.Pointer[Proof]
	// Unverified marks its events as taken without a proof.
	Unverified bool
	// Enforce false takes what does not hold as well, and marks it.
	Enforce bool
	// URL is the public URL, for schemes that sign it. Where it has no query, that of a request
	// belongs to it.
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

// Proof is how the requests of a source are proven with the secrets of now. It is not changed once
// it is in use.
type Proof struct {
	// Verifier judges the request. One that takes everything is for `provider: none`.
	Verifier *provider.Verifier
	// Proved is told which of the verifier's secrets has proved a request, and when that came, in ns
	// since 1970. It is called from several goroutines and must be cheap; nil: nobody counts.
	Proved func(secret int, atNS int64)
}

// NewProof is a place that holds a proof.
func NewProof(p Proof) *atomic.Pointer[Proof] {
	place := new(atomic.Pointer[Proof])
	place.Store(&p)
	return place
}

// ErrUnasked says that nobody wants the secret of a handshake now: the request is refused like one
// with a bad signature.
var ErrUnasked = errors.New("nobody asks for a secret now")

// Table is all sources of one config. It is not changed once it is in use.
type Table struct {
	Version uint32
	Sources map[uint32]*Source
}

// Tally counts what became of a source's frames since the start.
type Tally struct {
	Verified, Duplicates, Unauthorized, Answered, Unknown atomic.Uint64
	// Unavailable counts those whose key was not known yet.
	Unavailable atomic.Uint64
	// Unproven counts the verified ones that were taken without a proof, by the outcome of the
	// judgement; OK: their source proves nothing.
	Unproven [event.DoubtMax + 1]atomic.Uint64
	// LastNS is when the last of the verified ones was received, in ns since 1970; 0: none was.
	LastNS atomic.Int64
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
	of         *seat            // of a verified one that settle has not seen yet
	doubt      provider.Outcome // of a verified one: what its proof came to
	response   *provider.Response
}

// judge decides over frames. One belongs to one goroutine.
type judge struct {
	service   *Service
	table     *Table
	seats     map[uint32]*seat
	last      *seat // most frames follow one of the same source
	log       *slog.Logger
	answerMax int // bytes that a reply carries
	request   provider.Request
}

// seat is what a judge has of one source.
type seat struct {
	source   *Source
	tally    *Tally
	proof    *Proof             // of now; nil: there is none
	verifier *provider.Verifier // a clone of the proof's, since it holds state
	heavy    bool
}

// use takes another table up.
func (j *judge) use(t *Table) {
	if j.table != t {
		j.table, j.seats, j.last = t, make(map[uint32]*seat, len(t.Sources)), nil
	}
}

// seat gives what belongs to a frame's source, with the proof of now; nil: the table has no such
// source.
func (j *judge) seat(id uint32) *seat {
	s := j.last
	if s == nil || s.source.ID != id {
		if s = j.seats[id]; s == nil {
			source := j.table.Sources[id]
			if source == nil {
				return nil
			}
			s = &seat{source: source, tally: j.service.Tally(id)}
			j.seats[id] = s
		}
		j.last = s
	}
	if proof := s.source.Proof.Load(); proof != s.proof {
		if s.proof, s.verifier, s.heavy = proof, nil, false; proof != nil {
			s.verifier, s.heavy = proof.Verifier.Clone(), proof.Heavy()
		}
	}
	return s
}

// verify judges a request by the proof of now.
func (s *seat) verify(r *provider.Request) provider.Verdict {
	if s.proof == nil {
		return provider.Verdict{Outcome: provider.Unavailable, Detail: "its secrets are not there"}
	}
	return s.verifier.Verify(r)
}

// frame decides over one frame of a lane, but for what settle does. It depends on nothing that
// another life could not see again, but for the config and the secrets.
func (j *judge) frame(lane event.LaneID, f shmabi.Frame) (verdict, error) {
	e, err := f.Event()
	if err != nil {
		return verdict{}, err
	}
	d := f.D()
	seat := j.seat(d.SourceID())
	if seat == nil {
		if err := e.ValidHeaders(); err != nil {
			return verdict{}, err
		}
		j.service.Tally(d.SourceID()).Unknown.Add(1)
		return verdict{state: shmabi.StateRefused, code: 404}, nil
	}
	source, tally := seat.source, seat.tally
	r := &j.request
	r.Method, r.Target, r.Body = e.Method(), e.Target(), e.Body()
	r.URL = source.publicURL(r.URL[:0], r.Target)
	r.Client = e.Client()
	r.ReceivedNS = int64(d.ReceivedNS())
	r.Headers = r.Headers[:0]
	for i := range e.HeaderCount() {
		name, value := e.Header(i)
		if len(name) == 0 {
			return verdict{}, fmt.Errorf("%w: header %d lies outside its block", shmabi.ErrFrame, i)
		}
		r.Headers = append(r.Headers, provider.Field{Name: name, Value: value})
	}
	found := seat.verify(r)
	if found.Outcome != provider.OK && (source.Enforce || seat.proof == nil) {
		return j.refuse(source, tally, found), nil
	}
	if found.Outcome == provider.OK && found.Secret >= 0 && seat.proof.Proved != nil {
		seat.proof.Proved(found.Secret, r.ReceivedNS)
	}
	if found.Response != nil && found.Outcome == provider.OK {
		return j.respond(source, tally, e.Peer().Addr(), found.Response), nil
	}
	// The data plane lets what looks like a handshake through to a journal that takes nothing. What
	// is none is told at once what all others are told, or it would keep the place of those that are.
	if down := j.service.downNS.Load(); down != 0 && d.AdmittedNS() > down {
		return verdict{state: shmabi.StateRefused, code: 503}, nil
	}
	v := verdict{
		state: shmabi.StateVerified, code: 200, ack: source.Ack, route: source.Route,
		secret: uint16(max(found.Secret, 0)), id: event.NewID(lane, d.Position(), d.ReceivedNS()),
		of: seat, doubt: found.Outcome,
	}
	if v.ack == shmabi.AckDelivered && len(source.Destinations) == 0 {
		v.ack = shmabi.AckDurable // it is where it should be
	}
	if source.OrderKey != nil {
		v.orderKey = source.OrderKey(r)
	}
	if len(found.EventID) > 0 && source.Dedup > 0 {
		v.dedup = DedupKey(found.EventID)
		v.dedupUntil = d.ReceivedNS() + uint64(source.Dedup)
	}
	return v, nil
}

// settle makes the verdict over a frame final: what is durable already is a repeat.
func (j *judge) settle(f shmabi.Frame, v *verdict) {
	if v.of == nil {
		return
	}
	source, tally, received := v.of.source, v.of.tally, int64(f.D().ReceivedNS())
	v.of = nil
	if v.dedup != [16]byte{} {
		if first, ok := j.service.store.Known(source.ID, v.dedup, received); ok {
			*v = j.repeat(source, tally, first)
			return
		}
	}
	if v.doubt != provider.OK || source.Unverified {
		v.flags |= shmabi.VerdictFlagUnverified | shmabi.VerdictFlag(event.DoubtFlags(uint8(v.doubt)))
		tally.Unproven[min(v.doubt, event.DoubtMax)].Add(1)
	}
	tally.Verified.Add(1)
	if last := tally.LastNS.Load(); received > last {
		tally.LastNS.CompareAndSwap(last, received) // another lane's is as good
	}
	if source.Degraded != nil && source.Degraded() {
		v.code, v.flags = 202, v.flags|shmabi.VerdictFlagDegraded
	}
}

// publicURL appends the URL that the sender of a request called; nothing where that is not known.
func (s *Source) publicURL(to, target []byte) []byte {
	to = append(to, s.URL...)
	if query := bytes.IndexByte(target, '?'); query >= 0 && s.URL != "" &&
		!strings.Contains(s.URL, "?") {
		to = append(to, target[query:]...)
	}
	return to
}

// refuse is the verdict where the proof does not hold: 401 whatever is wrong with it, so that a
// stranger learns nothing. Where its key is not known yet, nothing is wrong with it so far.
func (j *judge) refuse(source *Source, tally *Tally, found provider.Verdict) verdict {
	j.log.Debug("refused", "source", source.Name, "outcome", found.Outcome, "detail", found.Detail)
	if found.Outcome == provider.Unavailable {
		tally.Unavailable.Add(1)
		return verdict{state: shmabi.StateRefused, code: 503}
	}
	tally.Unauthorized.Add(1)
	return verdict{state: shmabi.StateRefused, code: 401}
}

// respond is the verdict over a handshake. A secret that it brings is kept before anybody is told.
func (j *judge) respond(source *Source, tally *Tally, peer netip.Addr,
	r *provider.Response) verdict {
	if len(headLines(r.ContentType, r.Headers))+len(r.Body) > j.answerMax {
		return verdict{state: shmabi.StateRefused, code: 503} // the ring is too small for it
	}
	for _, learned := range r.Learned {
		err := errors.ErrUnsupported
		if learn := j.service.learn; learn != nil {
			err = learn(source.ID, peer, learned)
		}
		switch {
		case errors.Is(err, ErrUnasked):
			return j.refuse(source, tally, provider.Verdict{
				Outcome: provider.BadSignature, Detail: err.Error(),
			})
		case err != nil:
			j.log.Error("the secret of a handshake is not kept; its sender is told to come again",
				"source", source.Name, "error", err)
			return verdict{state: shmabi.StateRefused, code: 503}
		}
	}
	tally.Answered.Add(1)
	return verdict{state: shmabi.StateAnswered, code: uint16(r.Status), response: r}
}

// repeat is the verdict over what is durable already.
func (j *judge) repeat(source *Source, tally *Tally, first event.ID) verdict {
	tally.Duplicates.Add(1)
	v := verdict{state: shmabi.StateDuplicate, code: 200, id: first}
	if source.Ack == shmabi.AckDelivered && !j.service.delivered(first) {
		v.code = 202
	}
	return v
}

// DedupKey names the sender's id; never all zero, which means none.
func DedupKey(id []byte) [16]byte {
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
