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

const (
	// upgradeMax is longer than a new data plane may take to accept and an old one to end.
	upgradeMax = 2 * time.Minute
	// successorMax is how long the next program may take until it serves.
	successorMax   = time.Minute
	successorPause = 50 * time.Millisecond
)

func upgradeCommand() *cobra.Command {
	var where daemonFlags
	var inJSON, control bool
	cmd := &cobra.Command{
		Use:   "upgrade",
		Short: "replace the data plane, or the daemon, without dropping a connection",
		Long: `Replaces the data plane by the program that is now at its path: a new one is started
beside the one that accepts, on the same listening sockets, and only when it accepts does the old
one finish what it has and end. With --control it is the daemon's own program that is replaced: the
daemon makes sure that the sluice at its path can go on and takes the config, and executes it under
the same pid, while the data plane and the listening sockets go on.

Where a step fails, everything stays as it was, and the exit code is 1. Steps are told on stderr.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			began := time.Now()
			var done upgraded
			err := where.call(cmd, func(ctx context.Context, d *remote) (err error) {
				done.Generation, err = follow(ctx, d, control, cmd.ErrOrStderr())
				return err
			})
			if err != nil {
				return err
			}
			if control {
				_, _ = fmt.Fprintln(cmd.ErrOrStderr(), "wait until it is ready")
				if done, err = awaitSuccessor(cmd, &where, began); err != nil {
					return err
				}
			}
			if inJSON {
				return jsonLine(cmd.OutOrStdout(), done)
			}
			text := fmt.Sprintf("data plane %d serves", done.Generation)
			if control {
				text = fmt.Sprintf("sluice %s is ready; data plane %d went on", done.Version, done.Generation)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), text)
			return err
		},
	}
	where.add(cmd.Flags())
	asJSON(cmd, &inJSON, false)
	cmd.Flags().BoolVar(&control, "control", false,
		"replace the daemon's own program; data plane and listeners go on")
	return cmd
}

// upgraded is what serves now.
type upgraded struct {
	Generation uint32 `json:"generation"`
	Version    string `json:"version,omitempty"` // of the daemon, where that was replaced
}

// follow tells the steps of an upgrade until it is done, and gives the data plane that serves then.
func follow(ctx context.Context, d *remote, control bool, steps io.Writer) (uint32, error) {
	ctx, cancel := context.WithTimeout(ctx, upgradeMax)
	defer cancel()
	stream, err := d.Upgrade(ctx, &pb.UpgradeRequest{Control: control})
	for err == nil {
		var p *pb.UpgradeProgress
		if p, err = stream.Recv(); err != nil {
			break
		}
		if p.GetDone() {
			return p.GetGeneration(), nil
		}
		// Who cannot read the steps still waits for the end.
		_, _ = fmt.Fprintln(steps, printable(p.GetStep()))
	}
	if errors.Is(err, io.EOF) {
		err = errors.New("the daemon ended the upgrade without a word; its log may say why")
	}
	return 0, err
}

// awaitSuccessor waits for a daemon that began after the upgrade did. Each look takes a connection
// of its own: one that is kept would wait before it tried again.
func awaitSuccessor(cmd *cobra.Command, where *daemonFlags, began time.Time) (upgraded, error) {
	for until := time.Now().Add(successorMax); time.Now().Before(until); {
		var status *pb.Status
		err := where.call(cmd, func(ctx context.Context, d *remote) (err error) {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			status, err = d.GetStatus(ctx, &pb.GetStatusRequest{})
			return err
		})
		if err == nil && status.GetReady() {
			if up := time.Duration(status.GetUptimeS() * float64(time.Second)); up > time.Since(began) {
				return upgraded{}, errors.New("the next program could not be executed, and the daemon goes " +
					"on with the one that it had: its log says why")
			}
			return upgraded{status.GetGeneration(), status.GetVersion()}, nil
		}
		select {
		case <-cmd.Context().Done():
			return upgraded{}, cmd.Context().Err()
		case <-time.After(successorPause):
		}
	}
	return upgraded{}, fmt.Errorf("the next program is not ready after %v; its log and `sluice "+
		"status` say why", successorMax)
}
