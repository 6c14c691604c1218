package main

import "sluice/go/internal/provider"

// unfetched stands for the keys that senders publish where none is fetched: any may come later.
type unfetched struct{}

// Key never knows a key.
func (unfetched) Key(provider.KeyName) (*provider.PublicKey, provider.KeyState) {
	return nil, provider.KeyPending
}

// needsSecret tells whether a source of the scheme could take no event without a secret: not one
// that says itself who its senders are, or whose sender publishes its key.
func needsSecret(s *provider.Scheme) bool {
	_, err := provider.Compile(s, nil, provider.Options{AllowLegacy: true, Keys: unfetched{}})
	return err != nil
}
