package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"sluice/go/internal/provider"
	"sluice/go/internal/provider/catalogue"
)

// lookupScheme finds a provider, or says where they are listed.
func lookupScheme(name string) (*provider.Scheme, error) {
	if scheme, found := catalogue.Lookup(name); found {
		return scheme, nil
	}
	return nil, usagef("the catalogue has no provider %q; see `sluice providers list`", name)
}

// parseSecrets reads what stands behind --secret: a literal, env:NAME, file:PATH, or a JSON object
// of parts, whose values may be references too. No error repeats a secret.
func parseSecrets(texts []string) ([]provider.Secret, error) {
	secrets := make([]provider.Secret, 0, len(texts))
	for i, text := range texts {
		secret, err := parseSecret(text)
		if err != nil {
			return nil, usagef("--secret %d: %w", i+1, err)
		}
		secrets = append(secrets, secret)
	}
	return secrets, nil
}

func parseSecret(text string) (provider.Secret, error) {
	text, err := resolve(text)
	if err != nil {
		return provider.Secret{}, err
	}
	secret, err := provider.ParseSecret(text)
	if err != nil || !strings.HasPrefix(strings.TrimSpace(text), "{") {
		return secret, err
	}
	var errs [2]error
	secret.Value, errs[0] = resolve(secret.Value)
	secret.Password, errs[1] = resolve(secret.Password)
	return secret, errors.Join(errs[:]...)
}

func resolve(text string) (string, error) {
	if name, isEnv := strings.CutPrefix(text, "env:"); isEnv {
		value, set := os.LookupEnv(name)
		if !set {
			return "", fmt.Errorf("the environment variable %q is not set", name)
		}
		return value, nil
	}
	if path, isFile := strings.CutPrefix(text, "file:"); isFile {
		value, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		// Editors and `echo` leave one line end behind it.
		return strings.TrimSuffix(strings.TrimSuffix(string(value), "\n"), "\r"), nil
	}
	return text, nil
}
