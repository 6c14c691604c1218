package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	pb "sluice/proto/sluice/v1"
)

func deadLettersCommand() *cobra.Command {
	return group("dlq", "deliveries that were given up",
		deadListCommand(), deadReplayCommand(), deadDropCommand())
}

func deadListCommand() *cobra.Command {
	var where daemonFlags
	var filter filterFlags
	var limit uint32
	var inJSON bool
	cmd := &cobra.Command{
		Use: "list", Short: "list dead letters, those of the newest event first", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := filter.filter(args, time.Now())
			if err != nil {
				return err
			}
			return where.call(cmd, func(ctx context.Context, d *remote) error {
				stream, err := d.ListDeadLetters(ctx,
					&pb.ListDeadLettersRequest{Filter: f, Limit: limit})
				if err != nil {
					return err
				}
				if inJSON {
					return each(stream, func(l *pb.DeadLetter) error {
						return jsonLine(cmd.OutOrStdout(), newDeadLetterShape(l))
					})
				}
				t := table(cmd.OutOrStdout(), "DEAD", "ID", "SOURCE", "DESTINATION", "ATTEMPTS", "ERROR")
				if err := each(stream, func(l *pb.DeadLetter) error {
					row(t, when(l.GetDeadNs()), l.GetId(), l.GetSource(), l.GetDestination(),
						number(uint64(l.GetAttempts())), l.GetLastError())
					return nil
				}); err != nil {
					return err
				}
				return t.Flush()
			})
		},
	}
	where.add(cmd.Flags())
	filter.add(cmd.Flags(), false)
	cmd.Flags().Uint32Var(&limit, "limit", listedDefault, "at most so many; 0 is all")
	asJSON(cmd, &inJSON, true)
	return cmd
}

func deadReplayCommand() *cobra.Command {
	var where daemonFlags
	var filter filterFlags
	var replay replayFlags
	cmd := &cobra.Command{
		Use:   "replay [ID...]",
		Short: "deliver dead letters again",
		Long: `Makes new deliveries of the dead letters that match, those of the oldest event first. With
--to their events go to that destination, and the dead letters stay.`,
		Example: `  sluice dlq replay --destination billing --rate 50/s
  sluice dlq replay --destination billing --to billing-2 --dry-run`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := wantsSelection(&filter, args, replay.everything); err != nil {
				return err
			}
			rate, err := replay.perSecond()
			if err != nil {
				return err
			}
			f, err := filter.filter(args, time.Now())
			if err != nil {
				return err
			}
			return where.call(cmd, func(ctx context.Context, d *remote) error {
				r, err := d.ReplayDeadLetters(ctx, &pb.DeadLettersRequest{
					Filter: f, Destination: replay.to, Rate: rate, DryRun: replay.dry,
				})
				if err != nil {
					return err
				}
				return replay.print(cmd.OutOrStdout(), r, rate)
			})
		},
	}
	where.add(cmd.Flags())
	filter.add(cmd.Flags(), false)
	replay.add(cmd, "to this `DESTINATION` instead", "all dead letters, without any filter")
	return cmd
}

func deadDropCommand() *cobra.Command {
	var where daemonFlags
	var filter filterFlags
	var everything, dryRun, inJSON bool
	var reason string
	cmd := &cobra.Command{
		Use:   "drop [ID...]",
		Short: "give dead letters up for good",
		Long: `Takes the dead letters that match off the list. Their events stay, and who dropped them
and why is recorded with them.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := wantsSelection(&filter, args, everything); err != nil {
				return err
			}
			if reason == "" && !dryRun {
				return usagef("say why with --reason; it is recorded")
			}
			f, err := filter.filter(args, time.Now())
			if err != nil {
				return err
			}
			return where.call(cmd, func(ctx context.Context, d *remote) error {
				r, err := d.DropDeadLetters(ctx,
					&pb.DropDeadLettersRequest{Filter: f, Reason: reason, DryRun: dryRun})
				if err != nil {
					return err
				}
				if inJSON {
					return jsonLine(cmd.OutOrStdout(), struct {
						Deliveries uint64 `json:"deliveries"`
						DryRun     bool   `json:"dry_run"`
					}{r.GetDeliveries(), dryRun})
				}
				verb := "dropped"
				if dryRun {
					verb = "would be dropped"
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n",
					plural(r.GetDeliveries(), "dead letter", "dead letters"), verb)
				return err
			})
		},
	}
	where.add(cmd.Flags())
	filter.add(cmd.Flags(), false)
	cmd.Flags().StringVar(&reason, "reason", "", "why; recorded")
	cmd.Flags().BoolVar(&everything, "all", false, "all dead letters, without any filter")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "count, but change nothing")
	asJSON(cmd, &inJSON, false)
	return cmd
}
