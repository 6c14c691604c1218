package observe

import (
	"strings"
	"testing"
	"time"
)

func TestBreakersAreShownWithTheirSignals(t *testing.T) {
	m := newMetrics(func(f *Facts) {
		f.Destinations = []Destination{{Name: "billing", Breaker: HalfOpen, Inflight: 3, Limit: 16}}
		f.DeliveredWaits = 5
		f.Breakers = []BreakerLook{
			{Name: "billing", State: HalfOpen, Signals: []BreakerSignal{
				{Name: "p99", Value: 0.25}, {Name: "pool", Value: 0.9, Stale: true},
			}},
			{Name: "orders-db", Group: true, State: Open, Alone: true},
		}
	}, nil)
	text := scrapeText(t, m)
	has(t, text,
		`webhook_breaker_state{destination="billing"} 1`,
		`webhook_breaker_group_state{group="orders-db"} 2`,
		`webhook_breaker_alone{breaker="billing"} 0`,
		`webhook_breaker_alone{breaker="orders-db"} 1`,
		`webhook_breaker_signal{breaker="billing",signal="p99"} 0.25`,
		`webhook_breaker_signal{breaker="billing",signal="pool"} 0.9`,
		`webhook_breaker_signal_stale{breaker="billing",signal="p99"} 0`,
		`webhook_breaker_signal_stale{breaker="billing",signal="pool"} 1`,
		`webhook_delivery_inflight{destination="billing"} 3`,
		`webhook_delivery_limit{destination="billing"} 16`,
		"webhook_delivered_waits 5")
	if strings.Contains(text, `group="billing"`) {
		t.Error("a destination is shown as a group")
	}
}

func TestTransitionsAreCountedByTheStateTheyLeadTo(t *testing.T) {
	m := newMetrics(nil, nil)
	for _, to := range []string{"open", "half_open", "open"} {
		m.Transitioned("billing", to)
	}
	has(t, scrapeText(t, m),
		`webhook_breaker_transitions_total{breaker="billing",to="open"} 2`,
		`webhook_breaker_transitions_total{breaker="billing",to="half_open"} 1`)
}

func TestADeliveryIsTimedFromTheReceiptOfItsEvent(t *testing.T) {
	m := newMetrics(nil, nil)
	m.Delivered("billing", 3*time.Second)
	m.Delivered("billing", -time.Second) // a clock that was set back
	has(t, scrapeText(t, m),
		`webhook_delivery_seconds_bucket{destination="billing",le="0.001"} 1`,
		`webhook_delivery_seconds_bucket{destination="billing",le="4.096"} 2`,
		`webhook_delivery_seconds_sum{destination="billing"} 3`)
}

func TestWhatAFilterSkippedTookNoTime(t *testing.T) {
	m := newMetrics(nil, nil)
	m.Attempted("billing", "skipped", 0, time.Second)
	text := scrapeText(t, m)
	has(t, text, `webhook_delivery_attempts_total{destination="billing",outcome="skipped"} 1`)
	if strings.Contains(text, "webhook_delivery_attempt_seconds_count") {
		t.Error("it is timed as an attempt")
	}
}
