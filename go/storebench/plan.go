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

// bareDisk is the way that the journal writes.
const bareDisk = "raw-direct-dsync"

var (
	bothSizes = []int{1024, 16384}
	allGroups = []int{1, 16, 64, 256, 1024}
)

var parts = []part{
	{"append", []string{
		"raw-grow", "raw-fallocate", "raw-recycled", "raw-direct", bareDisk, "journal", "store",
	}, bothSizes, allGroups, false},
	{"peers", []string{
		"postgres-copy", "sqlite", "pebble", "jetstream", "jetstream-batch",
	}, bothSizes, allGroups, false},
	// Each event of a group has a connection of its own.
	{"peers", []string{"postgres-insert"}, bothSizes, []int{1, 16, insertConnectionsMax}, false},
	{"life", []string{"life"}, []int{1024}, []int{64, 256}, false},
	{"steady", []string{bareDisk, "steady", bareDisk}, []int{1024}, []int{256}, true},
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
	sizes, groups := slices.Clone(o.sizes), slices.Clone(o.groups)
	for _, p := range parts {
		sizes, groups = append(sizes, p.sizes...), append(groups, p.groups...)
	}
	slices.Sort(sizes)
	slices.Sort(groups)
	sizes, groups = slices.Compact(sizes), slices.Compact(groups)
	for _, once := range []bool{false, true} {
		for _, size := range sizes {
			one, err := buildFrame(size, 0)
			if err != nil {
				return nil, err
			}
			for _, group := range groups {
				for _, p := range parts {
					if p.once == once && p.has(o, size, group) {
						plan = append(plan, p.cases(o, size, group, len(one))...)
					}
				}
			}
		}
	}
	for _, c := range plan {
		if c.Stored > fileBytes {
			return nil, fmt.Errorf("a group of %d with bodies of %d bytes is over %d MB", c.Group, c.Size,
				fileBytes>>20)
		}
		need := int64(c.Events) * int64(c.Frame)
		if c.Subject == "open-fill" && need > pendingBytesMax {
			return nil, fmt.Errorf("-pending %d of %d bytes needs %d MB of disk, more than %d",
				c.Events, c.Size, need>>20, pendingBytesMax>>20)
		}
	}
	return plan, nil
}

// has tells whether a part is measured at a size and a group: those asked for, or its own.
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
			Stored: storedBytes(group, frame, journal.BlockSize), Segment: fileBytes,
			Backlog: o.backlog, Keys: o.keys,
		}
		if p.name == "steady" {
			c.Duration = max(o.duration, bareLeast)
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

// wants tells whether a subject is asked for: by its part's name, or by a piece of its own, which
// means the first part that it is in.
func (o options) wants(p part, subject string) bool {
	if len(o.only) == 0 {
		return true
	}
	return slices.ContainsFunc(o.only, func(text string) bool {
		if slices.Contains(partNames(), text) {
			return text == p.name
		}
		first := slices.IndexFunc(parts, func(q part) bool {
			return slices.Contains(q.subjects, subject)
		})
		return parts[first].name == p.name && strings.Contains(subject, text)
	})
}
