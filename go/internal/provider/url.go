package provider

import "slices"

// SignsURL tells whether every way to sign, broken ones apart, covers the URL that the sender was
// given: nothing is proven then where nobody says what that is.
func (s *Scheme) SignsURL() bool {
	some := false
	for i := range s.AnyOf {
		v := &s.AnyOf[i]
		if v.Legacy {
			continue
		}
		if !slices.ContainsFunc(v.Content, func(p Part) bool {
			return p.Kind == PartURL || p.Kind == PartURLWithPort || p.Kind == PartURLWithoutPort
		}) {
			return false
		}
		some = true
	}
	return some
}

// Binds are the roles of secrets that hold what is signed to one customer of the sender, who signs
// alike for all of them. A source may lack them.
func (s *Scheme) Binds() (roles []string) {
	for i := range s.AnyOf {
		for _, p := range s.AnyOf[i].Content {
			if p.Kind == PartSecret && p.Source.Kind != SourceNone && !slices.Contains(roles, p.Role) {
				roles = append(roles, p.Role)
			}
		}
	}
	return roles
}
