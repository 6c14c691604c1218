package observe

import "time"

// Secret is one secret of a source.
type Secret struct {
	Source string
	Secret string // where it comes from, never what it is; once in a source
	// Verified counts the events that it has proved.
	Verified uint64
	NotAfter time.Time // zero: it does not end
}

var (
	secretVerified = desc("secret_verified_total", "Events that a secret of a source has proved.",
		"source", "secret")
	secretExpires = desc("secret_expires_seconds",
		"Time until a secret of a source counts no more; below 0 it has ended.", "source", "secret")
)

func (s scrape) secrets(list []Secret, now time.Time) {
	for _, secret := range list {
		s.counter(secretVerified, float64(secret.Verified), secret.Source, secret.Secret)
		if !secret.NotAfter.IsZero() {
			s.gauge(secretExpires, secret.NotAfter.Sub(now).Seconds(), secret.Source, secret.Secret)
		}
	}
}
