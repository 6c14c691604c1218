package catalogue_test

import (
	"slices"
	"testing"
	"time"

	"sluice/go/internal/provider"
	"sluice/go/internal/provider/catalogue"
	"sluice/go/internal/provider/catalogue/vectors"
)

func readSets(t testing.TB, folder string) []vectors.Set {
	t.Helper()
	sets, err := vectors.Read(folder)
	if err != nil {
		t.Fatal(err)
	}
	return sets
}

// readVectors is the set of one provider among those that were gathered elsewhere.
func readVectors(t testing.TB, name string) []vectors.Vector {
	t.Helper()
	for _, set := range readSets(t, "testdata/signatures") {
		if set.Provider == name {
			return set.Vectors
		}
	}
	t.Fatalf("no vectors of %s", name)
	return nil
}

func requestOf(t testing.TB, v *vectors.Vector) *provider.Request {
	t.Helper()
	r, err := v.Request()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestEveryVectorHasItsOutcome(t *testing.T) {
	// The gathered ones, of which none may go astray, and our own.
	for folder, least := range map[string][2]int{
		"testdata/signatures": {45, 643}, "testdata/vectors": {90, 900},
	} {
		sets, total := readSets(t, folder), 0
		for _, set := range sets {
			t.Run(folder[len("testdata/"):]+"/"+set.Provider, func(t *testing.T) {
				scheme := lookup(t, set.Provider)
				for i := range set.Vectors {
					judgeVector(t, scheme, &set.Vectors[i])
				}
			})
			total += len(set.Vectors)
		}
		if t.Logf("%s: %d vectors", folder, total); len(sets) < least[0] || total < least[1] {
			t.Errorf("%s: %d vectors of %d senders are not all", folder, total, len(sets))
		}
	}
}

func judgeVector(t *testing.T, scheme *provider.Scheme, v *vectors.Vector) {
	t.Helper()
	verifier, err := provider.Compile(scheme, v.Configured(), v.Options())
	if err != nil {
		t.Errorf("%s: %v", v.ID, err)
		return
	}
	verdict := verifier.Clone().Verify(requestOf(t, v))
	got := verdict.Outcome.String()
	if got != v.Expect && !slices.Contains(v.Also, got) {
		t.Errorf("%s: %s (%s), want %s or %q", v.ID, got, verdict.Detail, v.Expect, v.Also)
	} else if got != v.Expect {
		t.Logf("%s: %s, first choice is %s", v.ID, got, v.Expect)
	}
	if verdict.Outcome != provider.OK && (verdict.Detail == "" || verdict.EventID != nil) {
		t.Errorf("%s: refused without a reason, or with an id", v.ID)
	}
	if again := verifier.Verify(requestOf(t, v)); again.Outcome != verdict.Outcome {
		t.Errorf("%s: a second look gives %s", v.ID, again.Outcome)
	}
	if v.Answer != nil {
		judgeAnswer(t, v, verdict.Response)
		return
	}
	if v.Kind != "" && verdict.Response != nil {
		t.Errorf("%s: taken for a handshake", v.ID)
	}
	if !scheme.Unsigned() && (verdict.Outcome == provider.OK) != (verdict.Secret >= 0) {
		t.Errorf("%s: %s with secret %d", v.ID, got, verdict.Secret)
	}
	if v.Key != nil && verdict.Secret != *v.Key {
		t.Errorf("%s: proved by secret %d, want %d", v.ID, verdict.Secret, *v.Key)
	}
	if v.Event.ID != "" && string(verdict.EventID) != v.Event.ID ||
		v.Event.Type != "" && string(verdict.EventType) != v.Event.Type {
		t.Errorf("%s: event %q of type %q, want %+v", v.ID, verdict.EventID, verdict.EventType,
			v.Event)
	}
}

func judgeAnswer(t *testing.T, v *vectors.Vector, got *provider.Response) {
	t.Helper()
	if got == nil {
		t.Errorf("%s: no answer", v.ID)
		return
	}
	want := v.Answer
	var headers [][2]string
	for _, field := range got.Headers {
		headers = append(headers, [2]string{string(field.Name), string(field.Value)})
	}
	if got.Status != want.Status || got.ContentType != want.ContentType ||
		string(got.Body) != want.Body || !slices.Equal(headers, want.Headers) {
		t.Errorf("%s: %d %q %q %q, want %+v", v.ID, got.Status, got.ContentType, headers, got.Body,
			*want)
	}
	var learned []struct{ Role, Value string }
	for _, one := range got.Learned {
		learned = append(learned, struct{ Role, Value string }{one.Role, string(one.Value)})
	}
	if !slices.Equal(learned, v.Learned) {
		t.Errorf("%s: %d secrets are learned, want %d", v.ID, len(learned), len(v.Learned))
	}
}

// kindsOf are the kinds of vectors that a profile must have.
func kindsOf(s *provider.Scheme) []string {
	if s.Unsigned() {
		return []string{"good"}
	}
	kinds := []string{"good", "wrong-key", "rotated", "odd-encoding", "missing"}
	covers, timed, header := false, false, false
	for i := range s.AnyOf {
		v := &s.AnyOf[i]
		if v.Legacy {
			continue
		}
		algorithm := v.Proofs[0].Algorithm
		covers = covers || algorithm != provider.Token
		timed = timed || v.Timestamp.Tolerance > 0 || v.MaxAge > 0
		// A set has its signature where the first way to sign has it.
		header = header || i == 0 && (v.Signature.Kind == provider.SourceHeader ||
			v.Signature.Kind == provider.SourceNumbered || algorithm == provider.MessageSignature)
	}
	// Of the two ways of GitLab the better one has its vectors among the gathered ones.
	if covers && s.Name != "gitlab" {
		kinds = append(kinds, "tampered")
	}
	if timed && s.Name != "gitlab" {
		kinds = append(kinds, "stale")
	}
	if header {
		kinds = append(kinds, "duplicate-header")
	}
	return kinds
}

func TestEveryProfileShipsItsVectors(t *testing.T) {
	sets := map[string]vectors.Set{}
	for _, set := range readSets(t, "testdata/vectors") {
		sets[set.Provider] = set
	}
	for _, name := range catalogue.Names() {
		set, found := sets[name]
		if !found {
			t.Errorf("%s has no vectors: add it to testdata/vectors/senders.py", name)
			continue
		}
		kinds, shakes := map[string]bool{}, map[string]bool{}
		for _, v := range set.Vectors {
			kinds[v.Kind] = true
			shakes[v.Handshake] = true
		}
		scheme := lookup(t, name)
		for _, kind := range kindsOf(scheme) {
			if !kinds[kind] {
				t.Errorf("%s has no vector of the kind %s", name, kind)
			}
		}
		for _, shake := range scheme.Handshakes {
			if !shakes[shake.Name] {
				t.Errorf("%s: no vector for the handshake %q", name, shake.Name)
			}
		}
		for _, v := range set.Vectors {
			if v.Tolerance != nil && name != "gitlab" && !hasTolerance(scheme, *v.Tolerance) {
				t.Errorf("%s is judged with %ds, which is not the profile's own", v.ID, *v.Tolerance)
			}
		}
		delete(sets, name)
	}
	for name := range sets {
		t.Errorf("vectors of %s, which has no profile", name)
	}
}

func hasTolerance(s *provider.Scheme, seconds int64) bool {
	return slices.ContainsFunc(s.AnyOf, func(v provider.Variant) bool {
		return max(v.Timestamp.Tolerance, v.MaxAge) == time.Duration(seconds)*time.Second
	})
}

// What is signed in Go by the recipe of a set is what the set's generator signs.
func TestTheRecipesMakeWhatTheirSendersSend(t *testing.T) {
	for _, set := range readSets(t, "testdata/vectors") {
		scheme, recipe := lookup(t, set.Provider), set.Recipe
		at := time.Unix(1799999999, 0)
		signed, err := recipe.Sign(recipe.Secret, at, "")
		if err != nil {
			t.Errorf("%s: %v", set.Provider, err)
			continue
		}
		v := vectors.Vector{ID: set.Provider + " signed anew", Method: "POST", URL: signed.URL,
			Secrets: recipe.Secrets, Headers: signed.Headers, Now: at.Unix()}
		v.Body.UTF8 = signed.Body
		verifier, err := provider.Compile(scheme, v.Configured(),
			provider.Options{AllowLegacy: recipe.Legacy})
		if err != nil {
			t.Errorf("%s: %v", v.ID, err)
			continue
		}
		if got := verifier.Verify(requestOf(t, &v)); got.Outcome != provider.OK {
			t.Errorf("%s: %s (%s)", v.ID, got.Outcome, got.Detail)
		}
	}
}
