package config

import (
	"slices"
	"strings"
	"testing"
)

func TestPeersThatMayBeAnybodyAreDoubted(t *testing.T) {
	for text, want := range map[string][]string{
		"listeners: [{address: ':1', proxy_protocol: {from: [0.0.0.0/0]}}]": {
			"listeners[0].proxy_protocol.from"},
		"listeners:\n- address: ':1'\n- address: systemd:a\n" +
			"  proxy_protocol: {from: [10.0.0.0/8, '::/0']}": {"listeners[1].proxy_protocol.from"},
		"listeners: [{address: ':1', forwarded_for: {from: ['::/0']}}]": {
			"listeners[0].forwarded_for.from"},
		"listeners: [{address: 'unix:/s', proxy_protocol: {}, forwarded_for: {from: [0.0.0.0/0]}}]": {
			"listeners[0].forwarded_for.from"},
		"listeners:\n- address: ':1'\n  proxy_protocol: {from: [10.0.0.0/8]}\n" +
			"  forwarded_for: {from: [fd00::/8]}": nil,
		"user: root": {"user"},
	} {
		c := mustParse(t, text, testOptions(nil, nil))
		var paths []string
		for _, w := range c.Warnings {
			paths = append(paths, w.Path)
			if w.Mend == "" || strings.Contains(w.String(), "\n") {
				t.Errorf("no mend: %s", w)
			}
		}
		if !slices.Equal(paths, want) {
			t.Errorf("%s: warned of %q, want %q", text, paths, want)
		}
	}
}

func TestTheMemoryForRequestsGrowsWithThemUnlessTheFileSaysHowMuch(t *testing.T) {
	const bodies = "ring_size: 256MiB\nworkers: 24\nsources: {a: {provider: none, max_body: 25MiB}}\n"
	c := mustParse(t, bodies, testOptions(nil, nil))
	if c.HTTP.ReceiveMemory != 1206<<20 {
		t.Errorf("it is %v", c.HTTP.ReceiveMemory)
	}
	c = mustParse(t, bodies+"http: {receive_memory: 2GiB}", testOptions(nil, nil))
	if c.HTTP.ReceiveMemory != 2<<30 {
		t.Errorf("it is %v", c.HTTP.ReceiveMemory)
	}
}
