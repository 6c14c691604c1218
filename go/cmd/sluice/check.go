package main

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/spf13/cobra"

	"sluice/go/internal/config"
)

func checkCommand() *cobra.Command {
	var inJSON, dev, secrets bool
	cmd := &cobra.Command{
		Use: "check FILE", Short: "read a config and name every fault", Args: cobra.ExactArgs(1),
		Long: `Reads a config as the daemon would, and names every fault with its line and the mend. A
config without a fault may have warnings: it is taken, but something in it is hardly meant.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := config.Load(args[0], configOptions(dev))
			var faults config.Faults
			if err != nil && !errors.As(err, &faults) {
				return err
			}
			if c != nil && secrets {
				log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
				faults = commandFaults(cmd.Context(), c, log)
			}
			var warnings config.Faults
			if c != nil {
				warnings = c.Warnings
			}
			if inJSON {
				return checkJSON(cmd, faults, warnings)
			}
			for _, f := range faults {
				if _, err := fmt.Fprintln(cmd.OutOrStdout(), f); err != nil {
					return err
				}
			}
			if len(faults) > 0 {
				return usagef("%s is refused: %s", args[0],
					plural(uint64(len(faults)), "fault", "faults"))
			}
			for _, w := range warnings {
				if _, err := fmt.Fprintf(cmd.OutOrStdout(), "warning: %s\n", w); err != nil {
					return err
				}
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: ok (%s)\n", args[0], contents(c, warnings))
			return err
		},
	}
	asJSON(cmd, &inJSON, true)
	cmd.Flags().BoolVar(&dev, "dev", false, "take secrets that are written out, as run --dev does")
	cmd.Flags().BoolVar(&secrets, "secrets", false, "run the commands that give secrets, too")
	return cmd
}

// contents counts what a config has.
func contents(c *config.Config, warnings config.Faults) string {
	text := plural(uint64(len(c.Sources)), "source", "sources") + ", " +
		plural(uint64(len(c.Destinations)), "destination", "destinations")
	if len(warnings) > 0 {
		text += ", " + plural(uint64(len(warnings)), "warning", "warnings")
	}
	return text
}

// checkJSON writes one object a fault or warning; no fault means that the config is taken.
func checkJSON(cmd *cobra.Command, faults, warnings config.Faults) error {
	for i, f := range slices.Concat(faults, warnings) {
		line := struct {
			File    string `json:"file"`
			Line    int    `json:"line"`
			Path    string `json:"path"`
			Problem string `json:"problem"`
			Mend    string `json:"mend"`
			Warning bool   `json:"warning"`
		}{f.File, f.Line, f.Path, f.Problem, f.Mend, i >= len(faults)}
		if err := jsonLine(cmd.OutOrStdout(), line); err != nil {
			return err
		}
	}
	if len(faults) > 0 {
		return silent{exitUsage}
	}
	return nil
}
