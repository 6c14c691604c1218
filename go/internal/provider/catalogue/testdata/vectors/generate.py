#!/usr/bin/env python3
"""Writes the vector set of each profile: requests as its sender signs them, whole and spoilt.

It knows the senders from senders.py and signs with the standard library and `cryptography`, so that
nothing of it can share a mistake with the judge. Keys are fixed: a second run changes nothing but
ECDSA signatures. The form of a vector is that of ../signatures, with more fields:

    kind      good, tampered, wrong-key, stale, rotated, duplicate-header, odd-encoding, missing,
              handshake
    key       index of the secret that has to be the one that matched
    event     id and type that have to be found, where the profile knows any
    answer    what a handshake is answered with: status, content_type, headers, body
    learned   role and value of a secret that a handshake hands over

A set also has its recipe, by which a test can sign anew: the templates of text, header fields and
body, in which <ts>, <body>, <sig>, <url>, <method>, <digest> and <form> stand for what they say.

Run it in this folder: python3 generate.py [PROFILE...]
"""
import base64
import copy
import hashlib
import hmac
import json
import sys
import time
import urllib.parse
import zlib

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, utils

from senders import SENDERS, shared

NOW = 1767237945  # 2026-01-01T03:25:45Z


def b64(raw):
    return base64.b64encode(raw).decode()


def key_bytes(recipe, secret):
    text = secret["value"]
    how = recipe.get("key", "text")
    if how.startswith("strip:"):
        text = text.removeprefix(how.split(":")[1])
        how = "base64"
    if how == "base64":
        return base64.b64decode(text)
    if how == "hex":
        return bytes.fromhex(text)
    if how == "sha1":
        return hashlib.sha1(text.encode()).digest()
    if how == "nfkd":
        import unicodedata
        return unicodedata.normalize("NFKD", text).encode()
    return text.encode()


def raw_signature(recipe, secret, text):
    alg = recipe["alg"]
    if alg == "basic":
        return (secret["user"] + ":" + secret["password"]).encode()
    if alg in ("none", "token"):
        return secret["value"].encode()
    if alg.startswith("hmac-"):
        return hmac.new(key_bytes(recipe, secret), text, alg.removeprefix("hmac-")).digest()
    private = secret["private"]
    if alg == "ed25519":
        return ed25519.Ed25519PrivateKey.from_private_bytes(bytes.fromhex(private)).sign(text)
    key = serialization.load_pem_private_key(private.encode(), None)
    if alg == "ecdsa-sha256":
        return key.sign(text, ec.ECDSA(hashes.SHA256()))
    if alg == "es256":  # r||s, as JWS has it (RFC 7518, section 3.4)
        r, s = utils.decode_dss_signature(key.sign(text, ec.ECDSA(hashes.SHA256())))
        return r.to_bytes(32, "big") + s.to_bytes(32, "big")
    digest = {"rsa-sha1": hashes.SHA1(), "rsa-sha256": hashes.SHA256()}[alg]
    return key.sign(text, padding.PKCS1v15(), digest)


def encode(recipe, raw):
    how = recipe.get("enc", "hex")
    if how == "hex":
        return raw.hex()
    if how == "base64":
        return b64(raw)
    if how == "base64url-raw":
        return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
    return raw.decode()


def stamp(recipe, at):
    how = recipe.get("time", "unix-s")
    if how == "unix-ms":
        return str(at * 1000)
    if how == "rfc3339":
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))
    return str(at)


def sorted_form(body):
    pairs = sorted(set(urllib.parse.parse_qsl(body, keep_blank_values=True)))
    return "".join(name + value for name, value in pairs)


def fill(template, values):
    for name, value in values.items():
        template = template.replace("<" + name + ">", value)
    return template


