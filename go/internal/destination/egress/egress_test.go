package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"sluice/go/internal/retry"
)

func rules(t *testing.T, allow, deny string) *Rules {
	t.Helper()
	r, err := Parse(strings.Fields(allow), strings.Fields(deny))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func judge(t *testing.T, r *Rules, address string, allowed bool) {
	t.Helper()
	err := r.Check(netip.MustParseAddr(address))
	if (err == nil) != allowed {
		t.Errorf("%s: allowed %v: %v", address, err == nil, err)
	}
	if err != nil && !errors.Is(err, retry.ErrDenied) {
		t.Errorf("%s: %v is not told as denied", address, err)
	}
}

func TestWithoutRulesAllButLinkLocalAndMetadataIsAllowed(t *testing.T) {
	for _, r := range []*Rules{nil, rules(t, "", "")} {
		for _, address := range []string{"127.0.0.1", "10.1.2.3", "192.168.0.1", "172.16.0.1", "8.8.8.8",
			"100.64.0.1", "192.0.0.8", "::1", "fd00::1", "2606:4700::1111", "::ffff:10.0.0.1", "0.0.0.0",
			"::", "64:ff9b::808:808", "2002:808:808::1"} {
			judge(t, r, address, true)
		}
		for _, g := range guarded {
			judge(t, r, g.prefix.Addr().String(), false)
		}
		for _, address := range []string{"169.254.0.1", "169.254.255.255", "fe80::1", "fe80::1%eth0",
			"febf::1", "fd00:ec2::254", "fd00:ec2::253"} {
			judge(t, r, address, false)
		}
	}
}

func TestAnAddressHiddenInAnotherIsFound(t *testing.T) {
	r := rules(t, "", "10.1.0.0/16 127.0.0.0/8")
	for name, addresses := range map[string][]string{
		"mapped":            {"::ffff:169.254.169.254", "::ffff:10.1.2.3"},
		"NAT64":             {"64:ff9b::a9fe:a9fe", "64:ff9b::10.1.2.3"},
		"local NAT64 to 96": {"64:ff9b:1::a9fe:a9fe", "64:ff9b:1:abcd::10.1.2.3"},
		"local NAT64 to 64": {"64:ff9b:1:0:a9:fea9:fe00:0"},
		"local NAT64 to 56": {"64:ff9b:1:a9:fe:a9fe::"},
		"local NAT64 to 48": {"64:ff9b:1:a9fe:a9:fe00::"},
		"6to4":              {"2002:a9fe:a9fe::1", "2002:a01:203:1::9"},
		"Teredo's server":   {"2001:0:a9fe:a9fe::"},
		"Teredo's host":     {"2001:0:808:808:0:0:5601:5601"},
		"translated":        {"::ffff:0:169.254.169.254"},
		"compatible":        {"::169.254.169.254", "::10.1.2.3"},
		"this host":         {"0.0.0.0", "::"},
	} {
		for _, address := range addresses {
			if err := r.Check(netip.MustParseAddr(address)); err == nil {
				t.Errorf("%s: %s is let through", name, address)
			}
		}
	}
	judge(t, r, "2001:0:808:808:0:0:f7f7:f7f7", true) // Teredo of 8.8.8.8
	judge(t, r, "64:ff9b::8.8.8.8", true)
	judge(t, r, "::1", true) // deny names the IPv4 loopback alone
}

func TestAGuardedRangeOpensOnlyToAPrefixWithinIt(t *testing.T) {
	for _, c := range []struct {
		allow, address string
		allowed        bool
	}{
		{"0.0.0.0/0", "169.254.169.254", false},
		{"0.0.0.0/0 ::/0", "fe80::1", false},
		{"0.0.0.0/0", "8.8.8.8", true},
		{"169.0.0.0/8", "169.254.1.1", false},
		{"169.254.0.0/16", "169.254.1.1", true},
		{"169.254.0.0/16", "169.254.169.254", false},
		{"169.254.0.0/16 169.254.169.254", "169.254.169.254", true},
		{"169.254.169.254/32", "::ffff:169.254.169.254", true},
		{"::ffff:169.254.169.254/128", "169.254.169.254", true},
		{"169.254.169.254/32", "169.254.1.1", false},
		{"fe80::/10", "fe80::1", true},
		{"fe80::/9", "fe80::1", false},
		{"fd00::/8", "fd00:ec2::254", false},
		{"fd00:ec2::254", "fd00:ec2::254", true},
		{"168.63.129.0/24", "168.63.129.16", false},
		{"168.63.129.0/24", "168.63.129.17", true},
		{"64:ff9b::/96", "64:ff9b::a9fe:a9fe", false},
		{"64:ff9b::/96 169.254.169.254", "64:ff9b::a9fe:a9fe", true},
	} {
		t.Run(c.allow+" "+c.address, func(t *testing.T) {
			judge(t, rules(t, c.allow, ""), c.address, c.allowed)
		})
	}
}

func TestDenyWinsOverAllowAndAllowExcludesTheRest(t *testing.T) {
	r := rules(t, "10.0.0.0/8 fd00:1::/32", "10.1.0.0/16")
	judge(t, r, "10.2.3.4", true)
	judge(t, r, "::ffff:10.2.3.4", true)
	judge(t, r, "fd00:1::5", true)
	judge(t, r, "10.1.3.4", false)
	judge(t, r, "8.8.8.8", false)
	judge(t, r, "::1", false)
	judge(t, rules(t, "169.254.169.254", "169.254.0.0/16"), "169.254.169.254", false)
	err := r.Check(netip.MustParseAddr("10.1.3.4"))
	if !strings.Contains(err.Error(), "10.1.3.4 is in deny 10.1.0.0/16") {
		t.Errorf("does not name address and rule: %v", err)
	}
}

func TestADialerAsksForEachAddressItConnectsTo(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for deny, allowed := range map[string]bool{"127.0.0.1": false, "127.0.0.2/32": true} {
		d := net.Dialer{ControlContext: rules(t, "", deny).Control, Timeout: time.Minute}
		// By name: the rule is asked about the address that the name stands for.
		_, port, _ := net.SplitHostPort(l.Addr().String())
		c, err := d.DialContext(context.Background(), "tcp4", "localhost:"+port)
		if (err == nil) != allowed {
			t.Errorf("deny %s: %v", deny, err)
		}
		if err != nil && retry.CauseOf(err) != retry.Denied {
			t.Errorf("cause %v of %v", retry.CauseOf(err), err)
		}
		if c != nil {
			_ = c.Close()
		}
	}
	if (*Rules)(nil).Control(context.Background(), "unix", "/run/x", nil) == nil {
		t.Error("what is no address is let through")
	}
}

func TestTextThatIsNoPrefixIsNamed(t *testing.T) {
	for _, bad := range []string{"", "10.0.0.0/33", "example.com", "fe80::1%eth0", "10.0.0/8", "1"} {
		_, allow := Parse([]string{bad}, nil)
		_, deny := Parse(nil, []string{bad})
		for _, err := range []error{allow, deny} {
			if err == nil || !strings.Contains(err.Error(), `"`+bad+`"`) {
				t.Errorf("%q: %v", bad, err)
			}
		}
	}
}
