"""The senders of the catalogue as data for generate.py, written from their documents and not from
the profiles."""
import base64

import keys

KEY, OTHER = "k3y-for-tests-0001", "k3y-for-tests-0002"
BODY = '{"id":"evt_01","type":"order.paid","event":"order.paid","note":"Gr\u00fc\u00dfe \\u00e9"}'
# The same as a sender with other habits writes it.
PRETTY = '{\r\n  "id": "evt_01",\r\n  "type": "order.paid"\r\n}\r\n'
SENDERS = []


def shared(value, **more):
    return {"type": "shared", "value": value} | more


def add(name, about, recipe, **more):
    sender = {"name": name, "about": about, "recipe": recipe, "body": BODY,
              "secrets": [shared(KEY)], "other": shared(OTHER)} | more
    SENDERS.append(sender)


def event(id_=None, type_=None):
    return {k: v for k, v in (("id", id_), ("type", type_)) if v}


def over_body(name, header, prefix="", alg="sha256", enc="hex", fields=(), key="text", **more):
    """An HMAC over nothing but the body."""
    recipe = {"alg": "hmac-" + alg, "enc": enc, "key": key, "text": "<body>",
              "headers": [["Content-Type", "application/json"], *map(list, fields),
                          [header, prefix + "<sig>"]]}
    more.setdefault("bodies", {"pretty": PRETTY, "empty": ""} if "body" not in more else {})
    add(name, f"HMAC-{alg.upper()} of the body in {header}, {enc}.", recipe, signature=header,
        **more)


for one in ("github", "github-enterprise"):
    over_body(one, "X-Hub-Signature-256", "sha256=",
              fields=[("X-GitHub-Event", "push"), ("X-GitHub-Delivery", "72d3162e-cc78")],
              event=event("72d3162e-cc78", "push"))
VERIFY = {"type": "shared", "value": "meta-verify", "role": "verify_token"}
CHALLENGE = "text/plain", [["X-Content-Type-Options", "nosniff"]]


def subscribe(answer="1158201444"):
    return [{"name": "subscribe", "method": "GET",
             "query": "?hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token=meta-verify",
             "secrets": [shared(KEY), VERIFY],
             "answer": {"status": 200, "content_type": CHALLENGE[0], "headers": CHALLENGE[1],
                        "body": answer}}]


META = '{"object":"page","entry":[{"id":"1","time":1767237945,"note":"paid"}]}'
over_body("meta", "X-Hub-Signature-256", "sha256=", body=META, event=event(type_="page"),
          secrets=[shared(KEY), VERIFY], handshakes=subscribe())
over_body("whatsapp", "X-Hub-Signature-256", "sha256=", event=event(type_="messages"),
          body='{"object":"whatsapp_business_account","entry":[{"id":"0","changes":[{"value":'
          '{"messages":[{"id":"wamid.1","text":{"body":"paid"}}]},"field":"messages"}]}]}',
          secrets=[shared(KEY), VERIFY], handshakes=subscribe())
over_body("bitbucket", "X-Hub-Signature", "sha256=",
          fields=[("X-Event-Key", "repo:push"), ("X-Request-UUID", "6ee7a45c")],
          event=event("6ee7a45c", "repo:push"))
over_body("jira", "X-Hub-Signature", "sha256=",
          fields=[("X-Atlassian-Webhook-Identifier", "1ba9c1f1")],
          body='{"timestamp":1767237945000,"webhookEvent":"jira:issue_updated","note":"paid"}',
          event=event("1ba9c1f1", "jira:issue_updated"))
over_body("intercom", "X-Hub-Signature", "sha1=", "sha1",
          body='{"type":"notification_event","topic":"contact.paid","id":"notif_1"}',
          event=event("notif_1", "contact.paid"))
over_body("dropbox", "X-Dropbox-Signature",
          body='{"list_folder":{"accounts":["dbid:paid"]},"delta":{"users":[1]}}',
          handshakes=[{"name": "challenge", "method": "GET", "query": "?challenge=a%26b",
                       "answer": {"status": 200, "content_type": CHALLENGE[0],
                                  "headers": CHALLENGE[1], "body": "a&b"}}])
over_body("nylas", "X-Nylas-Signature", event=event("evt_01", "order.paid"),
          handshakes=[{"name": "challenge", "method": "GET", "query": "?challenge=4d5e",
                       "answer": {"status": 200, "content_type": CHALLENGE[0],
                                  "headers": CHALLENGE[1], "body": "4d5e"}}])
