package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

func (t trial) String() string {
	words := []string{t.name}
	if t.kind != kindTiers {
		words = append(words, t.kind)
	}
	if t.kind == kindCrowd {
		words = append(words, fmt.Sprintf("of %d sources, one %g times as loud", t.senders, t.loud))
	}
	if t.at > 0 {
		words = append(words, fmt.Sprintf("at %s", t.at))
	}
	if t.lasts > 0 {
		words = append(words, fmt.Sprintf("for %s", t.lasts))
	}
	words = append(words, fmt.Sprintf("%d bytes", t.body))
	if t.tries > 1 {
		words = append(words, fmt.Sprintf("%d tries", t.tries))
	}
	for _, p := range t.phases {
		words = append(words, fmt.Sprintf("| %g/s for %s, C %.0f/s", p.offered, p.length, p.capacity()))
	}
	return strings.Join(words, " ")
}

// groups are the streams that a table shows, each with its column.
func (t trial) groups() []string {
	if t.kind == kindCrowd {
		return []string{"quiet", "loud"}
	}
	var names []string
	for _, tier := range tiers {
		names = append(names, tier.name)
	}
	return names
}

// shedBy gives the share that was shed of each group.
func (t trial) shedBy(streams map[string]tally) []float64 {
	var shares []float64
	for _, group := range t.groups() {
		due, shed := 0, 0
		for name, sum := range streams {
			if name == group || strings.HasPrefix(name, group+"-") {
				due, shed = due+sum.due, shed+sum.shed
			}
		}
		shares = append(shares, share(shed, due))
	}
	return shares
}

// printPhases prints a row for each phase of each front, and what is said of a front as a whole.
func printPhases(out io.Writer, all []outcome) {
	if len(all) == 0 {
		return
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "front\tphase\toffered/s\tcapacity/s\tgood/s\tof possible\tp50\tp99 ms\tshed %s\t"+
		"timeout\treset\tunsent\tconns\tlimit\tslot ms\tMiB\tCPU µs/shed\trecovery\n",
		strings.Join(all[0].trial.groups(), "\t"))
	for _, o := range all {
		calm := 0.0
		for n, s := range o.spans() {
			seconds := s.length.Seconds()
			var shed []string
			for _, part := range o.trial.shedBy(s.streams) {
				shed = append(shed, fmt.Sprintf("%.1f %%", 100*part))
			}
			cpu := o.cpu(s)
			if n == 0 && s.ok > 0 {
				calm = cpu / float64(s.ok)
			}
			fmt.Fprintf(w, "%s\t%d\t%.0f\t%.0f\t%.0f\t%.1f %%\t%.1f\t%.1f\t%s\t%d\t%d\t%d\t%d\t%s\t%s\t%s"+
				"\t%s\t%s\n",
				o.front.name, n+1, float64(s.due)/seconds, s.capacity(), float64(s.good)/seconds,
				100*s.goodShare(), s.p50.Seconds()*1e3, s.p99.Seconds()*1e3, strings.Join(shed, "\t"),
				s.lost["timeout"], s.lost["closed"]+s.lost["protocol"], s.lost["unsent"],
				o.record.connections(s.from, s.to), o.limits(s), o.slotTime(s), o.memory(s),
				perShed(cpu, calm, s.tally), o.recovered(n, s))
		}
	}
	_ = w.Flush()
	for _, o := range all {
		if o.trial.tries > 1 {
			fmt.Fprintf(out, "  %s: %s\n", o.front.name, o.deliveries())
		}
		if why := o.noisy(); why != "" {
			fmt.Fprintf(out, "  ~ %s: %s\n", o.front.name, why)
		}
	}
}

// cpu is the CPU seconds of the part that answers senders, during a span.
func (o outcome) cpu(s span) float64 {
	from, to := lookAt(o.looks, s.from), lookAt(o.looks, s.to)
	for _, part := range []string{"dataplane", "app"} {
		if all, _ := spent(from, to, part); all > 0 {
			return all
		}
	}
	return 0
}

// perShed estimates what a refusal costs: what is left of a span's CPU time when each 2xx costs
// what it did in the calm first phase.
func perShed(cpu, calm float64, t tally) string {
	left := cpu - calm*float64(t.ok)
	if t.shed < 1000 || left <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", left/float64(t.shed)*1e6)
}

// within are the looks of a span.
func (o outcome) within(s span) []look {
	var all []look
	for _, l := range o.looks {
		if l.at > s.from && l.at <= s.to {
			all = append(all, l)
		}
	}
	return all
}

