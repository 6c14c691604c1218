package main

import (
	"context"
	"log/slog"

	"sluice/go/internal/config"
	"sluice/go/internal/keyring"
	"sluice/go/internal/provider"
	"sluice/go/internal/provider/catalogue"
)

// commandFaults runs the commands that give secrets, and says which of these do not serve.
func commandFaults(ctx context.Context, c *config.Config, log *slog.Logger) (faults config.Faults) {
	for i := range c.Sources {
		s := &c.Sources[i]
		var whole []config.Secret
		ran := 0
		for _, secret := range s.Secrets {
			if command := secret.Command(); command != nil {
				ran++
				run := keyring.Command{
					Args: command.Run, Every: command.Every, Timeout: command.Timeout,
				}
				output, err := run.Run(ctx, log)
				if err == nil {
					secret, err = secret.Again(output)
				}
				if err != nil {
					faults = append(faults, secret.Fault(err.Error(), "have the command print the secret"))
					continue
				}
			}
			whole = append(whole, secret)
		}
		if ran == 0 || len(whole) < len(s.Secrets) {
			continue
		}
		for _, f := range checkSecrets(schemeOf(s), whole, s.AllowLegacy) {
			blamed := whole[max(f.Index, 0)]
			faults = append(faults, blamed.Fault("the secret from "+blamed.Origin()+" does not serve: "+
				f.Problem, "have the command print it as the provider shows it"))
		}
	}
	return faults
}

// schemeOf is the scheme of a source whose config holds.
func schemeOf(s *config.Source) *provider.Scheme {
	if s.Verify == nil {
		scheme, _ := catalogue.Lookup(s.Provider)
		return scheme
	}
	scheme, _ := catalogue.Parse(s.Verify.YAML) // it was parsed when the config was read
	return scheme
}
