package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"time"

	"sluice/go/internal/admin"
	"sluice/go/internal/config"
	"sluice/go/internal/ingest"
	"sluice/go/internal/keyfetch"
	"sluice/go/internal/keyring"
	"sluice/go/internal/observe"
	"sluice/go/internal/provider"
)

const (
	// secretsFolder lies in the data directory.
	secretsFolder = "secrets"
	// placesShown bounds the lines about places of published keys.
	placesShown = 8
)

// openSecrets takes up what keeps the secrets of sources.
func (d *Daemon) openSecrets() error {
	c := d.o.Config
	var keys [][]byte
	for _, key := range c.SecretsKey {
		keys = append(keys, key.Reveal())
	}
	store, err := keyring.NewStore(filepath.Join(c.DataDir, secretsFolder), keys)
	if err != nil {
		return err
	}
	d.public = keyfetch.New(keyfetch.Options{Log: d.log})
	d.keys = keyring.Open(keyring.Options{Store: store, Log: d.log})
	if c.Dev {
		return nil // whoever develops may want to look into a dump
	}
	if err := keyring.KeepFromDumps(); err != nil {
		d.log.Warn("a core dump of this process would hold secrets", "error", err)
	}
	return nil
}

// closeSecrets ends what is fetched.
func (d *Daemon) closeSecrets() {
	if d.public != nil {
		d.public.Close()
	}
}

// prove puts the secrets of now into the places of a plan's proofs. Commands that give some are run
// where fresh is set, else only those whose secret is not known.
func (d *Daemon) prove(ctx context.Context, p *plan, fresh bool) error {
	var wanted []keyring.Wanted
	for i := range p.config.Sources {
		w, err := p.wanted(&p.config.Sources[i], d.public)
		if err != nil {
			return fmt.Errorf("source %s: %w", p.config.Sources[i].Name, err)
		}
		wanted = append(wanted, w)
	}
	secrets, err := d.keys.Prepare(ctx, wanted, fresh)
	if err != nil {
		return blamed(p.config, err)
	}
	p.secrets = secrets
	d.fetchKeys(p)
	p.weigh()
	return nil
}

// wanted is what one source needs of the keyring. published are the keys that senders publish.
func (p *plan) wanted(s *config.Source, published provider.Keys) (keyring.Wanted, error) {
	id := idOf(p.catalogue.Sources, s.Name)
	scheme, place := p.schemes[id], p.proofs[id]
	from, err := provider.ParseIDFrom(s.IDFrom.String())
	if err != nil {
		return keyring.Wanted{}, err
	}
	w := keyring.Wanted{ID: id, Name: s.Name, Learns: s.Learn != "", First: s.Learn == "first"}
	options := provider.Options{
		IDFrom: from, Learn: w.Learns, AllowLegacy: s.AllowLegacy, Keys: published,
	}
	w.Compile = func(
		secrets []provider.Secret, proved func(secret int, atNS int64),
	) (func(), error) {
		verifier, err := provider.Compile(scheme, secrets, options)
		if err != nil {
			return nil, err
		}
		return func() { place.Store(&ingest.Proof{Verifier: verifier, Proved: proved}) }, nil
	}
	for _, secret := range s.Secrets {
		w.Secrets = append(w.Secrets, keyring.Secret{
			Origin: secret.Origin(), Files: secret.Files(), Command: commandOf(secret),
			Read: func(output []byte) ([]byte, error) {
				again, err := secret.Again(output)
				return slices.Clone(again.Reveal()), err
			},
		})
	}
	return w, nil
}

func commandOf(s config.Secret) *keyring.Command {
	c := s.Command()
	if c == nil {
		return nil
	}
	return &keyring.Command{Args: c.Run, Every: c.Every, Timeout: c.Timeout}
}

