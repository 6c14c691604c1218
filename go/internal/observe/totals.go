package observe

import (
	"github.com/prometheus/client_golang/prometheus"

	"sluice/shm-abi/shmabi"
)

// Counters are the words of one data plane, for reading.
type Counters interface {
	WorkerCount() int
	SourceCount() int
	Worker(i int) shmabi.WorkerCounters
	Source(worker, slot int) shmabi.SourceCounters
	Inflight() uint64
	Held() uint64
	Connections() uint64
}

// Slot is the source that a slot of the counters stands for. Once used, a slot keeps its name as
// long as its data plane lives.
type Slot struct{ Name, Priority string }

// plane is one data plane that may be read.
type plane struct {
	generation uint32
	counters   Counters
	slot       func(int) (Slot, bool)
}

// Attach begins to read a data plane's counters; slot names the sources, and may learn of new ones.
func (m *Metrics) Attach(generation uint32, c Counters, slot func(int) (Slot, bool)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.planes = append(m.planes, plane{generation, c, slot})
}

// Detach takes the last values of a data plane over and reads it no more: its counters may be
// unmapped when this returns.
func (m *Metrics) Detach(generation uint32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	kept := m.planes[:0:0]
	for _, p := range m.planes {
		if p.generation == generation {
			m.past.add(p)
		} else {
			kept = append(kept, p)
		}
	}
	m.planes = kept
}

// read sums over all data planes there are and were.
func (m *Metrics) read() (all totals, inflight, held, connections uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all = m.past.clone()
	all.kept = 0 // the dead keep nothing
	for _, p := range m.planes {
		all.add(p)
		inflight += p.counters.Inflight()
		held += p.counters.Held()
		connections += p.counters.Connections()
	}
	return all, inflight, held, connections
}

// totals are sums over workers and data planes.
type totals struct {
	workers   [len(workerWords)]uint64
	requests  uint64
	kept      uint64 // bytes; of those that live
	doorbells uint64 // rung in either direction
	turnMax   uint64
	drops     uint64
	classes   [len(Classes)]classTotals
	// sources are by name: a source that the config dropped and has again is the same one.
	sources map[string]*sourceTotals
}

type classTotals struct{ offered, admitted, held, shed uint64 }

type sourceTotals struct {
	priority string // the last one it had
	codes    [len(codeWords)]uint64
	sheds    [len(shedWords)]uint64
	ackSum   uint64
	acks     [shmabi.LatencyBuckets]uint64
	holds    [shmabi.HoldBuckets]uint64
	holdSum  uint64

	repeats, overShare, floored uint64
}

func newTotals() totals { return totals{sources: map[string]*sourceTotals{}} }

func (t *totals) clone() totals {
	c := *t
	c.sources = make(map[string]*sourceTotals, len(t.sources))
	for name, sums := range t.sources {
		copied := *sums
		c.sources[name] = &copied
	}
	return c
}

func (t *totals) source(s Slot) *sourceTotals {
	sums := t.sources[s.Name]
	if sums == nil {
		sums = &sourceTotals{}
		t.sources[s.Name] = sums
	}
	sums.priority = s.Priority
	return sums
}

func (t *totals) add(p plane) {
	for i := range p.counters.WorkerCount() {
		words := p.counters.Worker(i)
		for w := range workerWords {
			t.workers[w] += workerWords[w].read(words)
		}
		t.requests += words.Requests()
		t.doorbells += words.Rings() + words.Wakes()
		t.turnMax = max(t.turnMax, words.TurnNSMax())
		t.kept += words.KeptBytes()
		t.drops += words.Drops()
		for class := range t.classes {
			c := &t.classes[class]
			c.offered += words.ClassOffered(class)
			c.admitted += words.ClassAdmitted(class)
			c.held += words.ClassHeld(class)
			c.shed += words.ClassShed(class)
		}
	}
	for slot := range p.counters.SourceCount() {
		name, used := p.slot(slot)
		if !used {
			continue
		}
		sums := t.source(name)
		for i := range p.counters.WorkerCount() {
			sums.add(p.counters.Source(i, slot))
		}
	}
}

func (s *sourceTotals) add(words shmabi.SourceCounters) {
	for i := range codeWords {
		s.codes[i] += codeWords[i].read(words)
	}
	for i := range shedWords {
		s.sheds[i] += shedWords[i].read(words)
	}
	for i := range s.acks {
		s.acks[i] += words.AckBucket(i)
	}
	s.ackSum += words.AckSumNS()
	for i := range s.holds {
		s.holds[i] += words.HoldBucket(i)
	}
	s.holdSum += words.HoldSumNS()
	s.repeats += words.Repeats()
	s.overShare += words.OverShare()
	s.floored += words.Floored()
}

type sourceWord struct {
	label string
	read  func(shmabi.SourceCounters) uint64
}