over_body("pagerduty", "X-PagerDuty-Signature", "v1=",
          body='{"event":{"id":"01BP","event_type":"incident.paid"}}',
          event=event("01BP", "incident.paid"))
SENDERS[-1]["recipe"]["several"] = "<other>,v1=<sig>"
over_body("sentry", "Sentry-Hook-Signature",
          fields=[("Request-ID", "r-1"), ("Sentry-Hook-Resource", "issue")],
          event=event("r-1", "issue"))
over_body("airtable", "X-Airtable-Content-MAC", "hmac-sha256=", key="base64",
          body='{"base":{"id":"appPaid"},"webhook":{"id":"ach0"},'
          '"timestamp":"2026-01-01T03:25:45.000Z"}', tamper=("appPaid", "appPaud"),
          secrets=[shared("bWFjLXNlY3JldC0wMDAx")], other=shared("bWFjLXNlY3JldC0wMDAy"))
for one, brand in (("gitea", "Gitea"), ("forgejo", "Forgejo"), ("gogs", "Gogs")):
    over_body(one, f"X-{brand}-Signature",
              fields=[(f"X-{brand}-Delivery", "d-1"), (f"X-{brand}-Event", "push")],
              event=event("d-1", "push"))
over_body("circleci", "circleci-signature", "v1=", event=event("evt_01", "order.paid"))
over_body("coinbase-commerce", "X-CC-Webhook-Signature",
          body='{"id":1,"event":{"id":"24934862","type":"charge:paid"}}',
          event=event("24934862", "charge:paid"))
over_body("gocardless", "Webhook-Signature", event=event("WB1"),
          body='{"events":[{"id":"EV1","action":"paid"}],"meta":{"webhook_id":"WB1"}}')
over_body("razorpay", "X-Razorpay-Signature", fields=[("X-Razorpay-Event-Id", "ev-1")],
          event=event("ev-1", "order.paid"))
over_body("paystack", "x-paystack-signature", alg="sha512", event=event(type_="order.paid"))
over_body("pusher", "X-Pusher-Signature", fields=[("X-Pusher-Key", "278d425b")],
          secrets=[{"type": "keyed", "key_id": "278d425b", "value": KEY}],
          other={"type": "keyed", "key_id": "278d425b", "value": OTHER})
over_body("vercel", "x-vercel-signature", alg="sha1", event=event("evt_01", "order.paid"))
over_body("lemonsqueezy", "X-Signature", fields=[("X-Event-Name", "order_paid")],
          event=event(type_="order_paid"))
over_body("cal-com", "X-Cal-Signature-256", body='{"triggerEvent":"BOOKING_PAID","note":"paid"}',
          event=event(type_="BOOKING_PAID"))
over_body("checkout-com", "Cko-Signature", event=event("evt_01", "order.paid"))
over_body("launchdarkly", "X-LD-Signature", body='{"_id":"e1","kind":"flag","note":"paid"}',
          event=event("e1", "flag"))
over_body("snyk", "X-Hub-Signature", "sha256=", fields=[("X-Snyk-Event", "ping")],
          event=event(type_="ping"))
over_body("greenhouse", "Signature", "sha256 ", fields=[("Greenhouse-Event-ID", "e-1")],
          body='{"action":"hire_paid","payload":{}}', event=event("e-1", "hire_paid"))
over_body("asana", "X-Hook-Signature", body='{"events":[{"action":"changed","note":"paid"}]}',
          handshakes=[{"name": "secret", "headers": [["X-Hook-Secret", "b537207f20cbfa02"]],
                       "secrets": [], "body": "{}",
                       "answer": {"status": 200,
                                  "headers": [["X-Hook-Secret", "b537207f20cbfa02"]]},
                       "learned": [{"role": "hook", "value": "b537207f20cbfa02"}]}])
NOTION = "secret_tMrlL1qK5vuQAh1b6cZGhFChZTSYJlce98V0pYn7yBl"
over_body("notion", "X-Notion-Signature", "sha256=", event=event("evt_01", "order.paid"),
          handshakes=[{"name": "verification token", "secrets": [],
                       "body": f'{{"verification_token":"{NOTION}"}}',
                       "answer": {"status": 200},
                       "learned": [{"role": "hook", "value": NOTION}]}])
over_body("easypost", "X-Hmac-Signature", "hmac-sha256-hex=", key="nfkd",
          secrets=[shared("s\u00e9cret\u2460")], other=shared("s\u00e9cret\u2461"),
          body='{"id":"evt_01","description":"tracker.paid"}',
          event=event("evt_01", "tracker.paid"))
