package observe

import (
	"math"
	"testing"
	"time"
)

func TestABacklogIsHeldAgainstItsRateAndRetention(t *testing.T) {
	m := New(Options{Version: "1", Ready: func() []string { return nil }, Facts: func() Facts {
		return Facts{
			Journal: Journal{
				Headroom: 4096, UndeliveredAge: 26 * time.Hour, RetentionAge: 24 * time.Hour,
				DeadDropped: 3, KeysLeft: true, DedupMemory: 65536, DedupMemoryShort: true,
			},
			Destinations: []Destination{
				{Name: "slow", Rate: 2.5, Drain: 40}, {Name: "down", Drain: math.Inf(1)},
			},
		}
	}})
	has(t, scrapeText(t, m), "webhook_journal_headroom_bytes 4096",
		"webhook_undelivered_oldest_seconds 93600", "webhook_retention_headroom_seconds -7200",
		"webhook_dead_letters_dropped_total 3", "webhook_journal_dedup_keys_left 1",
		"webhook_journal_dedup_memory_bytes 65536", "webhook_journal_dedup_memory_short 1",
		`webhook_delivery_rate{destination="slow"} 2.5`,
		`webhook_backlog_drain_seconds{destination="slow"} 40`,
		`webhook_backlog_drain_seconds{destination="down"} +Inf`)
}
