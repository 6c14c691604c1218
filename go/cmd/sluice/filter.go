package main

import (
	"slices"
	"time"

	"github.com/spf13/pflag"

	pb "sluice/proto/sluice/v1"
)

// filterFlags pick events or dead letters.
type filterFlags struct {
	source, destination, state, since, until, providerID, kind string
	ids                                                        []string
}

// add makes the flags; dead letters have no other state.
func (f *filterFlags) add(flags *pflag.FlagSet, states bool) {
	flags.StringVar(&f.source, "source", "", "of this source")
	flags.StringVar(&f.destination, "destination", "", "going to this destination")
	if states {
		flags.StringVar(&f.state, "state", "",
			"`pending|retrying|delivered|dead|duplicate`; duplicates are listed only by this")
	}
	flags.StringVar(&f.since, "since", "", "from this `TIME` on: RFC 3339, a date, or 10m ago as 10m")
	flags.StringVar(&f.until, "until", "", "before this `TIME`")
	flags.StringArrayVar(&f.ids, "id", nil, "this event; repeats")
	flags.StringVar(&f.providerID, "provider-id", "", "with this id of the sender's own")
	flags.StringVar(&f.kind, "type", "", "of this `TYPE` of the sender's own, push or invoice.paid")
}

// empty tells whether everything matches.
func (f *filterFlags) empty() bool {
	return f.source+f.destination+f.state+f.since+f.until+f.providerID+f.kind == "" && len(f.ids) == 0
}

// filter checks the flags; ids may also stand as arguments.
func (f *filterFlags) filter(args []string, now time.Time) (*pb.EventFilter, error) {
	out := &pb.EventFilter{
		Source: f.source, Destination: f.destination, State: f.state, ProviderId: f.providerID,
		Type: f.kind, Ids: slices.Concat(args, f.ids),
	}
	var err error
	if out.SinceNs, err = parseMoment("--since", f.since, now); err != nil {
		return nil, err
	}
	out.UntilNs, err = parseMoment("--until", f.until, now)
	return out, err
}

// parseMoment reads a time, or how long ago it was.
func parseMoment(flag, text string, now time.Time) (int64, error) {
	if text == "" {
		return 0, nil
	}
	if ago, err := time.ParseDuration(text); err == nil {
		if ago < 0 {
			return 0, usagef("%s: %s is in the future; write 10m for ten minutes ago", flag, text)
		}
		return now.Add(-ago).UnixNano(), nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", time.DateTime,
		time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UnixNano(), nil
		}
	}
	return 0, usagef("%s: %q is no time; write 2026-03-01T12:00:00Z, 2026-03-01 or 10m", flag, text)
}
