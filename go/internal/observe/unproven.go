package observe

var (
	unverified = desc("unverified_total", "Events that were taken without a proof, because their "+
		"source proves nothing (no-proof) or does not enforce it.", "source", "reason")
	keyless = desc("ingress_key_unavailable_total",
		"Requests that were told to come again because the key that proves them was not there yet.",
		"source")
)

// unproven shows what of a source was taken, or could not be judged, for want of a proof.
func (s scrape) unproven(source *Source) {
	for reason, n := range source.Unverified {
		s.counter(unverified, float64(n), source.Name, reason)
	}
	s.counter(keyless, float64(source.Unavailable), source.Name)
}
