package http

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The fields of Standard Webhooks; the sender's of these names do not go on.
const (
	signedID   = "webhook-id"
	signedTime = "webhook-timestamp"
	signature  = "webhook-signature"
)

// keys sign requests by Standard Webhooks: HMAC-SHA256 over id, time and body, with each key, so
// that a receiver may hold any of them while one replaces the other.
type keys [][]byte

// newKeys reads secrets, whsec_ and base64 or base64 alone. Errors are the operator's and quote
// nothing.
func newKeys(secrets []string) (keys, error) {
	var list keys
	for i, text := range secrets {
		text = strings.TrimRight(strings.TrimPrefix(strings.TrimSpace(text), "whsec_"), "=")
		key, err := base64.RawStdEncoding.DecodeString(text)
		if err == nil && len(key) == 0 {
			err = errors.New("empty")
		}
		if err != nil {
			return nil, fmt.Errorf("signing secret %d: want whsec_ and base64, as Standard Webhooks "+
				"writes them", i+1)
		}
		list = append(list, key)
	}
	return list, nil
}

// sign gives the values of signedTime and signature. The body is signed as it is sent.
func (k keys) sign(id string, at time.Time, body []byte) (seconds, signatures string) {
	seconds = strconv.FormatInt(at.Unix(), 10)
	var text strings.Builder
	for _, key := range k {
		mac := hmac.New(sha256.New, key)
		_, _ = mac.Write([]byte(id + "." + seconds + "."))
		_, _ = mac.Write(body)
		if text.Len() > 0 {
			text.WriteByte(' ')
		}
		text.WriteString("v1,")
		text.WriteString(base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	return seconds, text.String()
}
