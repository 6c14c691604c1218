package main

import (
	"errors"
	"strings"
	"testing"

	"sluice/go/internal/config"
)

// The example shows every key, those of later versions too, and names files and variables that are
// not here. With the real catalogue and the real expressions nothing else may be wrong with it.
func TestTheExampleLacksOnlyWhatItsHostWouldHave(t *testing.T) {
	_, err := config.Load("../../internal/config/testdata/example.yaml", configOptions(false))
	var faults config.Faults
	if !errors.As(err, &faults) || len(faults) == 0 {
		t.Fatalf("its secrets are nowhere and it was taken: %v", err)
	}
	for _, f := range faults {
		text := f.String()
		lacking := false
		for _, why := range []string{"is not set", "cannot be read", "has no user"} {
			lacking = lacking || strings.Contains(text, why)
		}
		if !lacking {
			t.Error(text)
		}
	}
}
