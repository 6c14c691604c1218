package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice/bench/referee"
	"sluice/go/storebench/meter"
)

// The bounds of the gates.
const (
	rawLeast     = 0.80 // of the best way to write the same bytes
	insertsLeast = 10.0 // times the rate of single inserts at the same concurrency
	copyLeast    = 3.0  // times the rate of the best COPY at no higher latency
	cpuMost      = 15.0 // µs of a life
	deviceMost   = 1.3  // bytes for one, of a life with groups of deviceFrom and more
	deviceFrom   = 64
	stallMost    = 3.0  // p99.9 of a group in p99s of the bare disk
	sagMost      = 0.20 // of the first fifth's rate, in the last fifth
	openMost     = 5 * time.Second
)

// notMeasured is said of a gate whose other side is not there.
const notMeasured = "not measured"

// gates gives the verdicts of what was measured.
func gates(t *table) (list []referee.Gate) {
	var sizes []int
	for _, k := range t.of("append") {
		if k.subject == "journal" && !slices.Contains(sizes, k.size) {
			sizes = append(sizes, k.size)
		}
	}
	for _, size := range sizes {
		list = append(list, ofRaw(t, size), ofInserts(t, size), ofCopies(t, size))
	}
	for _, k := range t.of("life") {
		list = append(list, ofLife(k, t.rows[k])...)
	}
	for _, k := range t.of("steady") {
		if k.subject == "steady" {
			alone := t.rows[key{"steady", bareDisk, k.size, k.group}]
			list = append(list, ofStalls(t.rows[k], alone), ofSag(t.rows[k]))
		}
	}
	for _, k := range t.of("open") {
		if k.subject == "open" {
			list = append(list, ofOpen(t.rows[k]))
		}
	}
	return slices.DeleteFunc(list, func(v referee.Gate) bool {
		return v.Shown == "" && v.Unjudged == ""
	})
}

// ofRaw holds the journal against the best of the bare disk, at each group.
func ofRaw(t *table, size int) referee.Gate {
	v := referee.Gate{Name: fmt.Sprintf(
		"journal, %d bytes: at least %.0f %% of the best way to write the same bytes", size,
		rawLeast*100)}
	var shown []string
	for _, k := range t.of("append") {
		if k.subject != "journal" || k.size != size {
			continue
		}
		var best *meter.Result
		for name := range raws {
			r := t.rows[key{"append", name, size, k.group}]
			if r != nil && r.Events > 0 && (best == nil || r.PerSecond() > best.PerSecond()) {
				best = r
			}
		}
		if best == nil {
			continue
		}
		got := t.rows[k].PerSecond() / best.PerSecond()
		others := max(best.Others(), t.rows[k].Others())
		v.Judge(got >= rawLeast, others)
		shown = append(shown, fmt.Sprintf("%d: %.0f %% of %s%s", k.group, got*100,
			best.Case.Subject, others.Mark()))
	}
	v.Shown = strings.Join(shown, ", ")
	return v
}

// ofInserts takes the most connections that insert, where both sides share their syncs, and of
// Postgres the best that so many or fewer reach.
func ofInserts(t *table, size int) referee.Gate {
	v := referee.Gate{Name: fmt.Sprintf(
		"journal, %d bytes: groups of %d at least %.0fx Postgres' single rows by as many connections",
		size, insertConnectionsMax, insertsLeast)}
	j := t.find("journal", size, insertConnectionsMax)
	if j == nil || t.find("postgres-insert", size, insertConnectionsMax) == nil {
		v.Unjudged = notMeasured
		return v
	}
	p := t.best("postgres-insert", size, func(*meter.Result) bool { return true })
	got := j.PerSecond() / p.PerSecond()
	v.Shown = fmt.Sprintf("%.1fx; %s/s beside %s/s by %d", got, rate(j.PerSecond()),
		rate(p.PerSecond()), p.Case.Group)
	v.Judge(got >= insertsLeast, j.Others(), p.Others())
	return v
}

