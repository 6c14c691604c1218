// Package testserver runs real Postgres and Redis servers for the tests of this repository.
//
// It is no fake and sets no schema; what a test wants in a server it puts there itself. Only tests
// import it.
//
// A server ends with the process that started it, however that ends: the kernel signals it
// (PR_SET_PDEATHSIG), and a small shell that waits for the end of a pipe removes the files. So
// there is nothing to call at the end of a test binary. All data is below one folder in the
// temporary directory. Servers listen on 127.0.0.1, on ports below the range that the kernel gives
// to outgoing connections, so that a stopped one finds its port free when it starts again.
//
// Where a server is not installed the test is skipped with the reason; with SLUICE_NEED_SERVERS=1
// it fails instead.
package testserver
