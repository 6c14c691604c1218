package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"sluice/go/internal/config"
	"sluice/go/internal/keyring"
	"sluice/go/internal/provider"
	pb "sluice/proto/sluice/v1"
)

func secretsCommand() *cobra.Command {
	return group("secrets", "see the secrets of sources, and take those that handshakes bring",
		secretsListCommand(), secretsLearnCommand(), secretsForgetCommand())
}

// learns tells whether a handshake of the provider brings a secret.
func learns(s *provider.Scheme) bool {
	return slices.ContainsFunc(s.Handshakes, func(h provider.Handshake) bool { return h.Store != nil })
}

func secretsListCommand() *cobra.Command {
	var where daemonFlags
	var inJSON bool
	cmd := &cobra.Command{
		Use: "list [SOURCE]", Short: "list where secrets come from and what they prove",
		Args: cobra.MaximumNArgs(1),
		Long: `Lists the secrets of sources: where each comes from, when it counts, how many events it has
proved since the start, and when the last one. What it is is shown nowhere. In a rotation the old
one may go when the new one proves everything and the old one nothing any more.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return where.call(cmd, func(ctx context.Context, d *remote) error {
				ctx, cancel := short(ctx)
				defer cancel()
				s, err := d.GetStatus(ctx, &pb.GetStatusRequest{})
				if err != nil {
					return err
				}
				if len(args) > 0 {
					s.Sources = slices.DeleteFunc(s.Sources, func(source *pb.SourceStatus) bool {
						return source.GetName() != args[0]
					})
					if len(s.Sources) == 0 {
						return usagef("the daemon has no source %q; see `sluice status`", args[0])
					}
				}
				if inJSON {
					return secretsJSON(cmd.OutOrStdout(), s.GetSources())
				}
				t := secretTable(cmd.OutOrStdout())
				for _, source := range s.GetSources() {
					secretRows(t, source)
				}
				return t.Flush()
			})
		},
	}
	where.add(cmd.Flags())
	asJSON(cmd, &inJSON, true)
	return cmd
}

func secretsJSON(w io.Writer, sources []*pb.SourceStatus) error {
	for _, source := range sources {
		for _, secret := range secretShapes(source.GetSecrets()) {
			line := struct {
				Source string `json:"source"`
				secretShape
			}{source.GetName(), secret}
			if err := jsonLine(w, line); err != nil {
				return err
			}
		}
	}
	return nil
}

// storeFlags say where the secrets of handshakes lie.
type storeFlags struct{ config string }

func (f *storeFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.config, "config", "", "the daemon's config `FILE`, to find its data_dir")
}

// store opens them. Only with keys can what is sealed be read.
func (f *storeFlags) store(keys bool) (*keyring.Store, error) {
	var c *config.Config
	var err error
	if f.config != "" {
		c, err = configPart(f.config, keys)
	} else {
		c, err = config.Default(config.Options{})
	}
	if err != nil {
		return nil, err
	}
	var raw [][]byte
	for _, key := range c.SecretsKey {
		raw = append(raw, key.Reveal())
	}
	return keyring.NewStore(filepath.Join(c.DataDir, "secrets"), raw)
}

func secretsForgetCommand() *cobra.Command {
	var where storeFlags
	cmd := &cobra.Command{
		Use: "forget SOURCE ID", Short: "drop a secret that a handshake brought",
		Args: cobra.ExactArgs(2),
		Long: `Drops a secret that a handshake brought, by what "sluice secrets list" shows behind
handshake:. A daemon that runs believes it no more after half a second. Called on the daemon's host,
as its user or as root, with what secrets_key of the config refers to.`,
		Example: `  sluice secrets forget asana 9f86d081 --config /etc/sluice/sluice.yaml`,
		RunE: func(cmd *cobra.Command, args []string) error {
			store, err := where.store(true)
			if err == nil {
				err = store.Forget(args[0], args[1])
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "source %s has no secret handshake:%s any more\n",
				args[0], args[1])
			return err
		},
	}
	where.add(cmd)
	return cmd
}

// printSecrets shows the secrets of sources that have several, or one that does not count for ever.
func printSecrets(w io.Writer, s *pb.Status) error {
	sources := slices.DeleteFunc(slices.Clone(s.GetSources()), func(source *pb.SourceStatus) bool {
		secrets := source.GetSecrets()
		return len(secrets) == 0 || len(secrets) == 1 && secrets[0].GetNotAfterNs() == 0
	})
	if len(sources) == 0 {
		return nil
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	t := secretTable(w)
	for _, source := range sources {
		secretRows(t, source)
	}
	return t.Flush()
}

func secretTable(w io.Writer) flusher {
	return table(w, "SOURCE", "SECRET", "KEY ID", "ROLE", "COUNTS", "VERIFIED", "LAST USED")
}

// flusher is a table that is being written.
type flusher interface {
	io.Writer
	Flush() error
}

func secretRows(t io.Writer, source *pb.SourceStatus) {
	for _, secret := range source.GetSecrets() {
		row(t, source.GetName(), secret.GetOrigin(), secret.GetKeyId(), secret.GetRole(),
			counts(secret, time.Now()), number(secret.GetVerified()), when(secret.GetLastUsedNs()))
	}
}

// counts says when a secret does.
func counts(s *pb.SecretStatus, now time.Time) string {
	from, to := s.GetNotBeforeNs(), s.GetNotAfterNs()
	switch {
	case from != 0 && now.UnixNano() < from:
		return "NOT before " + when(from)
	case to != 0 && now.UnixNano() >= to:
		return "EXPIRED " + when(to)
	case to != 0:
		return "until " + when(to)
	}
	return "yes"
}

type secretShape struct {
	Origin     string  `json:"origin"`
	KeyID      string  `json:"key_id"`
	Role       string  `json:"role"`
	NotBefore  *string `json:"not_before"`
	NotAfter   *string `json:"not_after"`
	Verified   uint64  `json:"verified"`
	LastUsedAt *string `json:"last_used_at"`
}

func secretShapes(secrets []*pb.SecretStatus) []secretShape {
	shapes := []secretShape{}
	for _, s := range secrets {
		shapes = append(shapes, secretShape{s.GetOrigin(), s.GetKeyId(), s.GetRole(),
			moment(s.GetNotBeforeNs()), moment(s.GetNotAfterNs()), s.GetVerified(),
			moment(s.GetLastUsedNs())})
	}
	return shapes
}
