package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	pb "sluice/proto/sluice/v1"
)

// idsShown of a gap are in its line for people; --json has all.
const idsShown = 3

func eventsGapsCommand() *cobra.Command {
	var where daemonFlags
	var filter filterFlags
	var limit uint32
	var closed, inJSON bool
	cmd := &cobra.Command{
		Use:   "gaps",
		Short: "list when events were turned away, and why, newest first",
		Long: `Lists stretches of time in which requests of a source were turned away for one reason:
how many, and the sender's own ids as far as they are known. An event that its sender sent again
later, or that was refused by "budget" and stored all the same, stays in it until a reconciliation
(see "sluice reconcile") has found everything of its stretch and closes it.

  hold       its bound on waiting was spent     held_full  too many waited
  lane       the lane to the journal was full   class      pushed out by a higher class
  rate       over its source's own rate         journal    the journal was full or not writable
  stopping   the daemon was stopping            budget     no answer in its sender's time

Requests that were refused for what they are (401, 404, 413 …) are not in it. Counts are exact. Old
gaps lose their ids first and are then put together, one for each source and reason.`,
		Example: `  sluice events gaps --source github --since 24h
  sluice events gaps --limit 0 --json | jq -r '.ids[]'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := filter.filter(args, time.Now())
			if err != nil {
				return err
			}
			return where.call(cmd, func(ctx context.Context, d *remote) error {
				stream, err := d.ListGaps(ctx, &pb.ListGapsRequest{
					Source: f.GetSource(), SinceNs: f.GetSinceNs(), UntilNs: f.GetUntilNs(), Limit: limit,
					Closed: closed,
				})
				if err != nil {
					return err
				}
				if inJSON {
					return each(stream, func(g *pb.Gap) error {
						return jsonLine(cmd.OutOrStdout(), newGapShape(g))
					})
				}
				names := []string{"FROM", "TO", "SOURCE", "REASON", "COUNT", "UNNAMED", "IDS"}
				if closed {
					names = append(names, "CLOSED")
				}
				t := table(cmd.OutOrStdout(), names...)
				if err := each(stream, func(g *pb.Gap) error {
					cells := []string{when(g.GetFromNs()), when(g.GetToNs()), g.GetSource(), g.GetReason(),
						number(g.GetCount()), number(g.GetUnnamed()), someOf(g.GetIds())}
					if closed {
						cells = append(cells, when(g.GetClosedNs()))
					}
					row(t, cells...)
					return nil
				}); err != nil {
					return err
				}
				return t.Flush()
			})
		},
	}
	where.add(cmd.Flags())
	cmd.Flags().StringVar(&filter.source, "source", "", "of this source")
	cmd.Flags().StringVar(&filter.since, "since", "",
		"with a part from this `TIME` on: RFC 3339, a date, or 10m ago as 10m")
	cmd.Flags().StringVar(&filter.until, "until", "", "with a part before this `TIME`")
	cmd.Flags().Uint32Var(&limit, "limit", listedDefault, "at most so many; 0 is all")
	cmd.Flags().BoolVar(&closed, "closed", false, "those too of which everything was found")
	asJSON(cmd, &inJSON, true)
	return cmd
}

func someOf(ids []string) string {
	if len(ids) <= idsShown {
		return strings.Join(ids, " ")
	}
	return strings.Join(ids[:idsShown], " ") + " and " + number(uint64(len(ids)-idsShown)) + " more"
}

type gapShape struct {
	Source  string   `json:"source"`
	From    *string  `json:"from"`
	To      *string  `json:"to"`
	Reason  string   `json:"reason"`
	Count   uint64   `json:"count"`
	IDs     []string `json:"ids"`
	Unnamed uint64   `json:"unnamed"`
	Closed  *string  `json:"closed_at"`
}

func newGapShape(g *pb.Gap) gapShape {
	return gapShape{g.GetSource(), moment(g.GetFromNs()), moment(g.GetToNs()), g.GetReason(),
		g.GetCount(), list(g.GetIds()), g.GetUnnamed(), moment(g.GetClosedNs())}
}
