package main

import (
	"errors"
	"slices"

	"sluice/go/internal/config"
	"sluice/go/internal/destination/transform"
	"sluice/go/internal/provider"
	"sluice/go/internal/provider/catalogue"
)

// configOptions says what the provider catalogue knows.
func configOptions(dev bool) config.Options {
	return config.Options{
		Dev: dev,
		Provider: func(name string) (config.Provider, bool) {
			scheme, ok := catalogue.Lookup(name)
			if !ok {
				return config.Provider{}, false
			}
			return configProvider(scheme), true
		},
		Providers: catalogue.Names(),
		CheckScheme: func(s config.Scheme) (config.Provider, []config.SchemeFault) {
			scheme, err := catalogue.Parse(s.YAML)
			if err != nil {
				return config.Provider{}, schemeFaults(err)
			}
			return configProvider(scheme), nil
		},
		CheckExpression: func(kind, text string) (err error) {
			if kind == "filter" {
				_, err = transform.NewFilter(text)
			} else {
				_, err = transform.NewTransform(kind, text)
			}
			return err
		},
	}
}

func configProvider(s *provider.Scheme) config.Provider {
	return config.Provider{
		Deadline: s.Contract.Deadline.Or(0), Methods: s.Methods(), NeedsSecret: needsSecret(s),
		Learns:     learns(s),
		ShedStatus: s.Contract.ShedStatus.Or(0),
		CheckSecrets: func(secrets []config.Secret, allowLegacy bool) []config.SecretFault {
			return checkSecrets(s, secrets, allowLegacy)
		},
		Unbound: func(secrets []config.Secret) string { return unbound(s, secrets) },
		Batches: s.Batch != nil, SignsURL: s.SignsURL(),
	}
}

// unbound is the first role of Binds that no secret has.
func unbound(s *provider.Scheme, secrets []config.Secret) string {
	for _, role := range s.Binds() {
		if !slices.ContainsFunc(secrets, func(secret config.Secret) bool {
			p, err := provider.ParseSecret(string(secret.Reveal()))
			return err == nil && p.Role == role
		}) {
			return role
		}
	}
	return ""
}

func checkSecrets(s *provider.Scheme, secrets []config.Secret,
	allowLegacy bool) []config.SecretFault {
	var parsed []provider.Secret
	for i, secret := range secrets {
		p, err := provider.ParseSecret(string(secret.Reveal()))
		if err != nil {
			return []config.SecretFault{{Index: i, Problem: err.Error()}}
		}
		parsed = append(parsed, p)
	}
	_, err := provider.Compile(s, parsed, provider.Options{AllowLegacy: allowLegacy,
		Keys: unfetched{}})
	if err == nil {
		return nil
	}
	if fault := (*provider.SecretError)(nil); errors.As(err, &fault) {
		return []config.SecretFault{{Index: fault.Index, Problem: fault.Reason}}
	}
	return []config.SecretFault{{Index: -1, Problem: err.Error()}}
}

// schemeFaults takes the joined faults of a scheme apart.
func schemeFaults(err error) []config.SchemeFault {
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		var list []config.SchemeFault
		for _, one := range many.Unwrap() {
			list = append(list, schemeFaults(one)...)
		}
		return list
	}
	if fault := (*catalogue.Fault)(nil); errors.As(err, &fault) {
		return []config.SchemeFault{{Line: fault.Line, Path: fault.Key, Problem: fault.Text}}
	}
	return []config.SchemeFault{{Line: 1, Problem: err.Error()}}
}
