package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"sluice/go/internal/config"
)

func checkCommand() *cobra.Command {
	var inJSON, dev bool
	cmd := &cobra.Command{
		Use: "check FILE", Short: "read a config and name every fault", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := config.Load(args[0], configOptions(dev))
			var faults config.Faults
			if err != nil && !errors.As(err, &faults) {
				return err
			}
			if inJSON {
				return checkJSON(cmd, faults)
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
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: ok (%s, %s)\n", args[0],
				plural(uint64(len(c.Sources)), "source", "sources"),
				plural(uint64(len(c.Destinations)), "destination", "destinations"))
			return err
		},
	}
	asJSON(cmd, &inJSON, true)
	cmd.Flags().BoolVar(&dev, "dev", false, "take secrets that are written out, as `run --dev` does")
	return cmd
}

// checkJSON writes one object a fault; none means that the config is taken.
func checkJSON(cmd *cobra.Command, faults config.Faults) error {
	for _, f := range faults {
		line := struct {
			File    string `json:"file"`
			Line    int    `json:"line"`
			Path    string `json:"path"`
			Problem string `json:"problem"`
			Mend    string `json:"mend"`
		}{f.File, f.Line, f.Path, f.Problem, f.Mend}
		if err := jsonLine(cmd.OutOrStdout(), line); err != nil {
			return err
		}
	}
	if len(faults) > 0 {
		return silent{exitUsage}
	}
	return nil
}
