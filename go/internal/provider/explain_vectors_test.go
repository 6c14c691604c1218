package provider_test

import (
	"bytes"
	"slices"
	"testing"

	"sluice/go/internal/provider"
	"sluice/go/internal/provider/catalogue"
	"sluice/go/internal/provider/catalogue/vectors"
)

// families has a sender of each kind of scheme, for what takes long with all of them.
var families = []string{
	"adyen", "aws-sns", "basic-auth", "box", "braintree", "discord", "hubspot", "mailgun",
	"microsoft-graph", "paypal", "plaid", "rfc9421", "sendgrid", "trello",
}

// unexplained are the spellings that nothing undoes: credentials, tokens, structured fields, and
// Discord's, which is taken; and a numbered family of fields, one of which came twice.
var unexplained = []string{
	"basic-auth-odd-encoding", "chargebee-odd-encoding", "discord-odd-encoding",
	"docusign-duplicate-header", "pipedrive-odd-encoding", "plaid-odd-encoding",
	"plaid-sandbox-odd-encoding", "postmark-odd-encoding", "rfc9421-odd-encoding",
}

// An explanation judges as the judge does. For a key that is merely another one it knows no
// mistake, whatever the family of the scheme; a field that came twice and an odd spelling it
// finds. It shows no secret, not even one that is a part of the signed text.
func TestEverySendersVectorsAreExplained(t *testing.T) {
	sets, err := vectors.Read("catalogue/testdata/vectors")
	if err != nil {
		t.Fatal(err)
	}
	kinds := []string{"good", "wrong-key", "odd-encoding", "duplicate-header"}
	for _, set := range sets {
		scheme, found := catalogue.Lookup(set.Provider)
		if !found {
			t.Fatalf("no profile %s", set.Provider)
		}
		for _, v := range set.Vectors {
			// The first vector of a kind has an id that ends with it.
			if v.ID != set.Provider+"-"+v.Kind ||
				v.Kind == "wrong-key" && !slices.Contains(families, set.Provider) ||
				!slices.Contains(kinds, v.Kind) {
				continue
			}
			r, err := v.Request()
			if err != nil {
				t.Fatal(err)
			}
			e, err := provider.Explain(scheme, v.Configured(), r, provider.Options{
				AllowLegacy: true, KeepUnusable: true, Components: v.Require,
			}, allSchemes())
			if err != nil {
				t.Fatalf("%s: %v", v.ID, err)
			}
			if got := e.Verdict.Outcome.String(); got != v.Expect && !slices.Contains(v.Also, got) {
				t.Errorf("%s: %s, want %s", v.ID, got, v.Expect)
			}
			for _, secret := range v.Secrets {
				for _, way := range e.Ways {
					if len(secret.Value) > 3 && bytes.Contains(way.Signed, []byte(secret.Value)) {
						t.Errorf("%s: a secret is in %q", v.ID, way.Signed)
					}
				}
			}
			broken := v.Kind == "odd-encoding" || v.Kind == "duplicate-header"
			proven := len(e.Findings) > 0 && e.Findings[0].Proven
			if proven != (broken && !slices.Contains(unexplained, v.ID)) {
				t.Errorf("%s: %s, %q", v.ID, e.Verdict.Outcome, names(e))
			}
		}
	}
}
