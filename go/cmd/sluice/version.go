package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"sluice/shm-abi/shmabi"
)

// version is set by the linker in a release.
var version = "dev"

func versionCommand() *cobra.Command {
	var inJSON bool
	cmd := &cobra.Command{
		Use: "version", Short: "which build this is", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := struct {
				Version  string `json:"version"`
				Revision string `json:"revision"`
				Go       string `json:"go"`
				Layout   string `json:"layout"`
			}{version, revision(), runtime.Version(), fmt.Sprintf("%016x", uint64(shmabi.LayoutHash))}
			if inJSON {
				return jsonLine(cmd.OutOrStdout(), v)
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "sluice %s (revision %s, %s, layout %s)\n",
				v.Version, v.Revision, v.Go, v.Layout)
			return err
		},
	}
	asJSON(cmd, &inJSON, false)
	return cmd
}

// revision is the commit that was built, with a mark where the tree was changed since.
func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	commit, mark := "unknown", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value[:min(len(s.Value), 12)]
		case s.Key == "vcs.modified" && s.Value == "true":
			mark = "+"
		}
	}
	return commit + mark
}
