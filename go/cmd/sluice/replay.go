package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	pb "sluice/proto/sluice/v1"
)

// replayFlags say how events are delivered again.
type replayFlags struct {
	to, rate             string
	everything, dry, raw bool
}

// add makes the flags; what is replayed by them.
func (f *replayFlags) add(cmd *cobra.Command, to, everything string) {
	cmd.Flags().StringVar(&f.to, "to", "", to)
	cmd.Flags().StringVar(&f.rate, "rate", "",
		"so many deliveries in a time, `50/s`, 10/m or 60/h, the oldest event first; else all at once")
	cmd.Flags().BoolVar(&f.everything, "all", false, everything)
	cmd.Flags().BoolVar(&f.dry, "dry-run", false, "count, but change nothing")
	asJSON(cmd, &f.raw, false)
}

// perSecond is the rate as a number; 0 where none was asked for.
func (f *replayFlags) perSecond() (float64, error) {
	if f.rate == "" {
		return 0, nil
	}
	digits, unit, _ := strings.Cut(f.rate, "/")
	per := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}[unit]
	n, err := strconv.ParseFloat(digits, 64)
	// NaN is above nothing.
	if err != nil || per == 0 || !(n > 0) {
		return 0, usagef("--rate: %q is no rate; write it as 50/s, 10/m or 60/h", f.rate)
	}
	return n / per.Seconds(), nil
}

// print tells what was made, or would be.
func (f *replayFlags) print(w io.Writer, r *pb.ReplayReply, rate float64) error {
	if f.raw {
		return jsonLine(w, struct {
			Events     uint64 `json:"events"`
			Deliveries uint64 `json:"deliveries"`
			DryRun     bool   `json:"dry_run"`
		}{r.GetEvents(), r.GetDeliveries(), f.dry})
	}
	verb := "made"
	if f.dry {
		verb = "would be made"
	}
	if rate > 0 && r.GetDeliveries() > 1 {
		verb += ", the last one due after " + span(float64(r.GetDeliveries()-1)/rate)
	}
	_, err := fmt.Fprintf(w, "%s of %s %s\n", plural(r.GetDeliveries(), "delivery", "deliveries"),
		plural(r.GetEvents(), "event", "events"), verb)
	return err
}

// wantsSelection keeps a forgotten filter from meaning everything.
func wantsSelection(f *filterFlags, args []string, everything bool) error {
	none := f.empty() && len(args) == 0
	switch {
	case none && !everything:
		return usagef("say which: ids, a filter, or --all")
	case !none && everything:
		return usagef("--all and a filter exclude each other")
	}
	return nil
}