# --- base64 ---
over_body("shopify", "X-Shopify-Hmac-Sha256", enc="base64",
          fields=[("X-Shopify-Topic", "orders/paid"), ("X-Shopify-Webhook-Id", "w-1"),
                  ("X-Shopify-Event-Id", "e-1")], event=event("e-1", "orders/paid"))
over_body("xero", "x-xero-signature", enc="base64",
          body='{"events":[{"resourceId":"r1","tenantId":"t1","eventType":"paid","eventDateUtc":'
          '"2026-01-01T00:00:00.000"}],"firstEventSequence":1}')
over_body("docusign", "X-DocuSign-Signature-1", enc="base64", event=event(type_="order.paid"))
over_body("typeform", "Typeform-Signature", "sha256=", enc="base64",
          body='{"event_id":"01H","event_type":"form_paid"}', event=event("01H", "form_paid"))
over_body("line", "X-Line-Signature", enc="base64",
          body='{"destination":"x","events":[{"type":"paid","webhookEventId":"01F"}]}')
over_body("heroku", "Heroku-Webhook-Hmac-SHA256", enc="base64", event=event("h-1", "api:paid"),
          body='{"webhook_metadata":{"event":{"id":"h-1","include":"api:paid"}}}')
over_body("woocommerce", "X-WC-Webhook-Signature", enc="base64", event=event("d-1", "order.paid"),
          fields=[("X-WC-Webhook-Delivery-ID", "d-1"), ("X-WC-Webhook-Topic", "order.paid")])
over_body("microsoft-teams", "Authorization", "HMAC ", enc="base64", key="base64",
          secrets=[shared("dGVhbXMtc2VjcmV0LTAwMDE=")], other=shared("dGVhbXMtc2VjcmV0LTAwMDI="),
          event=event("evt_01", "order.paid"))


# --- with a time ---
def timed(name, header, value, text, tolerance, time="unix-s", enc="hex", fields=(), key="text",
          alg="hmac-sha256", **more):
    recipe = {"alg": alg, "enc": enc, "key": key, "text": text, "time": time,
              "headers": [["Content-Type", "application/json"], *map(list, fields),
                          [header, value]]}
    if "v1" in value and "=<sig>" in value and "," in value:
        recipe["several"] = "<other>,v1=<sig>"
    add(name, f"{alg} of {text} in {header}, {enc}; time as {time}.", recipe, signature=header,
        tolerance=tolerance, **more)


BOTH = event("evt_01", "order.paid")
timed("stripe", "Stripe-Signature", "t=<ts>,v1=<sig>", "<ts>.<body>", 300, event=BOTH,
      secrets=[shared("whsec_" + KEY)], other=shared("whsec_" + OTHER))
timed("calendly", "Calendly-Webhook-Signature", "t=<ts>,v1=<sig>", "<ts>.<body>", 180,
      event=event(type_="order.paid"))
timed("workos", "WorkOS-Signature", "t=<ts>,v1=<sig>", "<ts>.<body>", 180, "unix-ms", event=BOTH)
timed("mux", "Mux-Signature", "t=<ts>,v1=<sig>", "<ts>.<body>", 300, event=BOTH)
timed("elevenlabs", "ElevenLabs-Signature", "t=<ts>,v0=<sig>", "<ts>.<body>", 1800,
      event=event(type_="order.paid"))
timed("buildkite", "X-Buildkite-Signature", "timestamp=<ts>,signature=<sig>", "<ts>.<body>", 300,
      fields=[("X-Buildkite-Event", "build.finished"), ("X-Buildkite-Request", "q-1")],
      event=event("q-1", "build.finished"))
timed("paddle", "Paddle-Signature", "ts=<ts>;h1=<sig>", "<ts>:<body>", 5,
      body='{"event_id":"evt_01","event_type":"transaction.paid"}',
      event=event("evt_01", "transaction.paid"))
SENDERS[-1]["recipe"]["several"] = "<other>;h1=<sig>"
timed("slack", "X-Slack-Signature", "v0=<sig>", "v0:<ts>:<body>", 300,
      fields=[("X-Slack-Request-Timestamp", "<ts>")],
      body='{"type":"event_callback","event":{"type":"message","text":"paid"},"event_id":"Ev1"}',
      bodies={"form": "token=x&command=%2Fweather&text=paid"},
      event=event("Ev1", "message"),
      handshakes=[{"name": "url_verification", "signed": True,
                   "body": '{"token":"x","challenge":"3eZbrw1aBm2r","type":"url_verification"}',
                   "answer": {"status": 200, "content_type": CHALLENGE[0],
                              "headers": CHALLENGE[1], "body": "3eZbrw1aBm2r"}}])