// ofCopies compares the best COPY with the best row of the journal whose groups took no longer.
func ofCopies(t *table, size int) referee.Gate {
	v := referee.Gate{Name: fmt.Sprintf(
		"journal, %d bytes: at least %.0fx Postgres' best COPY, at p50 and p99 no higher than its",
		size, copyLeast)}
	best := t.best("postgres-copy", size, func(*meter.Result) bool { return true })
	if best == nil {
		v.Unjudged = notMeasured
		return v
	}
	j := t.best("journal", size, func(r *meter.Result) bool {
		return r.Times.Quantile(0.5) <= best.Times.Quantile(0.5) &&
			r.Times.Quantile(0.99) <= best.Times.Quantile(0.99)
	})
	if j == nil {
		v.Shown = "no group of the journal is as fast"
		v.Judge(false, best.Others())
		return v
	}
	got := j.PerSecond() / best.PerSecond()
	v.Judge(got >= copyLeast, j.Others(), best.Others())
	v.Shown = fmt.Sprintf("%.1fx; groups of %d at p99 %s ms beside %d at %s ms", got, j.Case.Group,
		short(j.Times.Milliseconds(0.99)), best.Case.Group, short(best.Times.Milliseconds(0.99)))
	return v
}

// best gives the fastest row of a subject among those that fit.
func (t *table) best(subject string, size int, fits func(*meter.Result) bool) (best *meter.Result) {
	for _, k := range t.of("append", "peers") {
		r := t.rows[k]
		if k.subject == subject && k.size == size && fits(r) &&
			(best == nil || r.PerSecond() > best.PerSecond()) {
			best = r
		}
	}
	return best
}

// ofLife judges nothing that was over before retention had to work.
func ofLife(k key, r *meter.Result) []referee.Gate {
	name := fmt.Sprintf("life, %d bytes, groups of %d: ", k.size, k.group)
	cpu := referee.Gate{
		Name:  name + fmt.Sprintf("at most %.0f µs of CPU an event", cpuMost),
		Shown: short(r.CPUMicros()) + " µs",
	}
	cpu.Judge(r.CPUMicros() <= cpuMost, r.Others())
	list := []referee.Gate{cpu}
	if k.group >= deviceFrom && r.Amplification() >= 0 {
		device := referee.Gate{
			Name:  name + fmt.Sprintf("at most %.1f device bytes per frame byte", deviceMost),
			Shown: fmt.Sprintf("%.2f", r.Amplification()),
		}
		device.Judge(r.Amplification() <= deviceMost, r.Others())
		list = append(list, device)
	}
	if !trims(r) {
		return referee.Unjudge(list, "it was over before the journal was trimmed")
	}
	return list
}

// ofStalls compares with what the disk gave somebody else at the same time: the index's own syncs
// keep it busy too, which is told by the time that a bare write took before and after.
func ofStalls(r, alone *meter.Result) referee.Gate {
	v := referee.Gate{Name: fmt.Sprintf(
		"steady: p99.9 of a group at most %.0fx the p99 of bare writes of its size meanwhile", stallMost)}
	if r.Probe.Count() == 0 {
		return v
	}
	disk, got := r.Probe.Milliseconds(0.99), r.Times.Milliseconds(0.999)
	v.Judge(got <= stallMost*disk, r.Others())
	v.Shown = fmt.Sprintf("%s ms, bound %s ms", short(got), short(stallMost*disk))
	if alone != nil && alone.Events > 0 {
		v.Shown += fmt.Sprintf("; nobody else on the disk: p99 %s ms",
			short(alone.Times.Milliseconds(0.99)))
	}
	return v
}

func ofSag(r *meter.Result) referee.Gate {
	v := referee.Gate{Name: fmt.Sprintf(
		"steady: the last fifth at most %.0f %% slower than the first", sagMost*100)}
	fifth := len(r.Seconds) / 5
	if fifth == 0 {
		return v
	}
	sum := func(list []meter.Second) (n float64) {
		for _, s := range list {
			n += float64(s.Finished)
		}
		return n / float64(len(list))
	}
	first, last := sum(r.Seconds[:fifth]), sum(r.Seconds[len(r.Seconds)-fifth:])
	v.Judge(last >= (1-sagMost)*first, r.Others())
	v.Shown = fmt.Sprintf("%s/s, then %s/s", rate(first), rate(last))
	return v
}

func ofOpen(r *meter.Result) referee.Gate {
	v := referee.Gate{
		Name:  fmt.Sprintf("open with %d pending, after a kill: under %v", r.Events, openMost),
		Shown: fmt.Sprintf("%.2f s", r.Times.Max.Seconds()),
	}
	v.Judge(r.Times.Max < openMost, r.Others())
	return v
}
