package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"sluice/go/internal/config"
)

const (
	exitDone = iota
	exitFailed
	exitUsage
)

func main() {
	os.Exit(execute(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// execute runs one command line and gives its exit code.
func execute(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	began := false
	root := rootCommand()
	root.PersistentPreRun = func(*cobra.Command, []string) { began = true }
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errs)
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil && !began {
		// What fails before a command begins is what it was asked.
		err = usage(err)
	}
	code := exitCode(err)
	if text := errorText(err); text != "" {
		fmt.Fprintf(errs, "sluice: %s\n", text)
	}
	if misused := (usageError{}); errors.As(err, &misused) && !began {
		fmt.Fprintf(errs, "see `%s --help`\n", cmd.CommandPath())
	}
	return code
}

func rootCommand() *cobra.Command {
	root := group("sluice", "a webhook gateway that loses nothing")
	root.SilenceErrors, root.SilenceUsage = true, true
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(
		runCommand(), checkCommand(), doctorCommand(), fsckCommand(),
		statusCommand(), topCommand(),
		eventsCommand(), deadLettersCommand(), limitsCommand(),
		breakersCommand(), faultCommand(), sendCommand(), verifyCommand(), providersCommand(),
		secretsCommand(),
		reconcileCommand(), reloadCommand(), upgradeCommand(), drainCommand(), versionCommand(),
	)
	return root
}

// group makes a command that only holds others. Without one of them it is wrong usage.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			text := fmt.Sprintf("%q is no command of %s", args[0], cmd.CommandPath())
			if close := cmd.SuggestionsFor(args[0]); len(close) > 0 {
				text += fmt.Sprintf("; did you mean %s?", close[0])
			}
			return errors.New(text)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			cmd.SetOut(cmd.ErrOrStderr())
			if err := cmd.Help(); err != nil {
				return err
			}
			return silent{exitUsage}
		},
	}
	cmd.SuggestionsMinimumDistance = 2
	cmd.AddCommand(commands...)
	return cmd
}

// usageError is the caller's: wrong usage, or a config that is wrong.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// usage marks an error as the caller's.
func usage(err error) error { return usageError{err} }

func usagef(format string, args ...any) error { return usage(fmt.Errorf(format, args...)) }

// silent ends the program with a code after everything was said.
type silent struct{ code int }

func (s silent) Error() string { return "" }

func exitCode(err error) int {
	var said silent
	var misused usageError
	var faults config.Faults
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &said):
		return said.code
	case errors.As(err, &misused), errors.As(err, &faults),
		status.Code(err) == codes.InvalidArgument:
		return exitUsage
	}
	return exitFailed
}

// errorText is what a person reads of an error.
func errorText(err error) string {
	if err == nil {
		return ""
	}
	if s, ok := status.FromError(err); ok {
		return s.Message()
	}
	return err.Error()
}
