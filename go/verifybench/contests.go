package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/PaddleHQ/paddle-go-sdk/v4"
	"github.com/PagerDuty/go-pagerduty/webhookv3"
	"github.com/google/go-github/v88/github"
	line "github.com/line/line-bot-sdk-go/v8/linebot/webhook"
	"github.com/sendgrid/sendgrid-go/helpers/eventwebhook"
	"github.com/slack-go/slack"
	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"
	stripe "github.com/stripe/stripe-go/v85/webhook"
	svix "github.com/svix/svix-webhooks/go"
	twilio "github.com/twilio/twilio-go/client"

	"sluice/go/internal/provider"
)

// The families, as the columns name them. Those of HMAC are held against the primitive. A signed
// form is not: its parameters are decoded and sorted before there is a text for the primitive.
const (
	hexBody    = "hmac-hex-body"
	base64Body = "hmac-base64-body"
	timeBody   = "hmac-time-body"
	urlBody    = "hmac-url-body"
	form       = "form"
	asymmetric = "asymmetric"
	token      = "token"
)

// Whose the libraries are.
const (
	official  = "the provider's own"
	community = "its community's"
)

const (
	key    = "k3y-for-tests"
	rawKey = "k3y-for-tests-24-bytes.."
)

// contests are all that there are, in the order of the table.
func contests() []contest {
	shared := provider.Secret{Value: key}
	whsec := "whsec_" + base64.StdEncoding.EncodeToString([]byte(rawKey))
	sha := mac(sha256.New, key)
	list := []contest{{
		provider: "github", family: hexBody, sign: shared,
		body:   jsonBody(`{"action":"opened",`, `}`),
		module: "github.com/google/go-github/v88", owner: community,
		library: func(d *delivery) judge {
			return func() bool {
				signature := d.header.Get(github.SHA256SignatureHeader)
				return github.ValidateSignature(signature, d.body, []byte(key)) == nil
			}
		},
		text: bodyOf, signature: inHex("X-Hub-Signature-256", "sha256="), primitive: sha,
	}, {
		provider: "pagerduty", family: hexBody, sign: shared,
		body:   jsonBody(`{"event":{"id":"01ABC","event_type":"incident.triggered",`, `}}`),
		module: "github.com/PagerDuty/go-pagerduty", owner: official,
		library: func(d *delivery) judge {
			return reading(d, func(r *http.Request) bool {
				return webhookv3.VerifySignature(r, key) == nil
			})
		},
		text: bodyOf, signature: inHex("X-PagerDuty-Signature", "v1="), primitive: sha,
	}, {
		provider: "line", family: base64Body, sign: shared,
		body: jsonBody(`{"events":[{"type":"message","webhookEventId":"01","message":{`,
			`}}]}`),
		module: "github.com/line/line-bot-sdk-go/v8", owner: official,
		library: func(d *delivery) judge {
			return func() bool {
				return line.ValidateSignature(key, d.header.Get("X-Line-Signature"), d.body)
			}
		},
		text: bodyOf, signature: inBase64("X-Line-Signature", ""), primitive: sha,
	}, {
		provider: "stripe", family: timeBody, sign: shared,
		body:   jsonBody(`{"id":"evt_1","object":"event",`, `,"type":"charge.succeeded"}`),
		module: "github.com/stripe/stripe-go/v85", owner: official,
		library: func(d *delivery) judge {
			return func() bool {
				return stripe.ValidatePayload(d.body, d.header.Get("Stripe-Signature"), key) == nil
			}
		},
		text:      func(d *delivery) []byte { return join(d.time, ".", d.body) },
		signature: inHex("Stripe-Signature", "v1="), primitive: sha,
	}, {
		provider: "slack", family: timeBody, sign: shared,
		body: jsonBody(`{"team_id":"T1","event":{"type":"message",`,
			`},"type":"event_callback","event_id":"Ev1"}`),
		module: "github.com/slack-go/slack", owner: community,
		library: func(d *delivery) judge {
			return func() bool {
				v, err := slack.NewSecretsVerifier(d.header, key)
				if err != nil {
					return false
				}
				_, err = v.Write(d.body)
				return err == nil && v.Ensure() == nil
			}
		},
		text:      func(d *delivery) []byte { return join("v0:"+d.time, ":", d.body) },
		signature: inHex("X-Slack-Signature", "v0="), primitive: sha,
	}, {
		provider: "paddle", family: timeBody, sign: shared,
		body:   jsonBody(`{"event_id":"evt_1","event_type":"transaction.completed",`, `}`),
		module: "github.com/PaddleHQ/paddle-go-sdk/v4", owner: official,
		library: func(d *delivery) judge {
			// A longer tolerance than ours, since the clock runs on while the request is judged.
			v := paddle.NewWebhookVerifier(key, paddle.VerifierWithTimestampTolerance(5*time.Minute))
			return reading(d, func(r *http.Request) bool {
				ok, err := v.Verify(r)
				return ok && err == nil
			})
		},
		text:      func(d *delivery) []byte { return join(d.time, ":", d.body) },
		signature: inHex("Paddle-Signature", "h1="), primitive: sha,
	}, {
		provider: "svix", family: timeBody, sign: provider.Secret{Value: whsec},
		body:   jsonBody(`{"type":"made",`, `}`),
		module: "github.com/svix/svix-webhooks", owner: official,
		library: func(d *delivery) judge {
			v, err := svix.NewWebhook(whsec)
			return func() bool { return err == nil && v.Verify(d.body, d.header) == nil }
		},
		text:      func(d *delivery) []byte { return join(d.id+"."+d.time, ".", d.body) },
		signature: inBase64("Svix-Signature", "v1,"), primitive: mac(sha256.New, rawKey),
	}, {
		provider: "standard-webhooks", family: timeBody, sign: provider.Secret{Value: whsec},
		body:   jsonBody(`{"type":"made",`, `}`),
		module: "github.com/standard-webhooks/standard-webhooks/libraries", owner: official,
		library: func(d *delivery) judge {
			v, err := standard.NewWebhook(whsec)
			return func() bool { return err == nil && v.Verify(d.body, d.header) == nil }
		},
		text:      func(d *delivery) []byte { return join(d.id+"."+d.time, ".", d.body) },
		signature: inBase64("Webhook-Signature", "v1,"), primitive: mac(sha256.New, rawKey),
	}, {
		// Square's library is not on the module proxy.
		provider: "square", family: urlBody, sign: shared,
		body:      jsonBody(`{"event_id":"01ABC","type":"payment.created",`, `}`),
		text:      func(d *delivery) []byte { return join(d.url, "", d.body) },
		signature: inBase64("X-Square-Hmacsha256-Signature", ""), primitive: sha,
	}, {
		provider: "twilio", family: form, sign: shared, body: formBody,
		module: "github.com/twilio/twilio-go", owner: official,
		library: func(d *delivery) judge {
			v := twilio.NewRequestValidator(key)
			return func() bool {
				return v.ValidateBody(d.url, d.body, d.header.Get("X-Twilio-Signature"))
			}
		},
		text: sortedParams, signature: inBase64("X-Twilio-Signature", ""),
		primitive: mac(sha1.New, key),
	}, {
		provider: "gitlab", family: token, sign: shared,
		body:      jsonBody(`{"object_kind":"push",`, `}`),
		text:      func(*delivery) []byte { return []byte(key) },
		signature: asWritten("X-Gitlab-Token"),
		primitive: func(text, signature []byte) judge {
			return func() bool { return subtle.ConstantTimeCompare(text, signature) == 1 }
		},
	}, sendgridContest(), discordContest()}
	for i := range list {
		if list[i].verify == (provider.Secret{}) {
			list[i].verify = list[i].sign
		}
	}
	return list
}

