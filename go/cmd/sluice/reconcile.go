package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	pb "sluice/proto/sluice/v1"
)

func reconcileCommand() *cobra.Command {
	var where daemonFlags
	var filter filterFlags
	var dry, inJSON bool
	cmd := &cobra.Command{
		Use:   "reconcile SOURCE",
		Short: "ask the provider for what was missed and take it in",
		Long: `Asks the provider of a source what it has, as the source's "reconcile" says, leaves out
what is stored, and takes in the rest or has it sent again, the oldest first. Without --since it
begins at the oldest open gap (see "sluice events gaps"), or looks back as far as the config says.
Gaps of which everything is stored are closed.

What it takes in comes behind every sender that waits, and is delivered like any other event. It is
marked as unverified: a provider's record has no signature that holds. Asking twice takes nothing
twice. Interrupted, it stops; what was done by then stands.`,
		Example: `  sluice reconcile github --dry-run
  sluice reconcile stripe --since 6h`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := filter.filter(nil, time.Now())
			if err != nil {
				return err
			}
			return where.call(cmd, func(ctx context.Context, d *remote) error {
				stream, err := d.Reconcile(ctx, &pb.ReconcileRequest{
					Source: args[0], SinceNs: f.GetSinceNs(), UntilNs: f.GetUntilNs(), DryRun: dry,
				})
				if err != nil {
					return err
				}
				last := &pb.ReconcileProgress{}
				if err := each(stream, func(p *pb.ReconcileProgress) error {
					last = p
					if isTerminal(cmd.ErrOrStderr()) && !p.GetDone() {
						_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "\r\x1b[K%s", reconcileLine(p))
					}
					return nil
				}); err != nil {
					return err
				}
				if isTerminal(cmd.ErrOrStderr()) {
					_, _ = fmt.Fprint(cmd.ErrOrStderr(), "\r\x1b[K")
				}
				if err := printReconcile(cmd.OutOrStdout(), last, dry, inJSON); err != nil {
					return err
				}
				switch {
				case last.GetError() != "":
					return errors.New(last.GetError())
				case !last.GetDone():
					return errors.New("the daemon ended the call; what was done by then stands")
				}
				return nil
			})
		},
	}
	where.add(cmd.Flags())
	cmd.Flags().StringVar(&filter.since, "since", "",
		"ask for what is younger than this `TIME`: RFC 3339, a date, or 10m ago as 10m")
	cmd.Flags().StringVar(&filter.until, "until", "", "ask for what is older than this `TIME`")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "ask and compare only; take in and send again nothing")
	asJSON(cmd, &inJSON, false)
	return cmd
}

// reconcileLine is how far a run has come, in one line.
func reconcileLine(p *pb.ReconcileProgress) string {
	line := fmt.Sprintf("%d seen, %d known, %d taken in, %d asked for again", p.GetSeen(),
		p.GetKnown(), p.GetTaken(), p.GetRequested())
	if p.GetWaiting() != "" {
		line += "; waiting for " + p.GetWaiting()
	}
	return line
}

type reconcileShape struct {
	Source     string  `json:"source"`
	Since      *string `json:"since"`
	Until      *string `json:"until"`
	Pages      uint64  `json:"pages"`
	Seen       uint64  `json:"seen"`
	Known      uint64  `json:"known"`
	Missing    uint64  `json:"missing"`
	Taken      uint64  `json:"taken"`
	Requested  uint64  `json:"requested"`
	Lost       uint64  `json:"lost"`
	GapsClosed uint64  `json:"gaps_closed"`
	Done       bool    `json:"done"`
	Error      string  `json:"error"`
	EndedAt    *string `json:"ended_at"`
}

func newReconcileShape(p *pb.ReconcileProgress) *reconcileShape {
	if p == nil {
		return nil
	}
	return &reconcileShape{
		p.GetSource(), moment(p.GetSinceNs()), moment(p.GetUntilNs()), p.GetPages(), p.GetSeen(),
		p.GetKnown(), p.GetSeen() - min(p.GetKnown(), p.GetSeen()), p.GetTaken(), p.GetRequested(),
		p.GetLost(), p.GetGapsClosed(), p.GetDone(), p.GetError(), moment(p.GetEndedNs()),
	}
}

func printReconcile(w io.Writer, p *pb.ReconcileProgress, dry, inJSON bool) error {
	s := newReconcileShape(p)
	if inJSON {
		return jsonLine(w, s)
	}
	if dry {
		_, err := fmt.Fprintf(w, "%s seen, %d known, %d missing; nothing was taken in\n",
			plural(s.Seen, "event", "events"), s.Known, s.Missing)
		return err
	}
	_, err := fmt.Fprintf(w,
		"%s seen, %d known, %d taken in, %d asked for again, %d lost; %s closed\n",
		plural(s.Seen, "event", "events"), s.Known, s.Taken, s.Requested, s.Lost,
		plural(s.GapsClosed, "gap", "gaps"))
	return err
}
