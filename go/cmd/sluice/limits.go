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

func limitsCommand() *cobra.Command {
	return group("limits", "the admission limit: see it, pin it, let it go",
		limitsSubcommand("get", "show the limit", cobra.NoArgs, nil,
			func(ctx context.Context, d *remote, _ []string) (*pb.Limits, error) {
				return d.GetLimits(ctx, &pb.GetLimitsRequest{})
			}),
		limitsSetCommand(),
		limitsSubcommand("reset", "let the limit go", cobra.NoArgs, nil,
			func(ctx context.Context, d *remote, _ []string) (*pb.Limits, error) {
				return d.ResetLimit(ctx, &pb.ResetLimitRequest{})
			}),
	)
}

func limitsSetCommand() *cobra.Command {
	var held time.Duration
	return limitsSubcommand("set N", "pin the limit for a while", cobra.ExactArgs(1),
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

func limitsSubcommand(use, what string, args cobra.PositionalArgs, flags func(*cobra.Command),
	do func(context.Context, *remote, []string) (*pb.Limits, error)) *cobra.Command {
	var where daemonFlags
	var inJSON bool
	cmd := &cobra.Command{
		Use: use, Short: what, Args: args,
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
	t := table(w, "limit", fmt.Sprintf("%d (between %d and %d)",
		l.GetLimit(), l.GetMin(), l.GetMax()))
	row(t, "algorithm", l.GetAlgorithm())
	row(t, "pinned", pinned)
	row(t, "in flight", number(l.GetInflight()))
	row(t, "held", fmt.Sprintf("%d of %d, for up to %v", l.GetHeld(), l.GetMaxHeld(),
		time.Duration(l.GetHoldBudgetNs())))
	return t.Flush()
}