var codeWords = [...]sourceWord{
	{"2xx", shmabi.SourceCounters.Code2xx},
	{"400", shmabi.SourceCounters.Code400},
	{"401", shmabi.SourceCounters.Code401},
	{"403", shmabi.SourceCounters.Code403},
	{"404", shmabi.SourceCounters.Code404},
	{"405", shmabi.SourceCounters.Code405},
	{"408", shmabi.SourceCounters.Code408},
	{"413", shmabi.SourceCounters.Code413},
	{"429", shmabi.SourceCounters.Code429},
	{"431", shmabi.SourceCounters.Code431},
	{"503", shmabi.SourceCounters.Code503},
	{"other", shmabi.SourceCounters.CodeOther},
}

var shedWords = [...]sourceWord{
	{"hold", shmabi.SourceCounters.ShedHold},
	{"held_full", shmabi.SourceCounters.ShedHeldFull},
	{"lane", shmabi.SourceCounters.ShedLane},
	{"rate", shmabi.SourceCounters.ShedRate},
	{"journal", shmabi.SourceCounters.ShedJournal},
	{"stopping", shmabi.SourceCounters.ShedStopping},
	{"budget", shmabi.SourceCounters.ShedBudget},
	{"class", shmabi.SourceCounters.ShedClass},
}

type workerWord struct {
	desc *prometheus.Desc
	read func(shmabi.WorkerCounters) uint64
}

func workerTotal(name, help string, read func(shmabi.WorkerCounters) uint64) workerWord {
	return workerWord{prometheus.NewDesc("webhook_dataplane_"+name, help, nil, nil), read}
}

var workerWords = [...]workerWord{
	workerTotal("connections_accepted_total", "Connections taken from the listeners.",
		shmabi.WorkerCounters.Accepted),
	workerTotal("connections_closed_total", "Connections that ended.",
		shmabi.WorkerCounters.Closed),
	workerTotal("connections_refused_total", "Connections over max_connections.",
		shmabi.WorkerCounters.RefusedConnections),
	workerTotal("tls_handshakes_total", "TLS handshakes that were completed.",
		shmabi.WorkerCounters.TLSHandshakes),
	workerTotal("tls_resumed_total", "TLS handshakes that a ticket has shortened.",
		shmabi.WorkerCounters.TLSResumed),
	workerTotal("tls_failed_total", "TLS handshakes that were broken off, the late ones included.",
		shmabi.WorkerCounters.TLSFailed),
	workerTotal("tls_late_total", "TLS handshakes that were not done within handshake_timeout.",
		shmabi.WorkerCounters.TLSLate),
	workerTotal("tls_held_total", "TLS handshakes that waited for handshake_rate.",
		shmabi.WorkerCounters.TLSHeld),
	workerTotal("proxy_refused_total",
		"Connections without the PROXY header that their peer owes, or with a wrong one.",
		shmabi.WorkerCounters.ProxyRefused),
	workerTotal("too_slow_total", "Requests that did not come in time (408).",
		shmabi.WorkerCounters.TooSlow),
	workerTotal("receive_memory_refused_total", "Requests that found no room in receive_memory.",
		shmabi.WorkerCounters.KeptRefused),
	workerTotal("requests_total", "Requests whose head was parsed.",
		shmabi.WorkerCounters.Requests),
	workerTotal("malformed_total", "Requests that were not HTTP as it must be.",
		shmabi.WorkerCounters.Malformed),
	workerTotal("unrouted_total", "Answers to requests that no source takes.",
		shmabi.WorkerCounters.Unrouted),
	workerTotal("frames_total", "Frames written into the lanes.",
		shmabi.WorkerCounters.Frames),
	workerTotal("frame_bytes_total", "Bytes of frames written into the lanes.",
		shmabi.WorkerCounters.FrameBytes),
	workerTotal("replies_total", "Replies taken from the control plane.",
		shmabi.WorkerCounters.Replies),
	workerTotal("late_replies_total", "Replies whose request was answered or gone before.",
		shmabi.WorkerCounters.LateReplies),
	workerTotal("doorbells_total", "Doorbells rung for the control plane.",
		shmabi.WorkerCounters.Rings),
	workerTotal("wakes_total", "Doorbells that woke a worker.",
		shmabi.WorkerCounters.Wakes),
	workerTotal("belt_wakes_total",
		"Replies that only the bound on a sleep found; above 0 a doorbell was lost.",
		shmabi.WorkerCounters.BeltWakes),
	workerTotal("budget_over_total", "Requests answered 503 because the sender's budget was spent.",
		shmabi.WorkerCounters.BudgetOver),
	workerTotal("lane_full_total", "Requests that found no room in their lane.",
		shmabi.WorkerCounters.LaneFull),
	workerTotal("receive_starved_total", "Receives that found no buffer (ENOBUFS).",
		shmabi.WorkerCounters.RecvStarved),
	workerTotal("accept_paused_total", "Pauses of accepting for want of descriptors.",
		shmabi.WorkerCounters.AcceptPaused),
	workerTotal("completion_overflow_total", "Completions that the kernel had to set aside.",
		shmabi.WorkerCounters.CqOverflow),
	workerTotal("turns_total", "Turns of the workers' loops.",
		shmabi.WorkerCounters.Turns),
	workerTotal("received_bytes_total", "Bytes received from senders.",
		shmabi.WorkerCounters.BytesIn),
	workerTotal("sent_bytes_total", "Bytes sent to senders.",
		shmabi.WorkerCounters.BytesOut),
}
