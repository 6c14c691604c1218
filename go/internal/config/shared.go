package config

import (
	"encoding/base64"
	"net/url"
	"strconv"
	"strings"
)

// redis reads where hosts share their breakers; nothing means that this host is alone.
func (r *reader) redis(it item) *Redis {
	if it.node == nil {
		return nil
	}
	t := r.table(it)
	redis := &Redis{}
	if at := t.get("url"); at.node == nil {
		r.fault(t.path, `write url: "env:REDIS_URL"`, "there is no url")
	} else if secret, ok := r.secret(at); ok {
		redis.URL = secret
		r.holds(at.path, secret, checkRedisURL)
	}
	redis.Prefix = value(t, "prefix", "sluice", parseText, checkPrefix)
	t.end()
	return redis
}

// holds checks what a secret reads. No check may repeat it.
func (r *reader) holds(path string, secret Secret, check func(string) error) {
	if err := check(string(secret.Reveal())); err != nil {
		r.refuse(path, err)
	}
}

func checkRedisURL(text string) error {
	const example = "redis://user:password@127.0.0.1:6379/0"
	if err := isURL(example, "redis", "rediss")(text); err != nil {
		return err
	}
	// isURL has parsed it.
	u, _ := url.Parse(text)
	if number := strings.Trim(u.Path, "/"); number != "" {
		if _, err := strconv.ParseUint(number, 10, 16); err != nil {
			return wrong("write it as "+example, "what follows the host is no number of a database")
		}
	}
	return nil
}

// checkPrefix keeps a prefix to what needs no quoting in a key or a pattern of Redis.
func checkPrefix(text string) error {
	bad := strings.IndexFunc(text, func(c rune) bool {
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		return c > 127 || !letter && (c < '0' || c > '9') && !strings.ContainsRune("_-.:", c)
	})
	if text == "" || len(text) > nameMax || bad >= 0 {
		return wrong("write letters, digits, _ - . : and at most 63 of them", "%q is no prefix", text)
	}
	return nil
}

// alerts reads where transitions of breakers are posted.
func (r *reader) alerts(it item) *Alerts {
	if it.node == nil {
		return nil
	}
	t := r.table(it)
	alerts := &Alerts{}
	if at := t.get("url"); at.node == nil {
		r.fault(t.path, `write url: "https://ops.example/hook"`, "there is no url")
	} else {
		alerts.URL, _ = r.place(at, "https://ops.example/hook", "http", "https")
	}
	if at := t.get("secret"); at.node != nil {
		if secret, ok := r.secret(at); ok {
			r.holds(at.path, secret, checkSigner)
			alerts.Secret = padded(secret)
		}
	}
	t.end()
	return alerts
}

// checkSigner holds a secret to the form of Standard Webhooks: base64, mostly behind whsec_.
func checkSigner(text string) error {
	text = strings.TrimRight(strings.TrimPrefix(text, "whsec_"), "=")
	key, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil || len(key) == 0 {
		return wrong("make one with `echo whsec_$(openssl rand -base64 32)`",
			"it is no secret of Standard Webhooks: whsec_ and base64")
	}
	return nil
}

// padded puts back the padding of base64 that some of those who hand secrets out leave away.
func padded(secret Secret) Secret {
	text := strings.TrimRight(string(secret.Reveal()), "=")
	missing := -len(strings.TrimPrefix(text, "whsec_")) & 3
	return NewSecret(secret.Origin(), []byte(text+strings.Repeat("=", missing)))
}
