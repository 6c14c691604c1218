package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"strings"
)

// bodyMax is what one request may carry.
const bodyMax = 32 << 20

// store keeps an event before it is acknowledged.
type store interface {
	keep(ctx context.Context, delivery string, body []byte) error
	close()
}

// forget acknowledges without keeping anything.
type forget struct{}

func (forget) keep(context.Context, string, []byte) error { return nil }
func (forget) close()                                     {}

type hook struct {
	secret []byte
	store  store
}

func newHook(secret []byte, s store) http.Handler {
	return &hook{secret: secret, store: s}
}

func (h *hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := readBody(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if !h.signed(r.Header.Get("X-Hub-Signature-256"), body) {
		http.Error(w, "signature does not match", http.StatusUnauthorized)
		return
	}
	if err := h.store.keep(r.Context(), r.Header.Get("X-GitHub-Delivery"), body); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"status":"accepted"}`)
}

// readBody reads into a buffer of the announced size: io.ReadAll would grow and copy, and the
// peer is to be at its best.
func readBody(r *http.Request) ([]byte, error) {
	if r.ContentLength < 0 || r.ContentLength > bodyMax {
		return io.ReadAll(io.LimitReader(r.Body, bodyMax))
	}
	body := make([]byte, r.ContentLength)
	_, err := io.ReadFull(r.Body, body)
	return body, err
}

func (h *hook) signed(header string, body []byte) bool {
	given, ok := strings.CutPrefix(header, "sha256=")
	if !ok {
		return false
	}
	want, err := hex.DecodeString(given)
	if err != nil {
		return false
	}
	mac := hmac.New(sha256.New, h.secret)
	mac.Write(body)
	return hmac.Equal(mac.Sum(nil), want)
}
