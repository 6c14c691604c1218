package observe

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/shm-abi/shmabi"
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("webhook_"+name, help, labels, nil)
}

const overloadedHelp = "1 while some requests of the class always wait: those that wait too long " +
	"are shed. Without class: of any."

// The metrics that a scrape reads. Names are the outside contract.
var (
	ready         = desc("ready", "1 while /readyz answers 200.")
	configVersion = desc("config_version", "Accepted configs so far.")
	generation    = desc("dataplane_generation", "Data planes so far.")
	restarts      = desc("dataplane_restarts_total", "Data planes that died and were replaced.")

	limit      = desc("ingress_concurrency_limit", "Requests that may be in flight.")
	inflight   = desc("ingress_inflight_requests", "Requests that hold a slot.")
	held       = desc("ingress_held_requests", "Requests that wait for a slot.")
	heldMax    = desc("ingress_held_requests_max", "Requests that may wait for a slot.")
	connection = desc("ingress_connections", "Open connections.")
	kept       = desc("ingress_receive_memory_bytes",
		"Bytes of requests that are not whole or wait, as receive_memory bounds them.")
	driver = desc("dataplane_driver_info", "1 for the way in which the data plane asks the kernel.",
		"driver")
	layer = desc("dataplane_sandbox_layer", "1 for each right that the data plane gave up.",
		"layer")
	retiring = desc("dataplane_retiring", "Older data planes that finish what they have.")
	expiry   = desc("certificate_expiry_timestamp_seconds",
		"When the certificate of a listener ends, in seconds since 1970.", "listener", "certificate")

	// One series without class, for any of them, beside one each.
	overloaded = desc("ingress_overloaded", overloadedHelp)
	crowded    = desc("ingress_overloaded", overloadedHelp, "class")
	decisions  = desc("ingress_decisions_total", "Requests by class and decision. Those that were "+
		"held first are counted again when they are admitted or shed.", "class", "decision")
	offered   = desc("ingress_offered_total", "Requests that asked for a slot, by class.", "class")
	bound     = desc("ingress_hold_bound_seconds", "Bound of a hold while its class is overloaded.")
	service   = desc("ingress_service_seconds", "Mean time from a slot taken to the event durable.")
	shareRate = desc("ingress_share_rate",
		"Events a second that each source may have before it is served last; 0: no bound.")
	saturation = desc("ingress_saturation_ratio", "Part of the time with all slots taken.")
	changes    = desc("ingress_limit_changes_total", "Decisions that moved the limit.", "reason")
	drops      = desc("ingress_drops_total",
		"Events that took a slot and had no answer in time, or that the journal refused.")
	repeats = desc("ingress_repeats_total",
		"Requests of a source that it had sent before, as far as is known.", "source")
	overShare = desc("ingress_over_share_total", "Requests beyond their source's share.", "source")
	floored   = desc("ingress_floored_total",
		"Requests that the floor admitted: handshakes, probes and sources without a success.",
		"source")
	refusedInRow = desc("ingress_refused_in_row",
		"Requests of a source that were turned away since its last success.", "source")
	guarded = desc("ingress_guarded",
		"1 while a source is served first lest its provider stops sending.", "source")

	requests = desc("ingress_requests_total", "Answers to senders by source and status code.",
		"source", "code")
	sheds = desc("ingress_shed_total", "Requests that were turned away to be sent again.",
		"priority", "source", "reason")
	acks = desc("ingress_ack_seconds", "Time from a whole request to its answer.", "source")
	hold = desc("ingress_queue_delay_seconds", "Time that requests waited for a slot.")

	stored = desc("ingress_events_total", "What became of a source's requests once judged.",
		"source", "result")
	ringUsed = desc("ring_used_bytes", "Bytes of a lane that are not released.", "lane")
	ringSize = desc("ring_capacity_bytes", "Bytes that a lane holds.", "lane")
	turnMax  = desc("dataplane_turn_seconds_max", "Longest turn of a worker's loop.")
	belt     = desc("ingest_belt_wakes_total",
		"Frames that only the bound on a sleep found; above 0 a doorbell was lost.")
	wakes = desc("ingress_wakes_per_request",
		"Doorbells in both directions for each request so far; far below 1 under load.")

	journalUsed  = desc("journal_used_bytes", "Bytes of the journal on disk.")
	journalTotal = desc("journal_capacity_bytes", "Bytes that the journal may take.")
	committerCPU = desc("store_committer_cpu_seconds_total",
		"CPU time of making groups durable, estimated from some of them.")
	applierCPU = desc("store_applier_cpu_seconds_total", "CPU time of following the journal.")
	engineCPU  = desc("store_engine_cpu_seconds_total",
		"CPU time of the index beside that: flushes and merges.")
	journalEvents   = desc("journal_events", "Events that are kept.")
	journalOldest   = desc("journal_oldest_seconds", "Age of the oldest event that is kept.")
	journalWritable = desc("journal_writable", "1 while events can be made durable.")
	journalFull     = desc("journal_full", "1 while senders get 503 for want of space.")
	journalHeadroom = desc("journal_headroom_bytes",
		"Bytes that the journal may grow by before senders get 503.")
	undelivered = desc("undelivered_oldest_seconds",
		"Age of the oldest event that is not delivered, over all destinations; 0: none.")
	retention = desc("retention_headroom_seconds", "How much older the oldest event that is not "+
		"delivered may grow before delivered ones of its time are dropped; below 0 it is kept all "+
		"the same.")
	deadDropped = desc("dead_letters_dropped_total", "Dead letters that retention took.")
	keysLeft    = desc("journal_dedup_keys_left", "Whether the open dedup windows hold more "+
		"keys than go with the journal when segments are dropped: should the index be lost as well, "+
		"a repeat of what was dropped is taken for new.")
	dedupMemory = desc("journal_dedup_memory_bytes", "Memory of the filters that spare lookups of "+
		"dedup keys their reads.")
	dedupMemoryShort = desc("journal_dedup_memory_short", "Whether these filters would need more "+
		"memory than they may have: lookups then read the disk.")
	journalDurable = desc("journal_durable_group", "Last group that is durable.")
	journalApplied = desc("journal_applied_group", "Last durable group that the index has.")

	backlog = desc("backlog_events", "Deliveries that wait or are being retried.", "destination")
	oldest  = desc("backlog_oldest_seconds", "Age of the oldest event that waits.", "destination")
	drain   = desc("backlog_drain_seconds", "Time that the backlog takes at the rate of the last "+
		"minute, should nothing come; +Inf: nothing ends.", "destination")
	ended = desc("delivery_rate", "Deliveries that end a second, in the last minute.",
		"destination")
	dead    = desc("dead_letters", "Deliveries that were given up.", "destination")
	leased  = desc("delivery_inflight", "Attempts in flight.", "destination")
	gaps    = desc("gaps", "Stretches of refusals in the ledger, see `sluice events gaps`.")
	allowed = desc("delivery_limit", "Attempts that may be in flight.", "destination")
	waits   = desc("delivered_waits", "Senders whose answer waits for a destination.")

	breaker = desc("breaker_state", "0 closed, 1 half open, 2 open.", "destination")
	group   = desc("breaker_group_state", "0 closed, 1 half open, 2 open.", "group")
	alone   = desc("breaker_alone", "1 while a shared breaker does not hear the other hosts.",
		"breaker")
	signal = desc("breaker_signal", "Last value of a breaker's signal, in its own unit.",
		"breaker", "signal")
	signalStale = desc("breaker_signal_stale",
		"1 while the source of a signal is dead and its value an old one.", "breaker", "signal")
)

