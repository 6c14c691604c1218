// Sim judges admission in virtual time: the real controllers and the real decision code, between
// senders and stores that are models.
//
// This program is the control plane. It makes a control page, tunes it with the service that the
// daemon runs, and starts the world, bin/sluice-sim, which is the data plane's decision code with
// everything around it. The world stands still while a tick is computed, so that the same scenario
// and seed give the same run on any machine.
//
// It measures no real time and says nothing about the cost of anything. README.md has the form of
// the scenarios and how to read what is printed.
package main
