package keyfetch

import "time"

// Named bounds. Requests of strangers name keys, so all of this can be driven by them.
const (
	// placesMax is how many places are remembered.
	placesMax = 256
	// keysMax is how many keys one set may have.
	keysMax = 64
	// certificatesMax is how many certificates one chain may have.
	certificatesMax = 8
	// answerMax is the longest answer in bytes.
	answerMax = 256 << 10
	// fetchesMax is how many fetches run at a time.
	fetchesMax = 4
	// newPlacesMax and newPlaceEvery bound how many places are asked that were never heard of: so many
	// at once, and one more each time.
	newPlacesMax  = 16
	newPlaceEvery = 2 * time.Second
	// fetchTimeout bounds one fetch, connect to last byte.
	fetchTimeout = 5 * time.Second
	// lifetimeMin and lifetimeMax bound how long an answer counts as fresh, whatever the server says;
	// lifetime is for one that says nothing.
	lifetimeMin = 5 * time.Minute
	lifetime    = time.Hour
	lifetimeMax = 24 * time.Hour
	// staleMax is how long keys count that cannot be fetched again.
	staleMax = 3 * 24 * time.Hour
	// askAgain is how often a set is fetched again because it lacks a key.
	askAgain = 30 * time.Second
	// refusedFor is how long a refusal is believed.
	refusedFor = time.Minute
	// retryMin and retryMax bound the wait after a fetch that reached nobody; it doubles.
	retryMin = time.Second
	retryMax = time.Minute
)
