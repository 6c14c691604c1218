package main

import (
	"fmt"
	"slices"
	"strings"

	"sluice/go/internal/store/journal"
	"sluice/go/storebench/meter"
)

// subject is one thing that is measured by this program itself.
type subject struct {
	name    string
	measure func(meter.Case) (meter.Result, error)
}

var ours = []subject{
	{"journal", measureJournal}, {"store", measureStore}, {"life", measureLife},
	{"steady", measureLife}, {"open-fill", measureFill}, {"open", measureOpen},
}

// part is a group of subjects that are measured at the same sizes and groups.
type part struct {
	name     string
	subjects []string
	sizes    []int
	groups   []int
	once     bool // and not once a round
}

var (
	bothSizes = []int{1024, 16384}
	allGroups = []int{1, 16, 64, 256, 1024}
)

var parts = []part{
	{"append", []string{
		"raw-grow", "raw-fallocate", "raw-recycled", "raw-direct", "raw-direct-dsync",
		"journal", "store",
	}, bothSizes, allGroups, false},
	{"peers", []string{
		"postgres-insert", "postgres-copy", "sqlite", "pebble", "jetstream", "jetstream-batch",
	}, bothSizes, allGroups, false},
	{"life", []string{"life"}, []int{1024}, []int{64, 256}, false},
	{"steady", []string{"raw-direct-dsync", "steady"}, []int{1024}, []int{256}, true},
	{"open", []string{"open-fill", "open"}, []int{256}, []int{1024}, true},
}

// planned is a case and the part that it is of.
type planned struct {
	meter.Case
	part string
	once bool
}

// newPlan lists the cases of one round. What is compared stands together.
func newPlan(o options) (plan []planned, err error) {
	sizes, groups := append(bothSizes, 256), slices.Clone(allGroups)
	for _, n := range o.sizes {
		sizes = append(sizes, n)
	}
	groups = append(groups, o.groups...)
	slices.Sort(sizes)
	slices.Sort(groups)
	for _, once := range []bool{false, true} {
		for _, size := range slices.Compact(slices.Clone(sizes)) {
			one, err := buildFrame(size, 0)
			if err != nil {
				return nil, err
			}
			for _, group := range slices.Compact(slices.Clone(groups)) {
				for _, p := range parts {
					if p.once == once && p.has(o, size, group) {
						plan = append(plan, p.cases(o, size, group, len(one))...)
					}
				}
			}
		}
	}
	for _, c := range plan {
		need := int64(c.Events) * int64(c.Frame)
		if c.Subject == "open-fill" && need > pendingBytesMax {
			return nil, fmt.Errorf("-pending %d with bodies of %d bytes needs %d MB of disk, over %d",
				c.Events, c.Size, need>>20, pendingBytesMax>>20)
		}
	}
	return plan, nil
}

// has tells whether a part is measured at a size and a group: what the command line says, or its own.
func (p part) has(o options, size, group int) bool {
	sizes, groups := p.sizes, p.groups
	if o.sizes != nil {
		sizes = o.sizes
	}
	if o.groups != nil {
		groups = o.groups
	}
	return slices.Contains(sizes, size) && slices.Contains(groups, group)
}

func (p part) cases(o options, size, group, frame int) (list []planned) {
	for _, name := range p.subjects {
		if !o.wants(p, name) {
			continue
		}
		c := meter.Case{
			Subject: name, Size: size, Group: group, Frame: frame, Duration: o.duration,
			Stored: storedBytes(group, frame, journal.BlockSize), Backlog: o.backlog, Keys: o.keys,
		}
		switch name {
		case "life":
			c.Events = o.events
		case "steady":
			c.Duration = o.steady
		case "open-fill":
			c.Events = o.pending
		}
		list = append(list, planned{c, p.name, p.once})
	}
	return list
}

// wants tells whether a subject is asked for: by its part's name, or by a piece of its own.
func (o options) wants(p part, subject string) bool {
	if len(o.only) == 0 {
		return true
	}
	return slices.ContainsFunc(o.only, func(text string) bool {
		if slices.Contains(partNames(), text) {
			return text == p.name
		}
		return strings.Contains(subject, text)
	})
}
