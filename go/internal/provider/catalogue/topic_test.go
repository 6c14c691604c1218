package catalogue_test

import (
	"testing"

	"sluice/go/internal/provider"
)

// Amazon signs for every account with the same key.
func TestANotificationOfAnotherTopicIsRefused(t *testing.T) {
	v := readVectors(t, "aws-sns")[0]
	for arn, want := range map[string]provider.Outcome{
		"arn:aws:sns:us-west-2:123456789012:MyTopic": provider.OK,
		"arn:aws:sns:us-west-2:999999999999:MyTopic": provider.BadSignature,
	} {
		secrets := append(v.Configured(), provider.Secret{Value: arn, Role: "topic_arn"})
		verifier, err := provider.Compile(lookup(t, "aws-sns"), secrets,
			provider.Options{AllowLegacy: true})
		if err != nil {
			t.Fatal(err)
		}
		got := verifier.Verify(requestOf(t, &v))
		if got.Outcome != want {
			t.Errorf("%s: %s (%s)", arn, got.Outcome, got.Detail)
		}
	}
}
