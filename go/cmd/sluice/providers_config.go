package main

import (
	"fmt"
	"slices"
	"strings"

	"sluice/go/internal/provider"
)

// providerConfig is a source of the sender for a config file, which is taken as it is once the
// environment has the secrets.
func providerConfig(s *provider.Scheme) string {
	var out strings.Builder
	fmt.Fprintf(&out, "sources:\n  %s:\n    provider: %s\n    path: /hooks/%s\n",
		s.Name, s.Name, s.Name)
	if s.SignsURL() {
		fmt.Fprintf(&out, "    url: https://hooks.example.com/hooks/%s  # as it is entered there\n",
			s.Name)
	}
	if !slices.ContainsFunc(s.AnyOf, func(v provider.Variant) bool { return !v.Legacy }) {
		out.WriteString("    allow_legacy: true\n")
	}
	if secrets := configSecrets(s); len(secrets) > 0 {
		fmt.Fprintf(&out, "    secrets:\n      - %s\n", strings.Join(secrets, "\n      - "))
	}
	if roles := s.Learns(); len(roles) > 0 {
		fmt.Fprintf(&out, "    # The sender brings its secret when it is set up: before that run\n"+
			"    # sluice secrets learn %s --for 10m\n", s.Name)
	}
	out.WriteString("    deliver: []  # names of destinations\n")
	return out.String()
}

// configSecrets are the entries for the secrets that the scheme takes: those of its first way to
// sign that needs one, those of roles, and those that handshakes and the signed text want.
func configSecrets(s *provider.Scheme) []string {
	variable := strings.ToUpper(strings.NewReplacer("-", "_", ".", "_").Replace(s.Name))
	var list []string
	add := func(entry string) {
		if !slices.Contains(list, entry) {
			list = append(list, entry)
		}
	}
	named := func(role string) string {
		return fmt.Sprintf(`{role: %s, value: "env:%s_%s"}`, role, variable,
			strings.ToUpper(strings.ReplaceAll(role, "-", "_")))
	}
	learns := s.Learns()
	for i := range s.AnyOf {
		v := &s.AnyOf[i]
		for _, part := range v.Content {
			if part.Kind == provider.PartSecret && !slices.Contains(learns, part.Role) {
				add(named(part.Role))
			}
		}
		if v.Legacy && i > 0 {
			continue
		}
		for _, proof := range v.Proofs {
			if entry := configSecret(v, &proof, variable, named); entry != "" &&
				(len(learns) == 0 || proof.Key.Role != "" &&
					!slices.Contains(learns, proof.Key.Role)) {
				// One secret is enough where each proof takes the same form.
				if proof.Key.Role != "" || len(list) == 0 {
					add(entry)
				}
			}
		}
	}
	for _, h := range s.Handshakes {
		for _, match := range h.Match {
			if match.Secret != "" && !slices.Contains(learns, match.Secret) {
				add(named(match.Secret))
			}
		}
	}
	return list
}

// configSecret is the entry for the secret of one proof; empty: it needs none.
func configSecret(
	v *provider.Variant, p *provider.Proof, variable string, named func(string) string,
) string {
	switch {
	case p.Describe() == "" || p.Key.Remote != nil && len(p.Key.Remote.Post) == 0:
		return ""
	case p.Key.Remote != nil || p.Key.Encoding == provider.KeyBasic:
		return fmt.Sprintf(`{user: the-user, password: "env:%s_PASSWORD"}`, variable)
	case v.KeyID.Kind != provider.SourceNone || v.Items.KeyIDs:
		return fmt.Sprintf(`{key_id: the-id, value: "env:%s_SECRET"}`, variable)
	case p.Key.Role != "":
		return named(p.Key.Role)
	}
	return fmt.Sprintf(`"env:%s_SECRET"`, variable)
}
