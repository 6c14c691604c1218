// Package observe shows the daemon to those who watch it: metrics for Prometheus, and whether it
// lives and is ready.
//
// It computes no policy and stores no history. What changes often is counted here (Committed,
// Attempted); everything else is read once a scrape, from the function that Options hands in and
// from the data planes' counters.
//
// A data plane's counters die with it. Detach takes their last values over, so that a total never
// goes backwards while this process lives. The numbers of a data plane are not a transaction: each
// word is loaded once, and two words may be of different moments.
package observe
