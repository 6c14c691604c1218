package main

import (
	"fmt"

	"sluice/bench/referee"
	"sluice/go/storebench/meter"
)

// head says how the numbers of a run come about.
func (o options) head() referee.Head {
	device := "nothing here counts what the device writes"
	if name, err := meter.Device(o.dir); err == nil {
		device = "device bytes are what " + name + " wrote, for whomever"
	}
	return referee.Head{
		Title: "store bench", Make: "bench-store", Given: []string{"gate"}, Dir: o.dir,
		Notes: []string{
			fmt.Sprintf("short rows %v each, %d round(s) added up; sender's ids: %v", o.duration,
				o.rounds, o.keys),
			device,
		},
	}
}
