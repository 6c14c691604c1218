package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// asJSON adds --json to a reading command.
func asJSON(cmd *cobra.Command, on *bool, lists bool) {
	text := "one JSON object"
	if lists {
		text = "one JSON object a line"
	}
	cmd.Flags().BoolVar(on, "json", false, text)
}

// jsonLine writes one object on one line.
func jsonLine(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(v)
}

// table lines columns up; it is written by Flush.
func table(w io.Writer, heads ...string) *tabwriter.Writer {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	row(t, heads...)
	return t
}

// row writes cells; what comes from senders or destinations can move no cursor and break no line.
func row(w io.Writer, cells ...string) {
	for i := range cells {
		cells[i] = printable(cells[i])
		if cells[i] == "" {
			cells[i] = "-"
		}
	}
	// An error of the output comes back at Flush.
	_, _ = fmt.Fprintln(w, strings.Join(cells, "\t"))
}

// printable replaces control characters and bytes that are not UTF-8.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == utf8.RuneError {
			return '·'
		}
		return r
	}, text)
}

// moment is a time for JSON; nil where there is none.
func moment(ns int64) *string {
	if ns == 0 {
		return nil
	}
	text := time.Unix(0, ns).UTC().Format(time.RFC3339Nano)
	return &text
}

// when is a time for people.
func when(ns int64) string {
	if ns == 0 {
		return ""
	}
	return time.Unix(0, ns).UTC().Format("2006-01-02 15:04:05Z")
}

// span is a duration for people, in whole seconds from a minute on.
func span(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	if d < time.Minute {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// bytesText is a size for people.
func bytesText(n uint64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	value, unit := float64(n), 0
	for value >= 1024 && unit < len(units)-1 {
		value, unit = value/1024, unit+1
	}
	if unit == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", value, units[unit])
}

// plural puts a number before a noun.
func plural(n uint64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