timed("zoom", "x-zm-signature", "v0=<sig>", "v0:<ts>:<body>", 300,
      fields=[("x-zm-request-timestamp", "<ts>")], event=event(type_="order.paid"),
      handshakes=[{"name": "endpoint.url_validation", "signed": True,
                   "body": '{"payload":{"plainToken":"qgg8vlvZRS6UYooatFL8Aw"},'
                   '"event":"endpoint.url_validation"}',
                   "answer": {"status": 200, "content_type": "application/json", "headers": [],
                              # printf qgg8vlvZRS6UYooatFL8Aw | openssl dgst -sha256 -hmac KEY
                              "body": '{"plainToken":"qgg8vlvZRS6UYooatFL8Aw","encryptedToken":"'
                              '07fb365bf6e052bbcfe1e9f4c1e3670e744c6d55c7a08082355f6e9e9c10143e'
                              '"}'}}])
timed("twitch", "Twitch-Eventsub-Message-Signature", "sha256=<sig>", "e76c6bd4<ts><body>", 600,
      "rfc3339", fields=[("Twitch-Eventsub-Message-Id", "e76c6bd4"),
                         ("Twitch-Eventsub-Message-Timestamp", "<ts>"),
                         ("Twitch-Eventsub-Subscription-Type", "channel.follow")],
      event=event("e76c6bd4", "channel.follow"),
      handshakes=[{"name": "webhook_callback_verification", "signed": True,
                   "headers": [["Twitch-Eventsub-Message-Type", "webhook_callback_verification"]],
                   "body": '{"challenge":"pogchamp-kappa-360noscope-vohiyo"}',
                   "answer": {"status": 200, "content_type": CHALLENGE[0],
                              "headers": CHALLENGE[1],
                              "body": "pogchamp-kappa-360noscope-vohiyo"}}])
timed("zendesk", "X-Zendesk-Webhook-Signature", "<sig>", "<ts><body>", 300, "rfc3339", "base64",
      fields=[("X-Zendesk-Webhook-Signature-Timestamp", "<ts>"),
              ("X-Zendesk-Webhook-Invocation-Id", "01G")], event=event("01G", "order.paid"))
timed("webflow", "x-webflow-signature", "<sig>", "<ts>:<body>", 300, "unix-ms",
      fields=[("x-webflow-timestamp", "<ts>")], body='{"triggerType":"form_paid","payload":{}}',
      event=event(type_="form_paid"))
timed("hubspot", "X-HubSpot-Signature-v3", "<sig>", "<method><url><body><ts>", 300, "unix-ms",
      "base64", fields=[("X-HubSpot-Request-Timestamp", "<ts>")],
      body='[{"eventId":100,"subscriptionType":"deal.paid"}]')
timed("linear", "Linear-Signature", "<sig>", "<body>", 60, "unix-ms",
      fields=[("Linear-Delivery", "l-1"), ("Linear-Event", "Issue")],
      body='{"action":"paid","webhookTimestamp":<ts>}', event=event("l-1", "Issue"))
SVIX = [shared("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")]
SVIX_OTHER = shared("whsec_t0rzG7D40AVNGtPz2IuLm26STD56bmaG")
for one, prefix in (("standard-webhooks", "webhook"), ("svix", "svix"), ("clerk", "svix"),
                    ("resend", "svix"), ("openai", "webhook"), ("replicate", "webhook"),
                    ("render", "webhook")):
    timed(one, prefix + "-signature", "v1,<sig>", "msg_1.<ts>.<body>", 300, enc="base64",
          fields=[(prefix + "-id", "msg_1"), (prefix + "-timestamp", "<ts>")],
          key="strip:whsec_", secrets=SVIX, other=SVIX_OTHER,
          **({"body": '{"id":"p1","status":"paid"}', "event": event("msg_1", "paid")}
             if one == "replicate" else {"event": event("msg_1", "order.paid")}))
    SENDERS[-1]["recipe"]["several"] = "<other> v1,<sig>"
timed("box", "BOX-SIGNATURE-PRIMARY", "<sig>", "<body><ts>", 600, "rfc3339", "base64",
      fields=[("BOX-DELIVERY-TIMESTAMP", "<ts>"), ("BOX-SIGNATURE-VERSION", "1"),
              ("BOX-SIGNATURE-ALGORITHM", "HmacSHA256"), ("BOX-DELIVERY-ID", "d-1")],
      body='{"id":"b-1","trigger":"FILE.paid"}', event=event("b-1", "FILE.paid"),
      secrets=[shared(KEY, role="primary")], other=shared(OTHER, role="primary"))
