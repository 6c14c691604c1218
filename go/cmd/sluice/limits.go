package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	pb "sluice/proto/sluice/v1"
)

const limitsHelp = `Shows how many requests may be in flight at once, why, and what the controller
goes by:

  limit         requests in flight, in force now; the controller tries a little more and a little
                less around its base in turn, to see whether more would buy more
  pinned        until when an operator holds it (limits set)
  service time  how long a request takes a slot, in the mean, until it is durable
  throughput    events that become durable, a second
  hold bound    how long a request of an overloaded class may wait for a slot
  share         what each source may have before it is served after the others; none while there is
                enough for all
  changes       the last moves of the base and their reasons: slope, gradient and additive are the
                controller's, drops a cut after answers that came too late or not at all, unused a
                limit given up because nobody needed it, pinned and released an operator's, config
                a reload's, restart where the limit was taken up. Moves that follow each other for
                one reason are one; all of them are counted in
                webhook_ingress_limit_changes_total.`

// changesShown is how many changes people see; --json gives all that are kept.
const changesShown = 10

func limitsCommand() *cobra.Command {
	return group("limits", "the admission limit: see it, pin it, let it go",
		limitsSubcommand("get", "show the limit and what it follows from", limitsHelp,
			cobra.NoArgs, nil,
			func(ctx context.Context, d *remote, _ []string) (*pb.Limits, error) {
				return d.GetLimits(ctx, &pb.GetLimitsRequest{})
			}),
		limitsSetCommand(),
		limitsSubcommand("reset", "let the limit go",
			"Ends a pin. The controller goes on from there; a fixed limit is the configured one again.",
			cobra.NoArgs, nil,
			func(ctx context.Context, d *remote, _ []string) (*pb.Limits, error) {
				return d.ResetLimit(ctx, &pb.ResetLimitRequest{})
			}),
	)
}

func limitsSetCommand() *cobra.Command {
	var held time.Duration
	return limitsSubcommand("set N", "pin the limit for a while",
		`Holds the limit at N requests in flight, whatever the controller would do, until --for is over,
"limits reset" or a restart. N lies between admission.min_limit and admission.max_limit.`,
		cobra.ExactArgs(1),
		func(cmd *cobra.Command) {
			cmd.Flags().DurationVar(&held, "for", 10*time.Minute, "how long")
		},
		func(ctx context.Context, d *remote, args []string) (*pb.Limits, error) {
			limit, err := strconv.ParseUint(args[0], 10, 64)
			if err != nil || limit == 0 {
				return nil, usagef("%q is no limit; write a number of requests, such as 64", args[0])
			}
			if held <= 0 {
				return nil, usagef("--for: a pin lasts longer than 0s")
			}
			return d.SetLimit(ctx, &pb.SetLimitRequest{Limit: limit, ForNs: held.Nanoseconds()})
		})
}

func limitsSubcommand(use, what, long string, args cobra.PositionalArgs,
	flags func(*cobra.Command),
	do func(context.Context, *remote, []string) (*pb.Limits, error)) *cobra.Command {
	var where daemonFlags
	var inJSON bool
	cmd := &cobra.Command{
		Use: use, Short: what, Long: long, Args: args,
		RunE: func(cmd *cobra.Command, args []string) error {
			return where.call(cmd, func(ctx context.Context, d *remote) error {
				ctx, cancel := short(ctx)
				defer cancel()
				l, err := do(ctx, d, args)
				if err != nil {
					return err
				}
				if inJSON {
					return jsonLine(cmd.OutOrStdout(), newLimitsShape(l))
				}
				return printLimits(cmd.OutOrStdout(), l)
			})
		},
	}
	where.add(cmd.Flags())
	if flags != nil {
		flags(cmd)
	}
	asJSON(cmd, &inJSON, false)
	return cmd
}

func printLimits(w io.Writer, l *pb.Limits) error {
	pinned := "no"
	if l.GetPinnedUntilNs() != 0 {
		pinned = "until " + when(l.GetPinnedUntilNs())
	}
	share := "none"
	if rate := l.GetShareRate(); rate > 0 {
		share = fmt.Sprintf("%s events/s each source", short3(rate))
	}
	t := table(w, "limit", fmt.Sprintf("%d (between %d and %d)",
		l.GetLimit(), l.GetMin(), l.GetMax()))
	row(t, "base", short3(l.GetBase()))
	row(t, "algorithm", l.GetAlgorithm())
	row(t, "pinned", pinned)
	row(t, "in flight", number(l.GetInflight()))
	row(t, "held", fmt.Sprintf("%d of %d, for up to %v", l.GetHeld(), l.GetMaxHeld(),
		time.Duration(l.GetHoldBudgetNs())))
	row(t, "hold bound", shortTime(l.GetHoldBoundNs()))
	row(t, "service time", shortTime(l.GetServiceTimeNs()))
	row(t, "throughput", short3(l.GetThroughput())+" events/s")
	row(t, "share", share)
	if err := t.Flush(); err != nil {
		return err
	}
	return printChanges(w, l.GetChanges())
}

func printChanges(w io.Writer, changes []*pb.LimitChange) error {
	if len(changes) == 0 {
		return nil
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	t := table(w, "CHANGED AT", "FROM", "TO", "REASON")
	for _, c := range changes[:min(len(changes), changesShown)] {
		row(t, when(c.GetAtNs()), short3(c.GetFrom()), short3(c.GetTo()), c.GetReason())
	}
	return t.Flush()
}

// short3 is a number with three digits that count.
func short3(v float64) string {
	if v >= 1000 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// shortTime is a time with three digits that count; nothing where it is not known.
func shortTime(ns int64) string {
	d := time.Duration(ns)
	if d == 0 {
		return ""
	}
	unit := time.Nanosecond
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit).String()
}