// collector reads everything once a scrape.
type collector struct{ m *Metrics }

// Describe says nothing on purpose: which sources and destinations there are changes with the
// config, and a test holds the names.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect looks at the daemon.
func (c collector) Collect(out chan<- prometheus.Metric) {
	s := scrape{out: out}
	facts := c.m.o.Facts()
	all, slots, waiting, connections := c.m.read()
	s.gauge(ready, truth(len(c.m.o.Ready()) == 0))
	s.gauge(configVersion, float64(facts.ConfigVersion))
	s.gauge(generation, float64(facts.Generation))
	s.counter(restarts, float64(facts.Restarts))
	s.gauge(inflight, float64(slots))
	s.gauge(held, float64(waiting))
	s.gauge(connection, float64(connections))
	s.gauge(kept, float64(all.kept))
	s.plane(&facts.DataPlane)
	for _, c := range facts.Certificates {
		s.gauge(expiry, float64(c.NotAfter.Unix()), c.Listener, c.File)
	}
	s.secrets(facts.Secrets, time.Now())
	s.admission(facts.Admission)
	s.classes(&all)
	s.dataPlane(&all, facts.BeltWakes)
	for name, sums := range all.sources {
		s.source(name, sums)
	}
	s.queueDelay(&all)
	s.judged(facts.Sources)
	for _, lane := range facts.Lanes {
		s.gauge(ringUsed, float64(lane.Used), lane.Name)
		s.gauge(ringSize, float64(lane.Capacity), lane.Name)
	}
	s.journal(facts.Journal)
	s.gauge(gaps, float64(facts.Gaps))
	for _, d := range facts.Destinations {
		s.gauge(backlog, float64(d.Backlog), d.Name)
		s.gauge(oldest, d.OldestAge.Seconds(), d.Name)
		s.gauge(drain, d.Drain, d.Name)
		s.gauge(ended, d.Rate, d.Name)
		s.gauge(dead, float64(d.Dead), d.Name)
		s.gauge(leased, float64(d.Inflight), d.Name)
		s.gauge(allowed, float64(d.Limit), d.Name)
		s.gauge(breaker, float64(d.Breaker), d.Name)
	}
	s.gauge(waits, float64(facts.DeliveredWaits))
	for i := range facts.Breakers {
		s.breaker(&facts.Breakers[i])
	}
}

