// Package e2e holds the tests that start sluice as an operator does: real processes of the release
// build, real sockets, real crashes.
//
// It contains no code of the product and reaches into none: what it knows comes through sockets,
// the admin API, the command line and the files on disk.
//
// The binaries are bin/sluice and bin/sluice-dataplane of the repository, which `make build` makes,
// or those in the folder SLUICE_BIN. SLUICE_SOAK=1 runs every count in full. SLUICE_SEED=N repeats
// a run; each test prints its seed.
package e2e