func sendgridContest() contest {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err) // crypto/rand never fails, and the curve is one that every build has
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		panic(err)
	}
	public, err := x509.MarshalPKIXPublicKey(private.Public())
	if err != nil {
		panic(err)
	}
	shown := base64.StdEncoding.EncodeToString(public)
	return contest{
		provider: "sendgrid", family: asymmetric,
		body:   jsonBody(`[{"event":"open","sg_event_id":"c2cx",`, `}]`),
		sign:   provider.Secret{Value: base64.StdEncoding.EncodeToString(secret)},
		verify: provider.Secret{Value: shown},
		module: "github.com/sendgrid/sendgrid-go", owner: official,
		library: func(d *delivery) judge {
			public, err := eventwebhook.ConvertPublicKeyBase64ToECDSA(shown)
			return func() bool {
				if err != nil {
					return false
				}
				ok, err := eventwebhook.VerifySignature(public, d.body,
					d.header.Get(eventwebhook.VerificationHTTPHeader),
					d.header.Get(eventwebhook.TimestampHTTPHeader))
				return ok && err == nil
			}
		},
		text:      func(d *delivery) []byte { return join(d.time, "", d.body) },
		signature: inBase64(eventwebhook.VerificationHTTPHeader, ""),
		primitive: func(text, signature []byte) judge {
			return func() bool {
				sum := sha256.Sum256(text)
				return ecdsa.VerifyASN1(&private.PublicKey, sum[:], signature)
			}
		},
	}
}

// discordContest has no library: Discord's pages name none for Go, they show the primitive.
func discordContest() contest {
	seed := bytes.Repeat([]byte{7}, ed25519.SeedSize)
	public, _ := ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey)
	return contest{
		provider: "discord", family: asymmetric,
		body:      jsonBody(`{"version":1,"type":1,"event":{"type":"ENTITLEMENT_CREATE",`, `}}`),
		sign:      provider.Secret{Value: hex.EncodeToString(seed)},
		verify:    provider.Secret{Value: hex.EncodeToString(public)},
		text:      func(d *delivery) []byte { return join(d.time, "", d.body) },
		signature: inHex("X-Signature-Ed25519", ""),
		primitive: func(text, signature []byte) judge {
			return func() bool { return ed25519.Verify(public, text, signature) }
		},
	}
}

// reading is for a library that reads the body from a request and puts back a copy.
func reading(d *delivery, accepts func(*http.Request) bool) judge {
	request := &http.Request{Method: http.MethodPost, Header: d.header}
	return func() bool {
		request.Body = io.NopCloser(bytes.NewReader(d.body))
		return accepts(request)
	}
}

func bodyOf(d *delivery) []byte { return d.body }

func join(before, between string, body []byte) []byte {
	return slices.Concat([]byte(before), []byte(between), body)
}

// sortedParams is what Twilio signs of a form: the URL, then each name and value in their order.
func sortedParams(d *delivery) []byte {
	params, err := url.ParseQuery(string(d.body))
	if err != nil {
		return nil // No signature fits nothing.
	}
	var names []string
	for name := range params {
		names = append(names, name)
	}
	slices.Sort(names)
	text := []byte(d.url)
	for _, name := range names {
		text = append(append(text, name...), params.Get(name)...)
	}
	return text
}
