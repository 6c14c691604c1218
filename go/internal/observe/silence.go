package observe

import "time"

var (
	silent = desc("source_silent",
		"1 while nothing came from a source for longer than is usual for it, or allowed.", "source")
	heard = desc("source_last_event_seconds", "Time since a source was heard last.", "source")
)

// silence shows when a source was heard last.
func (s scrape) silence(source *Source) {
	s.gauge(silent, truth(source.Silent), source.Name)
	if !source.Heard.IsZero() {
		s.gauge(heard, max(time.Since(source.Heard).Seconds(), 0), source.Name)
	}
}