add("gitlab", "The secret token as it is in X-Gitlab-Token; the signing token is in ../signatures.",
    {"alg": "token", "enc": "text", "text": "", "headers": [
        ["X-Gitlab-Event", "Push Hook"], ["X-Gitlab-Event-UUID", "u-1"],
        ["Idempotency-Key", "i-1"], ["X-Gitlab-Token", "<sig>"]]},
    signature="X-Gitlab-Token", covers=False, event=event("i-1", "Push Hook"))


# --- what is signed is more than time and body ---
def with_url(name, header, text, alg="sha256", body=BODY, **more):
    add(name, f"HMAC-{alg.upper()} of {text} in {header}, base64.",
        {"alg": "hmac-" + alg, "enc": "base64", "text": text,
         "headers": [["Content-Type", more.pop("media", "application/json")], [header, "<sig>"]]},
        signature=header, body=body, **more)


with_url("square", "x-square-hmacsha256-signature", "<url><body>",
         body='{"event_id":"e-1","type":"payment.paid"}', event=event("e-1", "payment.paid"))
with_url("trello", "X-Trello-Webhook", "<body><url>", "sha1",
         body='{"action":{"id":"a-1","type":"paid"}}', event=event("a-1", "paid"),
         handshakes=[{"name": "creation", "method": "HEAD", "answer": {"status": 200}}])
with_url("twilio", "X-Twilio-Signature", "<url><form>", "sha1",
         body="MessageSid=SM1&Body=paid+twice&From=%2B15017122661", whole=False,
         media="application/x-www-form-urlencoded",
         url="https://hooks.example.test/in/twilio?foo=1")

# --- in the body ---
add("mailgun", "HMAC-SHA256 of time and token, all three in the body, which is not signed.",
    {"alg": "hmac-sha256", "text": "<ts><token>", "headers": [["Content-Type", "application/json"]],
     "parts": {"token": "c2b5a4"}},
    body='{"signature":{"token":"<token>","timestamp":"<ts>","signature":"<sig>"},'
    '"event-data":{"id":"m-1","event":"delivered"}}', tolerance=300, whole=False,
    tamper=('"token":"c2b5a4"', '"token":"c2b5a5"'), event=event("m-1", "delivered"),
    lost={"method": "POST", "url": "https://hooks.example.test/in/mailgun", "headers": [],
          "body": {"utf8": '{"event-data":{"id":"m-1"}}'}})
add("figma", "The passcode is in the body.",
    {"alg": "token", "enc": "text", "text": "", "headers": [["Content-Type", "application/json"]]},
    body='{"event_type":"FILE_UPDATE","passcode":"<sig>"}', covers=False,
    event=event(type_="FILE_UPDATE"),
    lost={"method": "POST", "url": "https://hooks.example.test/in/figma", "headers": [],
          "body": {"utf8": '{"event_type":"FILE_UPDATE"}'}})


# --- tokens ---
def token(name, header, prefix="", **more):
    recipe = {"alg": "token", "enc": "text", "text": "",
              "headers": [["Content-Type", "application/json"], [header, prefix + "<sig>"]]}
    add(name, f"The secret itself in {header}.", recipe, signature=header, covers=False, **more)


token("telegram", "X-Telegram-Bot-Api-Secret-Token", body='{"update_id":10000}',
      event=event("10000"))
token("okta", "Authorization", body='{"eventId":"o-1","eventType":"com.okta.event_hook"}',
      event=event("o-1", "com.okta.event_hook"),
      handshakes=[{"name": "verification", "method": "GET",
                   "headers": [["X-Okta-Verification-Challenge", 'my "challenge"']],
                   "answer": {"status": 200, "content_type": "application/json", "headers": [],
                              "body": '{"verification":"my \\"challenge\\""}'}}])
token("huggingface", "X-Webhook-Secret")
token("bearer-token", "Authorization", "Bearer ")


def in_url(name, media="application/json", **more):
    url = f"https://hooks.example.test/in/{name}?token="
    add(name, "The secret is a parameter of the URL.",
        {"alg": "token", "enc": "text", "text": "",
         "headers": [["Content-Type", media]]}, url=url + "<sig>", covers=False,
        lost={"method": "POST", "url": url.split("?")[0], "headers": [], "body": {"utf8": "{}"}},
        **more)


