package provider

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"iter"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

var secretMistakes = []mistake{
	{
		name: "secret-blanks", facet: facetSecret, fault: faultSecret,
		says: "the secret has a line end or blanks around it that do not belong to it",
		mend: "write it without them: printf %s, not echo; a secret of Kubernetes keeps them too",
		try: secretTexts(func(text string, give func(string, string) bool) {
			give(strings.TrimSpace(text), "the secret without blanks around it")
		}),
	}, {
		name: "secret-line-end", facet: facetSecret, fault: faultSender,
		says: "the sender's secret ends with a line end that the configured one has not",
		mend: "set the secret at the sender anew, without a line end",
		try: secretTexts(func(text string, give func(string, string) bool) {
			_ = give(text+"\n", "the secret with LF") && give(text+"\r\n", "the secret with CRLF")
		}),
	}, {
		name: "secret-quotes", facet: facetSecret, fault: faultSecret,
		says: "the secret is wrapped in quotes, or has escapes or its name with it, as in an .env file",
		mend: "take what stands between the quotes, behind the equals sign",
		try: secretTexts(func(text string, give func(string, string) bool) {
			plain := strings.TrimSpace(text)
			_, value, _ := strings.Cut(plain, "=")
			_ = give(strings.Trim(plain, `"'`+"`"), "the secret without quotes") &&
				give(strings.Trim(value, `"'`), "what stands behind the equals sign") &&
				give(strings.ReplaceAll(plain, `\n`, "\n"), `\n in it as a line end`)
		}),
	}, {
		name: "secret-prefix", facet: facetSecret, fault: faultSecret,
		says: "the secret lacks the prefix that the sender shows it with, or has one that is not its",
		mend: "copy the whole text that the sender shows, and nothing else",
		try: secretTexts(func(text string, give func(string, string) bool) {
			for _, prefix := range secretPrefixes {
				if rest, had := strings.CutPrefix(text, prefix); had {
					if !give(rest, "the secret without "+prefix) {
						return
					}
				} else if !give(prefix+text, "the secret with "+prefix+" before it") {
					return
				}
			}
		}),
	}, {
		name: "secret-encoded", facet: facetSecret, fault: faultSecret,
		says: "the secret was encoded or decoded once more than the sender does",
		mend: "give the text that the sender shows; Kubernetes encodes what stands under data itself",
		try: secretTexts(func(text string, give func(string, string) bool) {
			// A key of arbitrary bytes is what key-form is for.
			if raw, ok := anyBase64(text); ok && printable(raw) &&
				!give(string(raw), "the secret decoded from base64") {
				return
			}
			if raw, err := hex.DecodeString(text); err == nil && printable(raw) &&
				!give(string(raw), "the secret decoded from hex") {
				return
			}
			if plain, err := url.QueryUnescape(text); err == nil &&
				!give(plain, "the secret without percent escapes") {
				return
			}
			if !printable([]byte(text)) {
				_ = give(base64.StdEncoding.EncodeToString([]byte(text)), "the secret as base64") &&
					give(hex.EncodeToString([]byte(text)), "the secret as hex")
				return
			}
			_ = give(strings.ToLower(text), "the secret in lower case") &&
				give(strings.ToUpper(text), "the secret in upper case")
		}),
	}, {
		name: "key-id", facet: facetSecret, fault: faultSecret,
		says: "the secret fits, but the request names another key_id or role, or none",
		mend: "give the secret the key_id and the role that the sender gives it",
		try: func(a attempt) iter.Seq[attempt] {
			return func(yield func(attempt) bool) {
				plain := a.withScheme("any key_id and role", func(v *Variant) {
					v.KeyID = Source{}
					for i := range v.Proofs {
						v.Proofs[i].Key.Role = ""
					}
				})
				plain.secrets = make([]Secret, len(a.secrets))
				for i, secret := range a.secrets {
					secret.KeyID, secret.Role = "", ""
					plain.secrets[i] = secret
				}
				if len(plain.scheme.Handshakes) > 0 {
					// A secret for a handshake may stand in for the one for events.
					bare := *plain.scheme
					bare.Handshakes, plain.scheme = nil, &bare
				}
				yield(plain)
			}
		},
	}, {
		name: "key-form", facet: facetSecret, fault: faultSender,
		says: "the sender makes its key of the secret in another way than this profile has it",
		mend: "write a scheme of your own under verify, with key: {encoding: ...} as found here",
		try:  rawKeys,
	}, {
		name: "secret-window", facet: facetSecret, fault: faultSecret,
		says: "the secret fits, but by not_before and not_after it did not count at this time",
		mend: "move the window, or let the sender use the secret that counts now",
		try: func(a attempt) iter.Seq[attempt] {
			return func(yield func(attempt) bool) {
				for i, secret := range a.secrets {
					if !secret.NotBefore.IsZero() || !secret.NotAfter.IsZero() {
						secret.NotBefore, secret.NotAfter = time.Time{}, time.Time{}
						if !yield(a.withSecret(i, secret, "the secret at any time")) {
							return
						}
					}
				}
			}
		},
	},
}

