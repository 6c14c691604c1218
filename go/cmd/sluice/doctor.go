package main

import (
	"context"

	"github.com/spf13/cobra"

	"sluice/go/internal/config"
	"sluice/go/internal/daemon"
	"sluice/go/internal/doctor"
	"sluice/go/internal/tlsfiles"
	pb "sluice/proto/sluice/v1"
)

func doctorCommand() *cobra.Command {
	var file, binary string
	var inJSON, dev bool
	var where daemonFlags
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "what this host can do, and which path will be taken",
		Long: `Looks at the kernel, io_uring, the sandbox, memory, files, ports, folders and
certificates, as far as the config asks for them, and says what to mend. It changes nothing. Exit
code 1: something will not work.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := loadConfig(file, dev)
			if err != nil {
				return usage(err)
			}
			// Without the program the verdict on io_uring is read from /proc.
			if binary, err = findDataplane(binary); err != nil && cmd.Flags().Changed("dataplane") {
				return usage(err)
			}
			where.admin = "unix:" + c.Admin.Socket
			findings := doctor.Run(cmd.Context(), doctorOptions(c, binary, where.running(cmd)))
			for _, w := range c.Warnings {
				findings = append(findings, doctor.Finding{
					Name: w.Path, Level: doctor.Warn, Detail: w.Problem, Mend: w.Mend,
				})
			}
			if inJSON {
				for _, f := range findings {
					if err := jsonLine(cmd.OutOrStdout(), f); err != nil {
						return err
					}
				}
			} else if err := doctor.Print(cmd.OutOrStdout(), findings); err != nil {
				return err
			}
			if doctor.Worst(findings) == doctor.Fail {
				return silent{exitFailed}
			}
			return nil
		},
	}
	asJSON(cmd, &inJSON, true)
	cmd.Flags().StringVar(&file, "config", "", "measure against this config `FILE`")
	cmd.Flags().BoolVar(&dev, "dev", false, "measure against what run --dev would do")
	cmd.Flags().StringVar(&binary, "dataplane", "", "`PATH` of sluice-dataplane")
	return cmd
}

// running tells whether a daemon answers there.
func (f *daemonFlags) running(cmd *cobra.Command) bool {
	return f.call(cmd, func(ctx context.Context, d *remote) error {
		ctx, cancel := short(ctx)
		defer cancel()
		_, err := d.GetStatus(ctx, &pb.GetStatusRequest{})
		return err
	}) == nil
}

func doctorOptions(c *config.Config, binary string, running bool) doctor.Options {
	o := doctor.Options{
		Dataplane: binary, DataDir: c.DataDir, ShmDir: c.ShmDir, Workers: c.Workers,
		RingSize: int64(c.RingSize), MaxConnections: c.HTTP.MaxConnections, Running: running,
		DedupMemory: daemon.DedupMemory(), Driver: c.Driver, Sandbox: c.Sandbox, User: c.User,
	}
	seen := map[tlsfiles.Pair]bool{}
	for _, l := range c.Listeners {
		o.Addresses = append(o.Addresses, l.Address.String())
		if l.TLS == nil {
			continue
		}
		for _, pair := range l.TLS.Certificates {
			if pair := tlsfiles.Pair(pair); !seen[pair] {
				seen[pair] = true
				o.Certificates = append(o.Certificates, inspected(pair))
			}
		}
	}
	for _, address := range []string{c.Admin.Address, c.Admin.HTTP} {
		if address != "" {
			o.Addresses = append(o.Addresses, address)
		}
	}
	return o
}

func inspected(pair tlsfiles.Pair) doctor.Certificate {
	c, err := tlsfiles.Inspect(pair)
	return doctor.Certificate{
		File: pair.Cert, Names: c.Names, NotBefore: c.NotBefore, NotAfter: c.NotAfter, Problem: err,
	}
}