in_url("url-token")
in_url("mailchimp", "application/x-www-form-urlencoded",
       body="type=subscribe&fired_at=2026-01-01+03%3A25%3A45", event=event(type_="subscribe"),
       handshakes=[{"name": "address check", "method": "GET",
                    "query": "?token=" + KEY, "answer": {"status": 200}}])


def basic(name, body=BODY, **more):
    add(name, "HTTP Basic credentials (RFC 7617).",
        {"alg": "basic", "enc": "base64", "text": "", "headers": [
            ["Content-Type", "application/json"], ["Authorization", "Basic <sig>"]]},
        signature="Authorization", covers=False, body=body,
        secrets=[{"type": "basic", "user": "hook", "password": "p:ss w\u00f6rd1"}],
        other={"type": "basic", "user": "hook", "password": "p:ss w\u00f6rd2"}, **more)


basic("basic-auth")
basic("chargebee", '{"id":"ev_1","event_type":"invoice_paid"}', event=event("ev_1", "invoice_paid"))
basic("postmark", '{"RecordType":"Bounce","MessageID":"m-1"}', event=event(type_="Bounce"))
basic("pipedrive", '{"meta":{"entity":"deal","id":"p-1"}}', event=event(type_="deal"))

# --- asymmetric; the keys are for these tests only ---
SEED = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"  # RFC 8032, 7.1, test 1
POINT = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
SEED2 = "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb"  # test 2
POINT2 = "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"


def edwards(value, private):
    return {"type": "ed25519-public", "value": value, "private": private}


def base64_of(text):
    return base64.b64encode(bytes.fromhex(text)).decode()


add("discord", "Ed25519 of time and body; the key is the hex public key.",
    {"alg": "ed25519", "enc": "hex", "text": "<ts><body>", "headers": [
        ["X-Signature-Timestamp", "<ts>"], ["X-Signature-Ed25519", "<sig>"]]},
    signature="X-Signature-Ed25519", upper="ok", event=event(type_="APP_PAID"),
    body='{"version":1,"type":1,"event":{"type":"APP_PAID","note":"paid"}}',
    secrets=[edwards(POINT, SEED)], other=edwards(POINT2, SEED2),
    handshakes=[{"name": "event ping", "signed": True, "body": '{"version":1,"type":0}',
                 "answer": {"status": 204}},
                {"name": "interaction ping", "signed": True, "body": '{"id":"1","type":1}',
                 "answer": {"status": 200, "content_type": "application/json", "headers": [],
                            "body": '{"type":1}'}}])
add("telnyx", "Ed25519 of time, bar and body; the key is the public key in base64.",
    {"alg": "ed25519", "enc": "base64", "text": "<ts>|<body>", "headers": [
        ["telnyx-timestamp", "<ts>"], ["telnyx-signature-ed25519", "<sig>"]]},
    signature="telnyx-signature-ed25519", tolerance=300, event=event("t-1", "call.paid"),
    body='{"data":{"id":"t-1","event_type":"call.paid"}}',
    secrets=[edwards(base64_of(POINT), SEED)], other=edwards(base64_of(POINT2), SEED2))
P256_KEY = {"type": "p256-spki", "value": keys.P256_SPKI, "private": keys.P256}
P256_KEY2 = {"type": "p256-spki", "value": keys.P256_OTHER_SPKI, "private": keys.P256_OTHER}
add("sendgrid", "ECDSA P-256 of time and body, DER in base64; the key is a SubjectPublicKeyInfo.",
    {"alg": "ecdsa-sha256", "enc": "base64", "text": "<ts><body>", "headers": [
        ["X-Twilio-Email-Event-Webhook-Timestamp", "<ts>"],
        ["X-Twilio-Email-Event-Webhook-Signature", "<sig>"]]},
    signature="X-Twilio-Email-Event-Webhook-Signature",
    body='[{"sg_event_id":"s-1","event":"delivered","note":"paid"}]\r\n',
    secrets=[P256_KEY], other=P256_KEY2)
COVERED = '("@method" "content-type" "content-digest");created=<ts>;keyid="k1";alg="hmac-sha256"'
add("rfc9421", "A message signature with HMAC-SHA256 (RFC 9421, section 3.3.3).",
    {"alg": "hmac-sha256", "enc": "base64", "key": "base64",
     "text": '"@method": POST\n"content-type": application/json\n'
     '"content-digest": sha-256=:<digest>:\n"@signature-params": ' + COVERED,
     "headers": [["Content-Type", "application/json"], ["Content-Digest", "sha-256=:<digest>:"],
                 ["Signature-Input", "sig1=" + COVERED], ["Signature", "sig1=:<sig>:"]]},
    signature="Signature", tolerance=300,
    secrets=[{"type": "hmac-b64", "key_id": "k1", "value": "cmZjOTQyMS1rZXktMDAwMQ=="}],
    other={"type": "hmac-b64", "key_id": "k1", "value": "cmZjOTQyMS1rZXktMDAwMg=="})
