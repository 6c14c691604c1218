// Package doctor looks at a host and says what sluice can do on it, and what to mend.
//
// It changes nothing: a file that it makes to try a folder is gone when it returns, and a port that
// it binds is let go. It reads no config file and starts nothing but `sluice-dataplane --probe`. A
// finding is advice; what a daemon does when the host is worse than it should be is its own affair.
//
// Everything it learns comes through a Host, so that each finding can be tested on a host that is
// not there.
package doctor
