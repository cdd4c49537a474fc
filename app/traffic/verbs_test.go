// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"net/netip"
	"strings"
	"testing"

	"causeway/ibside/ib"
	"causeway/lcore/frame"
)

// TestEndpointsOf reads the area before a message as InfiniBand and RoCE ports fill it in.
func TestEndpointsOf(t *testing.T) {
	a4, b4, a6, b6 := netip.MustParseAddr("10.9.0.1"), netip.MustParseAddr("239.1.2.3"), netip.MustParseAddr("fe80::1"), netip.MustParseAddr("ff12::2")
	grh := make([]byte, ib.GRHLen)
	ib.PutGRH(grh, ib.GRHFields{PayLen: 100, HopLimit: 1, SGID: ib.GIDFromAddr(a6), DGID: ib.GIDFromAddr(b6)})
	ipv4 := append(append([]byte{}, grh[:20]...), make([]byte, 20)...) // the first 20 bytes look like a GRH's
	frame.PutIPv4(ipv4[20:], frame.IPv4Fields{TotalLen: 100, TTL: 64, Protocol: frame.ProtoUDP, Src: a4, Dst: b4})
	for _, c := range []struct {
		name     string
		area     []byte
		ethernet bool
		from, to netip.Addr
		ok       bool
	}{
		{"InfiniBand", grh, false, a6, b6, true}, {"IPv6", grh, true, a6, b6, true}, {"IPv4", ipv4, true, a4, b4, true},
		{"zeros", make([]byte, 40), true, netip.Addr{}, netip.Addr{}, false},
	} {
		if from, to, ok := endpointsOf(c.area, c.ethernet); from != c.from || to != c.to || ok != c.ok {
			t.Errorf("%s: %v, %v, %v", c.name, from, to, ok)
		}
	}
}

func TestVerbsErrors(t *testing.T) {
	for on, want := range map[string]string{
		"verbs:nosuch_0": `device "nosuch_0"`, "verbs:nosuch_0:x": "no port number", "verbs:": "is not known",
	} {
		if _, err := open(Config{On: on}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", on, err)
		}
	}
	if _, err := open(Config{On: "verbs:x", QPN: 7}); err == nil || !strings.Contains(err.Error(), "leave the QPN out") {
		t.Errorf("a QPN: %v", err)
	}
}
