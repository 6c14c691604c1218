package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	pb "sluice/proto/sluice/v1"
)

const topIntervalMin = 100 * time.Millisecond

func topCommand() *cobra.Command {
	var where daemonFlags
	var inJSON bool
	var interval time.Duration
	var count uint64
	cmd := &cobra.Command{
		Use:   "top",
		Short: "a live view",
		Long: `Redraws the status in place on a terminal, and writes a line an interval elsewhere: in
flight of how many that may be, held, and OVERLOADED while some requests wait too long and are
turned away ("sluice status --help" says which). Ctrl-C ends it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if interval < topIntervalMin {
				return usagef("--interval: %v is below %v", interval, topIntervalMin)
			}
			v := view{w: cmd.OutOrStdout(), json: inJSON, screen: isTerminal(cmd.OutOrStdout())}
			return where.call(cmd, func(ctx context.Context, d *remote) error {
				ctx, cancel := context.WithCancel(ctx)
				defer cancel()
				stream, err := d.WatchStatus(ctx,
					&pb.WatchStatusRequest{IntervalMs: uint32(interval.Milliseconds())})
				if err != nil {
					return err
				}
				return first(stream, count, func(s *pb.Status) error {
					return v.show(s, time.Now())
				})
			})
		},
	}
	where.add(cmd.Flags())
	cmd.Flags().DurationVar(&interval, "interval", time.Second, "between two looks")
	cmd.Flags().Uint64Var(&count, "count", 0, "end after so many; 0 goes on")
	asJSON(cmd, &inJSON, true)
	return cmd
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS)
	return err == nil && os.Getenv("TERM") != "dumb"
}

// view shows one status after another.
type view struct {
	w            io.Writer
	json, screen bool
	before       *pb.Status
	at           time.Time
}

const (
	ansiHome      = "\x1b[H"
	ansiClear     = "\x1b[2J"
	ansiRestClear = "\x1b[J"
	ansiLineClear = "\x1b[K"
)

func (v *view) show(s *pb.Status, now time.Time) error {
	r := newRates(v.before, s, now.Sub(v.at))
	first := v.before == nil
	v.before, v.at = s, now
	switch {
	case v.json:
		return jsonLine(v.w, newStatusShape(s))
	case !v.screen:
		_, err := fmt.Fprintln(v.w, summary(s, r, now))
		return err
	}
	var page bytes.Buffer
	if first {
		page.WriteString(ansiClear)
	}
	page.WriteString(ansiHome)
	var text bytes.Buffer
	if err := printStatus(&text, s, r); err != nil {
		return err
	}
	// Each line is cleared behind its text, so that nothing flickers.
	page.WriteString(strings.ReplaceAll(text.String(), "\n", ansiLineClear+"\n"))
	page.WriteString(ansiRestClear)
	_, err := v.w.Write(page.Bytes())
	return err
}

// summary is a status on one line.
func summary(s *pb.Status, r *rates, now time.Time) string {
	var accepted, refused, backlog, dead uint64
	for _, source := range s.GetSources() {
		accepted += source.GetAccepted()
		refused += source.GetRefused()
	}
	for _, d := range s.GetDestinations() {
		backlog += d.GetBacklog()
		dead += d.GetDead()
	}
	state := "ready"
	if !s.GetReady() {
		state = "NOT READY"
	}
	a := s.GetAdmission()
	if a.GetOverloaded() {
		state += " OVERLOADED"
	}
	line := fmt.Sprintf("%s  %s  accepted %d (%s/s)  refused %d (%s/s)  in flight %d/%d  held %d"+
		"  backlog %d  dead %d", now.UTC().Format(time.TimeOnly), state, accepted,
		r.total((*pb.SourceStatus).GetAccepted), refused, r.total((*pb.SourceStatus).GetRefused),
		a.GetInflight(), a.GetLimit(), a.GetHeld(), backlog, dead)
	if problems := s.GetProblems(); len(problems) > 0 {
		line += "  " + strings.Join(problems, "; ")
	}
	return printable(line)
}

// rates compares two looks. Without an earlier one nothing is known.
type rates struct {
	before map[string]*pb.SourceStatus
	now    []*pb.SourceStatus
	span   time.Duration
}

func newRates(before, now *pb.Status, span time.Duration) *rates {
	r := &rates{now: now.GetSources(), span: span, before: map[string]*pb.SourceStatus{}}
	for _, s := range before.GetSources() {
		r.before[s.GetName()] = s
	}
	return r
}

func (r *rates) accepted(s *pb.SourceStatus) string {
	return r.of(s, (*pb.SourceStatus).GetAccepted)
}

func (r *rates) refused(s *pb.SourceStatus) string {
	return r.of(s, (*pb.SourceStatus).GetRefused)
}

func (r *rates) of(s *pb.SourceStatus, read func(*pb.SourceStatus) uint64) string {
	rate, known := r.rate(s, read)
	if !known {
		return "-"
	}
	return fmt.Sprintf("%.0f", rate)
}

// rate is unknown where there is nothing to compare with, or a daemon began to count anew.
func (r *rates) rate(s *pb.SourceStatus, read func(*pb.SourceStatus) uint64) (float64, bool) {
	before := r.before[s.GetName()]
	if before == nil || r.span <= 0 || read(s) < read(before) {
		return 0, false
	}
	return float64(read(s)-read(before)) / r.span.Seconds(), true
}

func (r *rates) total(read func(*pb.SourceStatus) uint64) string {
	sum, known := 0.0, false
	for _, s := range r.now {
		if rate, ok := r.rate(s, read); ok {
			sum, known = sum+rate, true
		}
	}
	if !known {
		return "-"
	}
	return fmt.Sprintf("%.0f", sum)
}