def sign(sender, secret, body=None, at=NOW, respell=None, other=None):
    """A signed request: url, headers, body. respell changes the spelling of the signature; other is
    a second secret whose signature comes first, for fields that hold several."""
    recipe = sender["recipe"]
    body = sender["body"] if body is None else body
    values = {"ts": stamp(recipe, at), "url": sender["url"], "method": "POST"}
    for name, template in recipe.get("parts", {}).items():
        values[name] = fill(template, values)
    if not recipe.get("quote"):
        body = fill(body, values)
    raw = body.encode()
    values["digest"] = b64(hashlib.sha256(raw).digest())
    values["bodyhex"] = hashlib.sha256(raw).hexdigest()
    values["crc32"] = str(zlib.crc32(raw))
    values["claims"] = base64.urlsafe_b64encode(
        fill(recipe.get("claims", ""), values).encode()).rstrip(b"=").decode()
    if "<form>" in recipe["text"]:
        values["form"] = sorted_form(body)
    text = fill(fill(recipe["text"], values), {"body": body})

    def signature(secret):
        return encode(recipe, raw_signature(recipe, secret, text.encode()))

    values["sig"] = (respell or (lambda s: s))(signature(secret))
    if other:
        values["sig"] = recipe["several"].replace("<other>", signature(other)).replace(
            "<sig>", values["sig"])
    return {
        "method": "POST",
        "url": fill(sender["url"], values),
        "headers": [[name, fill(value, values)] for name, value in recipe["headers"]],
        "body": {"utf8": fill(body, {
            k: (urllib.parse.quote_plus(v) if recipe.get("quote") else v)
            for k, v in values.items()})},
    }


def public(secret):
    return {k: v for k, v in secret.items() if k != "private"}


def vector(sender, kind, suffix, request, expect, secrets=None, **more):
    v = {"id": f"{sender['name']}-{suffix}", "kind": kind,
         "secrets": [public(s) for s in (secrets or sender["secrets"])]}
    v |= request
    v |= {"tolerance_s": sender.get("tolerance"), "now": NOW, "expect": expect}
    v |= {k: value for k, value in more.items() if value is not None}
    return v


def alter(request, change):
    request = copy.deepcopy(request)
    change(request)
    return request


def odd(sender):
    """A wrong spelling of a right signature and the outcome of it."""
    how = sender["recipe"].get("enc", "hex")
    if how == "hex":
        return str.upper, sender.get("upper", "bad-signature")
    if how == "base64":
        return (lambda s: s.rstrip("=")) if sender["padded"] else (
            lambda s: s.replace("+", "-").replace("/", "_")), "malformed"
    if how == "base64url-raw":
        return (lambda s: s + "="), "malformed"
    return str.swapcase, "bad-signature"