add("none", "Nothing is proved.", {"alg": "none", "text": "", "headers": []}, secrets=[])

# --- keys that the sender publishes: a secret with its name pins one, so nothing is fetched ---
CERT_URL = "https://api.paypal.com/v1/notifications/certs/CERT-360caa42-fca2a594-1d93a270"
SNS_URL = "https://sns.us-west-2.amazonaws.com/SimpleNotificationService-0000000000000000.pem"


def certificate(url, value, private):
    return {"type": "x509-pem", "url": url, "value": value, "private": private}


for one, host in (("paypal", "api.paypal.com"), ("paypal-sandbox", "api.sandbox.paypal.com")):
    url = CERT_URL.replace("api.paypal.com", host)
    add(one, "RSA-SHA256 of id, time, webhook id and CRC-32 of the body, with bars between.",
        {"alg": "rsa-sha256", "enc": "base64",
         "text": "69cd13f0|2026-01-01T03:25:45Z|1JE4291016473214C|<crc32>",
         "headers": [["PAYPAL-AUTH-ALGO", "SHA256withRSA"], ["PAYPAL-CERT-URL", url],
                     ["PAYPAL-TRANSMISSION-ID", "69cd13f0"],
                     ["PAYPAL-TRANSMISSION-TIME", "2026-01-01T03:25:45Z"],
                     ["PAYPAL-TRANSMISSION-SIG", "<sig>"]]},
        signature="PAYPAL-TRANSMISSION-SIG", event=event("WH-1", "ORDER.PAID"),
        body='{"id":"WH-1","event_type":"ORDER.PAID","summary":"paid"}',
        secrets=[certificate(url, keys.RSA_CERTIFICATE, keys.RSA),
                 shared("1JE4291016473214C", role="webhook_id")],
        other=certificate(url, keys.RSA_OTHER_CERTIFICATE, keys.RSA_OTHER))
add("aws-sns", "RSA of the named fields of the message, each with its name on the line before.",
    {"alg": "rsa-sha256", "enc": "base64", "headers": [
        ["x-amz-sns-message-type", "Notification"], ["Content-Type", "text/plain; charset=UTF-8"]],
     "text": 'Message\nHello "paid"!\nMessageId\nm-1\nSubject\nFirst\nTimestamp\n'
     "2026-01-01T03:25:40.000Z\nTopicArn\narn:aws:sns:us-west-2:123456789012:MyTopic\n"
     "Type\nNotification\n"},
    body='{"Type":"Notification","MessageId":"m-1","TopicArn":'
    '"arn:aws:sns:us-west-2:123456789012:MyTopic","Subject":"First",'
    '"Message":"Hello \\"paid\\"!","Timestamp":"2026-01-01T03:25:40.000Z",'
    f'"SignatureVersion":"2","Signature":"<sig>","SigningCertURL":"{SNS_URL}"}}',
    event=event("m-1", "Notification"), whole=False,
    secrets=[certificate(SNS_URL, keys.RSA_CERTIFICATE, keys.RSA)],
    other=certificate(SNS_URL, keys.RSA_OTHER_CERTIFICATE, keys.RSA_OTHER),
    lost={"method": "POST", "url": "https://hooks.example.test/in/aws-sns", "headers": [],
          "body": {"utf8": '{"Type":"Notification","SignatureVersion":"2"}'}})
KID = "6c5516e1-92dc-479e-a8ff-5a51992e0001"


def unpadded(text):
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


for one in ("plaid", "plaid-sandbox"):
    head = unpadded(f'{{"alg":"ES256","kid":"{KID}","typ":"JWT"}}')
    add(one, "A JWS by ES256 (RFC 7515) that claims the time and the SHA-256 of the body.",
        {"alg": "es256", "enc": "base64url-raw", "text": head + ".<claims>",
         "claims": '{"iat":<ts>,"request_body_sha256":"<bodyhex>"}',
         "headers": [["Plaid-Verification", head + ".<claims>.<sig>"]]},
        signature="Plaid-Verification", tolerance=300, event=event(type_="PAID"),
        body='{"webhook_code":"PAID","item_id":"i","note":"paid"}',
        secrets=[P256_KEY | {"key_id": KID}], other=P256_KEY2 | {"key_id": KID})
