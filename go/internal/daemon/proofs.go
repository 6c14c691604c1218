package daemon

import (
	"fmt"

	"sluice/go/internal/ingest"
	"sluice/go/internal/provider"
)

// prove puts the secrets of now into the places of a plan's proofs.
func (d *Daemon) prove(p *plan) error {
	for i := range p.config.Sources {
		s := &p.config.Sources[i]
		id := idOf(p.catalogue.Sources, s.Name)
		var secrets []provider.Secret
		for _, secret := range s.Secrets {
			parsed, err := provider.ParseSecret(string(secret.Reveal()))
			if err != nil {
				return fmt.Errorf("source %s: secret %s: %w", s.Name, secret.Origin(), err)
			}
			secrets = append(secrets, parsed)
		}
		from, err := provider.ParseIDFrom(s.IDFrom.String())
		if err != nil {
			return fmt.Errorf("source %s: %w", s.Name, err)
		}
		verifier, err := provider.Compile(p.schemes[id], secrets, provider.Options{IDFrom: from})
		if err != nil {
			return fmt.Errorf("source %s: %w", s.Name, err)
		}
		p.proofs[id].Store(&ingest.Proof{Verifier: verifier})
	}
	p.weigh()
	return nil
}

// weigh tells the data plane which sources' proofs take long.
func (p *plan) weigh() {}