def vectors(sender):
    recipe, secret = sender["recipe"], (sender["secrets"] or [shared("")])[0]
    rest = sender["secrets"][1:]
    where = sender.get("signature")  # the header field that holds it, or None
    good = sign(sender, secret)
    yield vector(sender, "good", "good", good, "ok", key=0 if sender["secrets"] else -1,
                 event=sender.get("event"))
    for extra, body in sender.get("bodies", {}).items():
        yield vector(sender, "good", "good-" + extra, sign(sender, secret, body), "ok", key=0)
    if recipe["alg"] == "none":
        return
    if sender.get("covers", True):
        old, new = sender.get("tamper", ("paid", "paud"))
        assert old in good["body"]["utf8"], sender["name"]
        yield vector(sender, "tampered", "tampered",
                     alter(good, lambda r: r["body"].update(
                         utf8=r["body"]["utf8"].replace(old, new))), "bad-signature",
                     also=sender.get("tampered_also"))
        if sender.get("whole", True):
            yield vector(sender, "tampered", "line-end-added",
                         alter(good, lambda r: r["body"].update(utf8=r["body"]["utf8"] + "\n")),
                         "bad-signature", also=sender.get("tampered_also"))
    for suffix, (kind, (old, new), outcome) in sender.get("extra", {}).items():
        assert old in good["body"]["utf8"], suffix
        yield vector(sender, kind, suffix, alter(good, lambda r: r["body"].update(
            utf8=r["body"]["utf8"].replace(old, new))), outcome)
    for n, one in enumerate(sender.get("published", [])):
        yield vector(sender, "good", f"published-{n + 1}", good | {"body": {"utf8": one["body"]}},
                     "ok", one["secrets"], key=0)
    wrong = sender["other"]
    yield vector(sender, "wrong-key", "wrong-key", sign(sender, wrong), "bad-signature",
                 also=sender.get("wrong_also"))
    yield vector(sender, "rotated", "rotated", good, "ok", [wrong, secret] + rest, key=1)
    if "several" in recipe:
        yield vector(sender, "rotated", "rotated-by-sender", sign(sender, secret, other=wrong),
                     "ok", key=0)
    if sender.get("tolerance"):
        limit = sender["tolerance"]
        late = sign(sender, secret, at=NOW - limit - 1)
        early = sign(sender, secret, at=NOW + limit + 1)
        yield vector(sender, "stale", "stale", late, "expired")
        yield vector(sender, "stale", "from-the-future", early, "expired")
        yield vector(sender, "stale", "just-in-time", sign(sender, secret, at=NOW - limit), "ok")
    if recipe.get("enc") != "text" or recipe["alg"] == "token":
        respell, outcome = odd(sender)
        request = sign(sender, secret, respell=respell)
        assert request != good, sender["name"]
        yield vector(sender, "odd-encoding", "odd-encoding", request, outcome,
                     also=sender.get("odd_also"))
    if where:
        def padded(r):
            r["headers"] = [[n, f" {v}\t" if n == where else v] for n, v in r["headers"]]
        yield vector(sender, "odd-encoding", "blanks-around", alter(good, padded), "ok", key=0)

        def twice(r):
            r["headers"] += [h for h in r["headers"] if h[0] == where]
        yield vector(sender, "duplicate-header", "duplicate-header", alter(good, twice),
                     "malformed")

        def lost(r):
            r["headers"] = [h for h in r["headers"] if h[0] != where]
        yield vector(sender, "missing", "missing", alter(good, lost), "missing-header")
    elif "lost" in sender:
        yield vector(sender, "missing", "missing", sender["lost"], "missing-header",
                     also=["malformed"])
    for shake in sender.get("handshakes", []):
        if shake.get("signed"):
            request = sign(sender | {"recipe": recipe | {
                "headers": recipe["headers"] + shake.get("headers", [])}}, secret, shake["body"])
        else:
            request = {"method": shake.get("method", "POST"),
                       "url": sender["url"].split("?")[0] + shake.get("query", ""),
                       "headers": shake.get("headers", []),
                       "body": {"utf8": shake.get("body", "")}}
        yield vector(sender, "handshake", "handshake-" + shake["name"].replace(" ", "-"), request,
                     "ok", shake.get("secrets"), handshake=shake["name"], answer=shake["answer"],
                     learned=shake.get("learned"))


def write(sender):
    sender.setdefault("url", "https://hooks.example.test/in/" + sender["name"])
    recipe = sender["recipe"]
    if recipe.get("enc") == "base64":
        # A digest of 32 or 20 bytes has padding; others need a body whose signature shows + or /.
        plain = encode(recipe, raw_signature(recipe, sender["secrets"][0], b"x"))
        sender["padded"] = plain.endswith("=") or recipe["alg"] == "ecdsa-sha256"
        n = 0
        while not sender["padded"] and not set("+/") & set(str(sign(sender, sender["secrets"][0]))):
            n += 1
            sender["body"] = sender["body"].replace("paid", f"paid{n}", 1)
    set_ = {"provider": sender["name"], "about": sender["about"], "recipe": recipe}
    set_["recipe"] = recipe | {"body": sender["body"], "url": sender["url"],
                               "secret": (sender["secrets"] or [None])[0], "secrets": [
                                   public(s) for s in sender["secrets"]],
                               "other": sender["other"]}
    set_["vectors"] = list(vectors(sender))
    with open(sender["name"] + ".json", "w", encoding="utf-8") as out:
        # A vector a line: short enough to look through, and a change shows as the lines it is.
        lines = [json.dumps(v, ensure_ascii=False) for v in set_.pop("vectors")]
        head = [f' {json.dumps(k)}: {json.dumps(v, ensure_ascii=False)},' for k, v in set_.items()]
        body = "  " + ",\n  ".join(lines)
        out.write("\n".join(["{", *head, ' "vectors": [', body, " ]", "}", ""]))


if __name__ == "__main__":
    for one in SENDERS:
        if len(sys.argv) == 1 or one["name"] in sys.argv[1:]:
            write(one)