add("microsoft-graph", "The clientState in each item of the body.",
    {"alg": "token", "enc": "text", "text": "", "headers": [["Content-Type", "application/json"]]},
    covers=False,
    body='{"value":[{"id":"n-1","subscriptionId":"s-1","clientState":"<sig>",'
    '"changeType":"created"},'
    '{"id":"n-2","subscriptionId":"s-1","clientState":"<sig>","changeType":"updated"}]}',
    extra={"one-item-of-another": ("wrong-key", (KEY + '","changeType":"updated"',
                                                 OTHER + '","changeType":"updated"'),
                                   "bad-signature")},
    lost={"method": "POST", "url": "https://hooks.example.test/in/microsoft-graph", "headers": [],
          "body": {"utf8": '{"value":[{"id":"n-1","changeType":"created"}]}'}},
    handshakes=[{"name": "validation", "query": "?validationToken=a%20b%3A+c",
                 "answer": {"status": 200, "content_type": CHALLENGE[0], "headers": CHALLENGE[1],
                            "body": "a b: c"}}])


def item(reference):
    return ('{"NotificationRequestItem":{"additionalData":{"hmacSignature":"<sig>"},"amount":'
            '{"currency":"EUR","value":1000},"eventCode":"AUTHORISATION","merchantAccountCode":'
            f'"TestMerchant","merchantReference":"{reference}","pspReference":"7914073381342284",'
            '"success":"true"}}')


ADYEN, ADYEN_OTHER = "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056", (
    "DFB1EB5485895CFA84146406857104ABB4CBCABDC8AAF103A624C8F6A3EAAB00")
add("adyen", "HMAC-SHA256 of fields of each item, in the item; the key is hex.",
    {"alg": "hmac-sha256", "enc": "base64", "key": "hex",
     "text": "7914073381342284::TestMerchant:ref paid:1000:EUR:AUTHORISATION:true",
     "headers": [["Content-Type", "application/json"]]},
    body='{"live":"false","notificationItems":[' + item("ref paid") + "," + item("ref paid") + "]}",
    whole=False, tamper=("ref paid", "ref paud"), secrets=[shared(ADYEN)],
    other=shared(ADYEN_OTHER), odd_also=["bad-signature"],
    extra={"one-item-touched": ("tampered", ('ref paid","pspReference":"7914073381342284",'
                                             '"success":"true"}}]}',
                                             'ref paid","pspReference":"7914073381342285",'
                                             '"success":"true"}}]}'), "bad-signature")},
    published=[{
        # github.com/Adyen/adyen-node-api-library, src/__tests__/hmacValidator.spec.ts
        "secrets": [shared(ADYEN_OTHER)],
        "body": '{"live":"false","notificationItems":[{"NotificationRequestItem":{"pspReference":'
        '"pspReference","originalReference":"originalReference","merchantAccountCode":'
        '"merchantAccount","merchantReference":"reference",'
        '"amount":{"currency":"EUR","value":1000},'
        '"eventCode":"REPORT_AVAILABLE","eventDate":"2019-09-21T11:45:24.637Z","paymentMethod":'
        '"VISA","reason":"reason","success":"true","additionalData":{"hmacSignature":'
        '"ZNBPtI+oDyyRrLyD1XirkKnQgIAlFc07Vj27TeHsDRE="}}}]}'}],
    lost={"method": "POST", "url": "https://hooks.example.test/in/adyen", "headers": [],
          "body": {"utf8": '{"notificationItems":[{"NotificationRequestItem":'
                   '{"additionalData":{}}}]}'}})
add("braintree", "HMAC-SHA1 of bt_payload, keyed with the SHA-1 of the private key; a form.",
    {"alg": "hmac-sha1", "key": "sha1", "text": "<payload>", "quote": True, "legacy": True,
     "headers": [["Content-Type", "application/x-www-form-urlencoded"]],
     "parts": {"payload": "PG5vdGlmaWNhdGlvbj5wYWlkPC9ub3RpZmljYXRpb24+\n"}},
    body="bt_signature=integration_public_key%7C<sig>&bt_payload=<payload>",
    whole=False, tamper=("PG5vdGlm", "PG5vdGlN"),
    secrets=[{"type": "keyed", "key_id": "integration_public_key", "value": KEY}],
    other={"type": "keyed", "key_id": "integration_public_key", "value": OTHER},
    lost={"method": "POST", "url": "https://hooks.example.test/in/braintree",
          "headers": [["Content-Type", "application/x-www-form-urlencoded"]],
          "body": {"utf8": "bt_payload=x"}})
