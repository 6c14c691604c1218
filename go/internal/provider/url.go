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