// limits is the least and the greatest limit in a span.
func (o outcome) limits(s span) string {
	least, most := 0.0, 0.0
	for _, l := range o.within(s) {
		if limit, ok := l.metrics[metricLimit]; ok {
			if least == 0 || limit < least {
				least = limit
			}
			most = max(most, limit)
		}
	}
	if most == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f-%.0f", least, most)
}

// slotTime is the mean time in a slot, as sluice's controller has it at the end of a span.
func (o outcome) slotTime(s span) string {
	looks := o.within(s)
	if len(looks) == 0 {
		return "-"
	}
	seconds, ok := looks[len(looks)-1].metrics[metricService]
	if !ok {
		return "-"
	}
	return fmt.Sprintf("%.1f", seconds*1e3)
}

// memory is the most resident memory in a span, of each process.
func (o outcome) memory(s span) string {
	most := map[string]int64{}
	for _, l := range o.within(s) {
		for name, m := range l.rss {
			most[name] = max(most[name], m.all)
		}
	}
	var shown []string
	for _, part := range []string{"dataplane", "control", "app"} {
		if most[part] > 0 {
			shown = append(shown, fmt.Sprintf("%d", most[part]>>20))
		}
	}
	return strings.Join(shown, "+")
}

func (o outcome) recovered(n int, s span) string {
	if n == 0 || s.overloaded() || !o.trial.phases[n-1].overloaded() {
		return "-"
	}
	return recoveryText(o.record.recovery(s.from, s.to))
}

// deliveries says what became of deliveries that are sent more than once.
func (o outcome) deliveries() string {
	tries, delivered := map[int]int{}, map[int]bool{}
	perSecond := map[int]int{}
	over := 0
	for n, p := range o.trial.phases {
		if p.overloaded() {
			over = int((o.trial.starts()[n] + p.length) / time.Second)
		}
	}
	peak := 0
	for _, r := range o.record.requests {
		tries[r.delivery]++
		if r.ok() {
			delivered[r.delivery] = true
		}
		if second := int(r.due / time.Second); second >= over {
			perSecond[second]++
			peak = max(peak, perSecond[second])
		}
	}
	return fmt.Sprintf("%.1f %% of %d deliveries came through with %.2f tries each; at most %d tries "+
		"a second after the overload; %d repeats were due after the end",
		100*share(len(delivered), len(tries)), len(tries),
		float64(len(o.record.requests))/float64(max(len(tries), 1)), peak, o.record.after)
}

// printSeconds prints a row for each second of a trial.
func printSeconds(out io.Writer, o outcome) {
	fmt.Fprintf(out, "\n%s, %s\n", o.trial, o.front.name)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "s\toffered\tcapacity\tgood\tlate\tp50\tp99 ms\tshed %s\ttimeout\treset\tunsent\t"+
		"conns\tlimit\tinflight\tslot ms\tMiB\tCPU\tgenerator CPU\n",
		strings.Join(o.trial.groups(), "\t"))
	for at := time.Duration(0); at < o.trial.length(); at += time.Second {
		requests := o.record.between(at, at+time.Second)
		sum := tallyOf(requests)
		streams := map[string]tally{}
		for name, of := range byStream(requests) {
			streams[name] = tallyOf(of)
		}
		var shed []string
		for _, part := range o.trial.shedBy(streams) {
			shed = append(shed, fmt.Sprintf("%.1f %%", 100*part))
		}
		before, after := lookAt(o.looks, at), lookAt(o.looks, at+time.Second)
		var memory, cpu []string
		for _, part := range []string{"dataplane", "control", "app"} {
			if _, ok := after.parts[part]; ok {
				all, _ := spent(before, after, part)
				memory = append(memory, fmt.Sprintf("%d", after.rss[part].all>>20))
				cpu = append(cpu, fmt.Sprintf("%.2f", all))
			}
		}
		fmt.Fprintf(w, "%d\t%d\t%.0f\t%d\t%d\t%.1f\t%.1f\t%s\t%d\t%d\t%d\t%d\t%.0f\t%.0f\t%.1f\t%s\t%s"+
			"\t%.2f\n",
			int(at/time.Second), sum.due, o.trial.phaseAt(at).capacity(), sum.good, sum.ok-sum.good,
			sum.p50.Seconds()*1e3, sum.p99.Seconds()*1e3, strings.Join(shed, "\t"),
			sum.lost["timeout"], sum.lost["closed"]+sum.lost["protocol"], sum.lost["unsent"],
			o.record.connections(at, at+time.Second), after.metrics[metricLimit],
			after.metrics[metricInflight], after.metrics[metricService]*1e3,
			strings.Join(memory, "+"), strings.Join(cpu, "+"),
			max(0, after.generator-before.generator))
	}
	_ = w.Flush()
}
