package config

import (
	"strconv"
	"strings"
	"time"
)

const (
	defaultKept = Days(7 * 24 * time.Hour)
	defaultDead = Days(30 * 24 * time.Hour)
	// journalMin is what a journal needs to work at all: a 256 MiB file system has room for it.
	journalMin = 64 << 20
	keptMax    = Days(10 * 365 * 24 * time.Hour)
)

// Journal is what is kept on disk.
type Journal struct {
	Retention Retention `yaml:"retention"`
}

// Retention says how long events are kept that are delivered. What is not is kept beyond it.
type Retention struct {
	Age  Days `yaml:"age"`  // from the receipt on; at least every dedup window
	Size Size `yaml:"size"` // that the journal may take; 0: what its file system gives
	Dead Days `yaml:"dead"` // how long dead letters wait for an operator
}

// Days is a duration that is also written in whole days, as 7d.
type Days time.Duration

// String is the form that a config takes.
func (d Days) String() string {
	const day = Days(24 * time.Hour)
	if d != 0 && d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	return time.Duration(d).String()
}

// MarshalText writes the form that a config takes.
func (d Days) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

func parseDays(text string) (Days, error) {
	if number, found := strings.CutSuffix(text, "d"); found {
		if n, err := strconv.ParseUint(number, 10, 16); err == nil {
			return Days(n) * Days(24*time.Hour), nil
		}
	}
	d, err := parseDuration(text)
	if err != nil {
		return 0, wrong("write it with a unit, as 7d, 36h or 90m", "%q is not a duration", text)
	}
	return Days(d), nil
}

func (r *reader) journal(t *table) Journal {
	of := r.table(t.get("retention"))
	j := Journal{Retention: Retention{
		Age:  value(of, "age", defaultKept, parseDays, between(Days(time.Minute), keptMax)),
		Size: value(of, "size", 0, parseSize, nothingOr(Size(journalMin))),
		Dead: value(of, "dead", defaultDead, parseDays, between(Days(time.Minute), keptMax)),
	}}
	of.end()
	t.end()
	return j
}

// nothingOr takes 0, and what is at least as much as something.
func nothingOr(least Size) func(Size) error {
	return func(s Size) error {
		if s == 0 {
			return nil
		}
		return atLeast(least)(s)
	}
}

// windows holds the dedup windows against the age that a rebuilt index can know keys of.
func (r *reader) windows(c *Config) {
	for i := range c.Sources {
		if s := &c.Sources[i]; s.Dedup > time.Duration(c.Journal.Retention.Age) {
			r.fault("sources."+s.Name+".dedup", "lower it, or raise journal.retention.age",
				"%v is longer than events are kept, which is %v", s.Dedup, c.Journal.Retention.Age)
		}
	}
}
