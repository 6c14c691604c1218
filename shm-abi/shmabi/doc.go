// Package shmabi is the Go face of the shared-memory layout between data plane and control plane,
// and of the frame, which is the same in the lane and in the journal.
//
// It says where each word is and who may store it, and nothing of when: the protocol is in package
// lane. layout.go is generated from layout.abi. Mapped pages are only looked at through atomics,
// because the other process writes them while they are read; a view owns nothing and must not
// outlive its mapping.
package shmabi
