// Package dataplane speaks to data plane processes: it knows their programs, starts one, dials its
// gRPC socket, takes its descriptors over, and sees it die.
//
// It decides nothing: which one runs, when and how often is the supervisor's. It reads no lane.
package dataplane
