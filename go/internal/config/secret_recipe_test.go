package config

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestASecretIsReadAgainFromWhereItCame(t *testing.T) {
	files := map[string]string{"a.secret": "hunter2-a\n", "b.secret": "hunter2-b"}
	c := mustParse(t, `
sources:
  shop:
    provider: github
    secrets:
      - file:a.secret
      - {key_id: k1, value: "file:b.secret", not_before: 2027-01-01T00:00:00Z}
      - {role: old, command: {run: [/opt/vault, -x, hunter2-argument], every: 1m}}
`, testOptions(nil, files))
	secrets := c.Sources[0].Secrets
	files["a.secret"], files["b.secret"] = "hunter2-next", ""
	again, err := secrets[0].Again(nil)
	if err != nil || string(again.Reveal()) != "hunter2-next" {
		t.Errorf("read again: %q, %v", again.Reveal(), err)
	}
	if want := []string{testFolder + "/b.secret"}; !slices.Equal(secrets[1].Files(), want) {
		t.Errorf("files %q, want %q", secrets[1].Files(), want)
	}
	if _, err := secrets[1].Again(nil); err == nil || !strings.Contains(err.Error(), "is empty") {
		t.Errorf("an empty file gives %v", err)
	}
	command := secrets[2].Command()
	if command.Every != time.Minute || command.Timeout != 10*time.Second ||
		len(command.Run) != 3 || !secrets[2].IsZero() {
		t.Errorf("the command is %+v", command)
	}
	printed, err := secrets[2].Again([]byte("hunter2-printed"))
	const want = `{"role":"old","value":"hunter2-printed"}`
	if got := string(printed.Reveal()); err != nil || got != want {
		t.Errorf("the command's secret is %s, %v", got, err)
	}
	fault := secrets[2].Fault("it prints nothing", "mend it").String()
	const blamed = "sluice.yaml:8: sources.shop.secrets[2]: it prints nothing; mend it"
	if !strings.HasSuffix(fault, blamed) {
		t.Errorf("the fault is %q, want %q", fault, blamed)
	}
	for _, secret := range append(secrets, printed) {
		if strings.Contains(secret.Origin(), "hunter2") {
			t.Errorf("a secret shows: %s", secret.Origin())
		}
	}
}