type scrape struct{ out chan<- prometheus.Metric }

func (s scrape) gauge(d *prometheus.Desc, v float64, labels ...string) {
	s.out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func (s scrape) counter(d *prometheus.Desc, v float64, labels ...string) {
	s.out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
}

func (s scrape) breaker(b *BreakerLook) {
	if b.Group {
		s.gauge(group, float64(b.State), b.Name)
	}
	s.gauge(alone, truth(b.Alone), b.Name)
	for _, g := range b.Signals {
		s.gauge(signal, g.Value, b.Name, g.Name)
		s.gauge(signalStale, truth(g.Stale), b.Name, g.Name)
	}
}

func (s scrape) plane(p *DataPlane) {
	if p.Driver != "" {
		s.gauge(driver, 1, p.Driver)
	}
	for _, name := range p.Sandbox {
		s.gauge(layer, 1, name)
	}
	s.gauge(retiring, float64(p.Retiring))
}

func (s scrape) admission(a Admission) {
	s.gauge(limit, float64(a.Limit))
	s.gauge(heldMax, float64(a.MaxHeld))
	s.gauge(overloaded, truth(a.Overloaded != 0))
	for class, name := range Classes {
		s.gauge(crowded, truth(a.Overloaded>>class&1 != 0), name)
	}
	s.gauge(bound, a.HoldBound.Seconds())
	s.gauge(service, a.ServiceTime.Seconds())
	s.gauge(shareRate, a.ShareRate)
	s.gauge(saturation, a.Saturation)
	for reason, n := range a.Changes {
		s.counter(changes, float64(n), reason)
	}
}

func (s scrape) classes(all *totals) {
	for class, name := range Classes {
		c := &all.classes[class]
		s.counter(offered, float64(c.offered), name)
		s.counter(decisions, float64(c.admitted), name, "admitted")
		s.counter(decisions, float64(c.held), name, "held")
		s.counter(decisions, float64(c.shed), name, "shed")
	}
	s.counter(drops, float64(all.drops))
}

func (s scrape) dataPlane(all *totals, beltWakes uint64) {
	for i := range workerWords {
		s.counter(workerWords[i].desc, float64(all.workers[i]))
	}
	s.gauge(turnMax, seconds(all.turnMax))
	s.counter(belt, float64(beltWakes))
	if all.requests > 0 {
		s.gauge(wakes, float64(all.doorbells)/float64(all.requests))
	}
}

func (s scrape) source(name string, sums *sourceTotals) {
	for i, word := range codeWords {
		s.counter(requests, float64(sums.codes[i]), name, word.label)
	}
	for i, word := range shedWords {
		s.counter(sheds, float64(sums.sheds[i]), sums.priority, name, word.label)
	}
	s.counter(repeats, float64(sums.repeats), name)
	s.counter(overShare, float64(sums.overShare), name)
	s.counter(floored, float64(sums.floored), name)
	s.histogram(acks, sums.acks[:], sums.ackSum, ackBound, name)
}

// histogram sends counts by bucket; the last bucket takes what is above all bounds. The count is
// made of the buckets, not of the word beside them, so that they fit together.
func (s scrape) histogram(d *prometheus.Desc, counts []uint64, sumNS uint64,
	bound func(int) float64, labels ...string) {
	buckets, count := map[float64]uint64{}, uint64(0)
	for i, n := range counts {
		if count += n; i < len(counts)-1 {
			buckets[bound(i)] = count
		}
	}
	s.out <- prometheus.MustNewConstHistogram(d, count, seconds(sumNS), buckets, labels...)
}

// ackBound is the upper bound of a bucket in seconds. The last bucket takes all that is longer.
func ackBound(i int) float64 { return seconds(64_000 << i) }

// holdBound is the upper bound of a bucket in seconds. The last bucket takes all that is longer.
func holdBound(i int) float64 { return seconds(1_000_000 << i) }

func (s scrape) queueDelay(all *totals) {
	var holds [shmabi.HoldBuckets]uint64
	var sum uint64
	for _, sums := range all.sources {
		for i, n := range sums.holds {
			holds[i] += n
		}
		sum += sums.holdSum
	}
	s.histogram(hold, holds[:], sum, holdBound)
}

func (s scrape) judged(list []Source) {
	for _, source := range list {
		s.counter(stored, float64(source.Stored), source.Name, "stored")
		s.counter(stored, float64(source.Duplicates), source.Name, "duplicate")
		s.counter(stored, float64(source.Unauthorized), source.Name, "unauthorized")
		s.counter(stored, float64(source.Handshakes), source.Name, "handshake")
		s.unproven(&source)
		s.gauge(refusedInRow, float64(source.RefusedInRow), source.Name)
		s.gauge(guarded, truth(source.Guarded), source.Name)
		s.silence(&source)
	}
}

func (s scrape) journal(j Journal) {
	s.gauge(journalUsed, float64(j.UsedBytes))
	s.gauge(journalTotal, float64(j.TotalBytes))
	s.gauge(journalEvents, float64(j.Events))
	s.gauge(journalOldest, j.OldestAge.Seconds())
	s.gauge(journalWritable, truth(j.Writable))
	s.gauge(journalFull, truth(j.Full))
	s.gauge(journalHeadroom, float64(j.Headroom))
	s.gauge(undelivered, j.UndeliveredAge.Seconds())
	s.gauge(retention, (j.RetentionAge - j.UndeliveredAge).Seconds())
	s.counter(deadDropped, float64(j.DeadDropped))
	s.gauge(keysLeft, truth(j.KeysLeft))
	s.gauge(dedupMemory, float64(j.DedupMemory))
	s.gauge(dedupMemoryShort, truth(j.DedupMemoryShort))
	s.gauge(journalDurable, float64(j.Durable))
	s.gauge(journalApplied, float64(j.Applied))
	s.counter(committerCPU, j.Committer.Seconds())
	s.counter(applierCPU, j.Applier.Seconds())
	s.counter(engineCPU, j.Engine.Seconds())
}

func truth(v bool) float64 {
	if v {
		return 1
	}
	return 0
}

func seconds(ns uint64) float64 { return float64(ns) / float64(time.Second) }
