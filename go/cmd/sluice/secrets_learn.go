package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"sluice/go/internal/keyring"
	"sluice/go/internal/provider/catalogue"
	pb "sluice/proto/sluice/v1"
)

// learnLook is how often it is looked whether the secret has come.
const learnLook = 250 * time.Millisecond

func secretsLearnCommand() *cobra.Command {
	var where storeFlags
	var admin daemonFlags
	var span time.Duration
	var count int
	var replace, show, detach bool
	cmd := &cobra.Command{
		Use: "learn SOURCE", Short: "take the secret that the sender's next handshake brings",
		Args: cobra.ExactArgs(1),
		Long: `Some senders make the secret up and hand it over when a webhook is set up (Asana, Notion).
Such a handshake proves nothing: whoever makes it decides what the source believes from then on.
So the daemon takes a secret only after this command, for a while, and no more than are asked for;
at all other times it answers 401 and shows a problem in status. The command waits until they have
come, and says from which address: make sure that it is the sender's. Interrupted, it ends the
leave.

Called on the daemon's host, as its user or as root. A secret that the sender wants to see again
(Notion) is printed with --show, which needs what secrets_key of the config refers to.`,
		Example: `  sluice secrets learn asana            # and now create the webhook
  sluice secrets learn notion --show    # and paste what it prints into Notion
  sluice secrets learn asana --replace --for 1h --config /etc/sluice/sluice.yaml`,
		RunE: func(cmd *cobra.Command, args []string) error {
			name := args[0]
			if show && detach {
				return usagef("--show waits for the secret and --detach does not: keep one")
			}
			admin.config = where.config
			before, err := sourceSecrets(cmd, &admin, name)
			if err != nil {
				return err
			}
			store, err := where.store(show)
			if err != nil {
				return err
			}
			window, err := store.OpenWindow(name, span, count, replace)
			if io := (*fs.PathError)(nil); err != nil && !errors.As(err, &io) {
				err = usage(err)
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "source %s takes %s until %s: have the sender make its "+
				"handshake now\n", name, plural(uint64(count), "secret", "secrets"),
				window.Until.Local().Format(time.TimeOnly))
			if detach {
				return nil
			}
			if err := awaitSecrets(cmd.Context(), store, name, window); err != nil {
				return err
			}
			if err := listLearned(cmd, &admin, name, before); err != nil {
				return err
			}
			return showLearned(cmd, store, name, window, show)
		},
	}
	where.add(cmd)
	cmd.Flags().StringVar(&admin.admin, "admin", "",
		"where the daemon is, `unix:PATH|HOST:PORT`; also "+adminVariable)
	cmd.Flags().DurationVar(&span, "for", 10*time.Minute, "how long, up to 24h")
	cmd.Flags().IntVar(&count, "count", 1, "how many secrets")
	cmd.Flags().BoolVar(&replace, "replace", false,
		"drop those that earlier handshakes brought, once the new one has come")
	cmd.Flags().BoolVar(&show, "show", false, "print the secret itself")
	cmd.Flags().BoolVar(&detach, "detach", false, "do not wait")
	return cmd
}

// sourceSecrets asks the daemon for the secrets of a source, by their origins. One whose provider
// brings none in a handshake is the caller's fault.
func sourceSecrets(cmd *cobra.Command, admin *daemonFlags, name string) (map[string]bool, error) {
	var found map[string]bool
	err := admin.call(cmd, func(ctx context.Context, d *remote) error {
		ctx, cancel := short(ctx)
		defer cancel()
		s, err := d.GetStatus(ctx, &pb.GetStatusRequest{})
		if err != nil {
			return err
		}
		for _, source := range s.GetSources() {
			if scheme, known := catalogue.Lookup(source.GetProvider()); source.GetName() == name {
				if known && !learns(scheme) {
					return usagef("%s brings no secret in a handshake: name one under secrets in the "+
						"config", source.GetProvider())
				}
				found = map[string]bool{}
				for _, secret := range source.GetSecrets() {
					found[secret.GetOrigin()] = true
				}
				return nil
			}
		}
		return usagef("the daemon has no source %q; see `sluice status`", name)
	})
	return found, err
}

// awaitSecrets waits until the window is spent. Its end is the end of the leave in any case.
func awaitSecrets(ctx context.Context, store *keyring.Store, name string, w keyring.Window) error {
	ctx, cancel := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer cancel()
	tick := time.NewTicker(learnLook)
	defer tick.Stop()
	for {
		switch open, err := store.Waits(name, w); {
		case err != nil:
			return err
		case !open && time.Now().Before(w.Until):
			return nil
		case !open:
			return errors.Join(errors.New("no handshake has brought a secret in time: has the sender "+
				"the address of the source?"), store.CloseWindow(name))
		}
		select {
		case <-ctx.Done():
			return errors.Join(errors.New("interrupted: no secret is taken any more"),
				store.CloseWindow(name))
		case <-tick.C:
		}
	}
}

// listLearned shows the secrets that the source has now and had not before.
func listLearned(
	cmd *cobra.Command, admin *daemonFlags, name string, before map[string]bool,
) error {
	now, err := sourceSecrets(cmd, admin, name)
	if err != nil {
		return err
	}
	for origin := range now {
		if !before[origin] {
			if _, err := fmt.Fprintf(cmd.ErrOrStderr(), "source %s has the secret %s\n", name,
				origin); err != nil {
				return err
			}
		}
	}
	return nil
}

// showLearned prints what came in the window.
func showLearned(
	cmd *cobra.Command, store *keyring.Store, name string, w keyring.Window, show bool,
) error {
	kept, err := store.Kept(name)
	if errors.Is(err, keyring.ErrKey) && !show {
		return nil // it was asked for without the key
	}
	if err != nil {
		return err
	}
	for _, k := range kept {
		if k.Window != w.ID {
			continue
		}
		_, err := fmt.Fprintf(cmd.ErrOrStderr(), "handshake:%s came from %s\n", k.ID, k.From)
		if err == nil && show {
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n", k.Reveal())
		}
		if err != nil {
			return err
		}
	}
	return nil
}