// blamed gives faults of secrets their lines in the config.
func blamed(c *config.Config, err error) error {
	var all []error
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		all = many.Unwrap()
	} else {
		all = []error{err}
	}
	var faults config.Faults
	for _, one := range all {
		if _, ok := one.(interface{ Unwrap() []error }); ok {
			one = blamed(c, one)
		}
		fault, deeper := (*keyring.Fault)(nil), config.Faults(nil)
		switch {
		case errors.As(one, &deeper):
			faults = append(faults, deeper...)
		case !errors.As(one, &fault):
			return err
		default:
			s, _ := c.Source(fault.Source)
			if s != nil && fault.Index >= 0 && fault.Index < len(s.Secrets) {
				faults = append(faults, s.Secrets[fault.Index].Fault(fault.Problem, fault.Mend))
				continue
			}
			faults = append(faults, config.Fault{
				File: cmp.Or(c.File, "the config"), Path: "sources." + fault.Source + ".secrets",
				Problem: fault.Problem, Mend: fault.Mend,
			})
		}
	}
	return faults
}

// learn keeps a secret that a handshake brought.
func (d *Daemon) learn(source uint32, peer netip.Addr, learned provider.Learned) error {
	err := d.keys.Learn(source, learned.Role, learned.Value, peer)
	if errors.Is(err, keyring.ErrUnasked) {
		return ingest.ErrUnasked
	}
	return err
}

// withSecrets adds what is wrong with secrets, and with the keys that senders publish, to what an
// operator should look at; it is no reason not to be ready.
func (d *Daemon) withSecrets(problems []string) []string {
	problems = append(problems, d.keys.Problems()...)
	shown := 0
	for _, place := range d.public.Places() { // strangers may have named some of them
		if place.Fault == nil || shown == placesShown {
			continue
		}
		shown++
		what := "requests that are signed with a key from there get 503"
		if place.Keys > 0 {
			what = fmt.Sprintf("%d keys from %s go on", place.Keys,
				place.Fetched.UTC().Format(time.RFC3339))
		}
		problems = append(problems, fmt.Sprintf("published keys %q: %v; %s", place.URL, place.Fault,
			what))
	}
	return problems
}

// fetchKeys begins to fetch the keys that are published at a place that a plan's schemes name, so
// that the first request need not come again.
func (d *Daemon) fetchKeys(p *plan) {
	for _, scheme := range p.schemes {
		d.public.Warm(scheme)
	}
}

// secretStatuses are the secrets of each source for status.
func (d *Daemon) secretStatuses() map[string][]admin.Secret {
	all := map[string][]admin.Secret{}
	for name, list := range d.keys.Statuses() {
		for _, s := range list {
			all[name] = append(all[name], admin.Secret(s))
		}
	}
	return all
}

// carried names where the requests of a source carry its secret itself.
func (d *Daemon) carried(name string) (c admin.Carried) {
	p := d.plan.Load()
	if p == nil {
		return c
	}
	scheme := p.schemes[idOf(p.catalogue.Sources, name)]
	if scheme == nil {
		return c
	}
	for i := range scheme.AnyOf {
		v := &scheme.AnyOf[i]
		if !slices.ContainsFunc(v.Proofs, func(p provider.Proof) bool {
			return p.Algorithm == provider.Token
		}) {
			continue
		}
		switch v.Signature.Kind {
		case provider.SourceHeader:
			c.Headers = append(c.Headers, v.Signature.Name)
		case provider.SourceQuery:
			c.Parameters = append(c.Parameters, v.Signature.Name)
		}
	}
	return c
}

// observeSecrets are the secrets of all sources for metrics. Where several of a source come from
// one place, they are told apart by a number.
func (d *Daemon) observeSecrets() (all []observe.Secret) {
	for name, list := range d.keys.Statuses() {
		seen := map[string]int{}
		for _, s := range list {
			label := s.Origin
			if seen[s.Origin]++; seen[s.Origin] > 1 {
				label = fmt.Sprintf("%s#%d", s.Origin, seen[s.Origin])
			}
			all = append(all, observe.Secret{
				Source: name, Secret: label, Verified: s.Verified, NotAfter: s.NotAfter,
			})
		}
	}
	return all
}
