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

// verifyWeightMax is how many requests whose proofs take long a worker may have unanswered. What
// lies behind them in the lane waits for as many of about 100 µs.
const verifyWeightMax = 32

// weigh tells the data plane which sources' proofs take long. A proof that is not there yet does not.
func (p *plan) weigh() {
	p.snapshot.VerifyWeightMax = verifyWeightMax
	for _, s := range p.snapshot.Sources {
		if proof := p.proofs[s.Id].Load(); proof != nil && proof.Heavy() {
			s.VerifyWeight = 1
		}
	}
}
