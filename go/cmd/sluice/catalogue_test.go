package main

import (
	"strings"
	"testing"

	"sluice/go/internal/config"
)

func TestASenderThatSignsForAllItsCustomersIsHeldToOne(t *testing.T) {
	const arn = `{role: topic_arn, value: "arn:aws:sns:eu-west-1:1:orders"}`
	for secrets, want := range map[string]int{"": 1, "secrets: []": 1, "secrets: [" + arn + "]": 0} {
		text := "sources:\n  aws-sns:\n    deliver: []\n    " + secrets + "\n"
		c, err := config.Parse("sluice.yaml", []byte(text), configOptions(true))
		if err != nil {
			t.Fatal(err)
		}
		warned := 0
		for _, w := range c.Warnings {
			if strings.Contains(w.Problem, "topic_arn") && w.Line > 0 && w.Mend != "" {
				warned++
			}
		}
		if warned != want {
			t.Errorf("%q: warned %d times, want %d: %v", secrets, warned, want, c.Warnings)
		}
	}
}