// secretPrefixes are those that senders show secrets with.
var secretPrefixes = []string{
	"whsec_", "whsk_", "whpk_", "sk_", "hmac-", "sha256=", "v1,", "Bearer ", "Token ", "Basic ",
}

// secretTexts makes the attempts that write a secret, or its password, in another way.
func secretTexts(
	make func(text string, give func(string, string) bool),
) func(attempt) iter.Seq[attempt] {
	return func(a attempt) iter.Seq[attempt] {
		return func(yield func(attempt) bool) {
			for i, secret := range a.secrets {
				more := true
				for _, field := range []*string{&secret.Value, &secret.Password, &secret.User} {
					was := *field
					if was == "" {
						continue
					}
					make(was, func(text, with string) bool {
						if text == was || text == "" {
							return true
						}
						*field = text
						more = yield(a.withSecret(i, secret, with))
						return more
					})
					if *field = was; !more {
						return
					}
				}
			}
		}
	}
}

// rawKeys makes a key of the secret in each way that senders do, whatever the scheme says.
func rawKeys(a attempt) iter.Seq[attempt] {
	return func(yield func(attempt) bool) {
		if !a.signs() {
			return // A token is a text, and so the secret's texts are all there is.
		}
		plain := a.withProofs("", func(p *Proof) {
			if p.Key.Encoding != KeySPKI && p.Key.Remote == nil {
				p.Key = KeyForm{Role: p.Key.Role}
			}
		})
		for i, secret := range a.secrets {
			for text, with := range keyTexts(secret.Value) {
				secret.Value = text
				if text != "" && !yield(plain.withSecret(i, secret, with)) {
					return
				}
			}
		}
	}
}

// keyTexts are the keys that a secret may stand for, with the words for it.
func keyTexts(text string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		bare := text
		for _, prefix := range secretPrefixes {
			bare = strings.TrimPrefix(bare, prefix)
		}
		for _, one := range []struct{ text, with string }{
			{text, "the whole text of the secret as the key"},
			{bare, "the text behind the prefix as the key"},
		} {
			if !yield(one.text, one.with) {
				return
			}
			if raw, ok := anyBase64(one.text); ok && !yield(string(raw), one.with+", from base64") {
				return
			}
			if raw, err := hex.DecodeString(one.text); err == nil &&
				!yield(string(raw), one.with+", from hex") {
				return
			}
			if plain, err := strconv.Unquote(`"` + one.text + `"`); err == nil &&
				!yield(plain, one.with+", escapes undone") {
				return
			}
		}
	}
}

// printable tells whether text is one that people write.
func printable(text []byte) bool {
	return !bytes.ContainsFunc(text, func(r rune) bool {
		return r == utf8.RuneError || r < ' ' && r != '\n' && r != '\r' && r != '\t'
	})
}

// anyBase64 decodes both alphabets, with and without padding.
func anyBase64(text string) ([]byte, bool) {
	bare := strings.TrimRight(text, "=")
	raw, err := base64.RawStdEncoding.DecodeString(bare)
	if err != nil {
		raw, err = base64.RawURLEncoding.DecodeString(bare)
	}
	return raw, err == nil && len(raw) > 0
}
