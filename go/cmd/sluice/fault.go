package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	pb "sluice/proto/sluice/v1"
)

func faultCommand() *cobra.Command {
	cmd := group("fault", "faults for game days (daemons of `run --dev` only)",
		faultListCommand(), faultSetCommand(), faultClearCommand())
	cmd.Long = `Makes parts of a running daemon fail, to see what senders and operators meet then.
It works with daemons that were started with ` + "`sluice run --dev`" + ` only.

  journal.write delay DURATION     every write of the journal takes so much longer
  journal.write error ERRNO        every write fails with ENOSPC, EIO, EROFS …
  journal.write slots COUNTxTIME   a store of a known capacity: so many servers of that time each,
                                   one of which a frame passes before it may join a group
  journal.sync delay DURATION      the same for what makes writes durable
  journal.sync error ERRNO
  dataplane kill                   kills the data plane, once; it is started again
  dataplane stop                   stops the process for a while (5s) as a debugger would

Kinds at one point hold together; one that is set again replaces itself. Set again, slots take
frames that come from there on: those inside leave when they would have. Cleared, they leave at
once. No fault outlives the daemon.`
	return cmd
}

func faultListCommand() *cobra.Command {
	return faultSubcommand("list", "show the faults in force", cobra.NoArgs, nil,
		func(ctx context.Context, d *remote, _ []string) (*pb.FaultList, error) {
			return d.ListFaults(ctx, &pb.ListFaultsRequest{})
		})
}

func faultSetCommand() *cobra.Command {
	var span time.Duration
	cmd := faultSubcommand("set POINT KIND [ARGUMENT]", "put a fault in force",
		cobra.RangeArgs(2, 3), func(cmd *cobra.Command) {
			cmd.Flags().DurationVar(&span, "for", 0, "end it by itself after so long")
		},
		func(ctx context.Context, d *remote, args []string) (*pb.FaultList, error) {
			if span < 0 {
				return nil, usagef("--for: a fault lasts longer than 0s")
			}
			r := &pb.SetFaultRequest{Point: args[0], Kind: args[1], ForNs: span.Nanoseconds()}
			if len(args) > 2 {
				r.Argument = args[2]
			}
			return d.SetFault(ctx, r)
		})
	cmd.Example = `  sluice fault set journal.sync delay 50ms --for 20s
  sluice fault set journal.write error ENOSPC
  sluice fault set journal.write slots 8x4ms
  sluice fault set dataplane kill`
	return cmd
}

func faultClearCommand() *cobra.Command {
	return faultSubcommand("clear [POINT]", "end all faults, or those of one point",
		cobra.MaximumNArgs(1), nil,
		func(ctx context.Context, d *remote, args []string) (*pb.FaultList, error) {
			r := &pb.ClearFaultRequest{}
			if len(args) > 0 {
				r.Point = args[0]
			}
			return d.ClearFault(ctx, r)
		})
}

// faultSubcommand makes a command that shows which faults are in force afterwards.
func faultSubcommand(use, what string, args cobra.PositionalArgs, flags func(*cobra.Command),
	do func(context.Context, *remote, []string) (*pb.FaultList, error)) *cobra.Command {
	var where daemonFlags
	var inJSON bool
	cmd := &cobra.Command{
		Use: use, Short: what, Args: args,
		RunE: func(cmd *cobra.Command, args []string) error {
			return where.call(cmd, func(ctx context.Context, d *remote) error {
				ctx, cancel := short(ctx)
				defer cancel()
				list, err := do(ctx, d, args)
				if err != nil {
					return err
				}
				if cmd.Name() == "set" && !inJSON && !inForce(list.GetFaults(), args) {
					fmt.Fprintf(cmd.OutOrStdout(), "%s: done\n", strings.Join(args, " "))
				}
				return printFaults(cmd.OutOrStdout(), list.GetFaults(), inJSON)
			})
		},
	}
	where.add(cmd.Flags())
	if flags != nil {
		flags(cmd)
	}
	asJSON(cmd, &inJSON, true)
	return cmd
}

// inForce tells whether what was set lasts.
func inForce(list []*pb.Fault, args []string) bool {
	return slices.ContainsFunc(list, func(f *pb.Fault) bool {
		return f.GetPoint() == args[0] && f.GetKind() == args[1]
	})
}

type faultShape struct {
	Point    string  `json:"point"`
	Kind     string  `json:"kind"`
	Argument string  `json:"argument"`
	Until    *string `json:"until"`
	Met      uint64  `json:"met"`
}

func printFaults(w io.Writer, list []*pb.Fault, inJSON bool) error {
	if inJSON {
		for _, f := range list {
			err := jsonLine(w, faultShape{f.GetPoint(), f.GetKind(), f.GetArgument(),
				moment(f.GetUntilNs()), f.GetMet()})
			if err != nil {
				return err
			}
		}
		return nil
	}
	if len(list) == 0 {
		_, err := fmt.Fprintln(w, "no fault in force")
		return err
	}
	t := table(w, "POINT", "KIND", "ARGUMENT", "UNTIL", "MET")
	for _, f := range list {
		until := "cleared"
		if f.GetUntilNs() != 0 {
			until = when(f.GetUntilNs())
		}
		row(t, f.GetPoint(), f.GetKind(), f.GetArgument(), until, number(f.GetMet()))
	}
	return t.Flush()
}
