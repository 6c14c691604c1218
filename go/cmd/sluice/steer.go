package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	pb "sluice/proto/sluice/v1"
)

// reloadMax is longer than other calls may take: the data plane has to take the config as well.
const reloadMax = time.Minute

func reloadCommand() *cobra.Command {
	var where daemonFlags
	var inJSON bool
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "make the daemon read its config again",
		Long: `Reads the config again and puts it in force, whole or not at all. A config that is
refused changes nothing and gives exit code 2.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return where.call(cmd, func(ctx context.Context, d *remote) error {
				ctx, cancel := context.WithTimeout(ctx, reloadMax)
				defer cancel()
				r, err := d.Reload(ctx, &pb.ReloadRequest{})
				if err != nil {
					return err
				}
				if inJSON {
					return jsonLine(cmd.OutOrStdout(), struct {
						ConfigVersion uint32 `json:"config_version"`
					}{r.GetConfigVersion()})
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "config %d is in force\n", r.GetConfigVersion())
				return err
			})
		},
	}
	where.add(cmd.Flags())
	asJSON(cmd, &inJSON, false)
	return cmd
}

func drainCommand() *cobra.Command {
	var where daemonFlags
	cmd := &cobra.Command{
		Use:   "drain",
		Short: "stop taking requests, finish what was taken, end the daemon",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return where.call(cmd, func(ctx context.Context, d *remote) error {
				ctx, cancel := short(ctx)
				defer cancel()
				if _, err := d.Drain(ctx, &pb.AdminDrainRequest{}); err != nil {
					return err
				}
				_, err := fmt.Fprintln(cmd.OutOrStdout(),
					"draining; the daemon ends when what it took is answered")
				return err
			})
		},
	}
	where.add(cmd.Flags())
	return cmd
}
