// SPDX-License-Identifier: Apache-2.0

package dpdk

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

var everyRule = []Rule{
	{Match: MatchRoCEv2IPv4, Queues: []uint16{0}},
	{Match: MatchRoCEv2IPv6, Queues: []uint16{1}},
	{Match: MatchRoCEv2IPv4, Queues: []uint16{0, 1}, RSS: true},
	{Match: MatchRoCEv2IPv6, Queues: []uint16{0, 1}, RSS: true},
	{Match: MatchRoCEv1, Queues: []uint16{0}},
	{Match: MatchARP, Queues: []uint16{0}},
	{Match: MatchIGMP, Queues: []uint16{0}, Priority: 1},
	{Match: MatchMAC, MAC: [6]byte{0x01, 0, 0x5e, 1, 2, 3}, Queues: []uint16{0}},
	{Match: MatchIP, IP: netip.MustParseAddr("239.1.2.3"), Queues: []uint16{0, 1}, RSS: true},
	{Match: MatchIP, IP: netip.MustParseAddr("ff0e::1"), Queues: []uint16{1}},
	{Match: MatchRoCEv2IPv4, VLAN: 100, Queues: []uint16{0}},
	{Match: MatchRoCEv2IPv6, VLAN: 4094, Queues: []uint16{0, 1}, RSS: true},
	{Match: MatchRoCEv1, VLAN: 1, Queues: []uint16{0}},
	{Match: MatchMAC, MAC: [6]byte{0x01, 0, 0x5e, 1, 2, 3}, VLAN: 2, Queues: []uint16{0}},
	{Match: MatchUDP, IP: netip.MustParseAddr("239.1.2.3"), UDPPort: 4711, Queues: []uint16{0}},
	{Match: MatchUDP, IP: netip.MustParseAddr("ff0e::1"), UDPPort: 4711, VLAN: 100, Queues: []uint16{0, 1}, RSS: true},
}

func TestPortsWithoutFlow(t *testing.T) {
	ownNetwork(t)
	veth(t, "ours", "theirs", "1500")
	for _, name := range []string{"ring", "null", "af_packet:ours"} {
		p := open(t, name, PortConfig{Pool: newPool(t), RxQueues: 2, TxQueues: 2})
		for _, rule := range everyRule {
			flow, err := p.CreateFlow(rule)
			if flow != nil || !errors.Is(err, ErrNoFlow) {
				t.Errorf("%s: create %+v: %v", name, rule, err)
			}
			wantError(t, err, `dpdk: port "`+name+`": flow rule: the driver has no rte_flow`)
		}
		if err := p.Isolate(true); !errors.Is(err, ErrNoFlow) {
			t.Errorf("%s: isolate: %v", name, err)
		}
		if netdev, err := p.KernelInterface(); p.Shared() || err == nil {
			t.Errorf("%s: shared with the kernel's %v", name, netdev)
		}
	}
}

// TestTapReadsRules lets the one driver here that reads rules read them. It knows Ethernet, IP and UDP; no RSS that
// goes by source address alone, and no VLAN ids.
func TestTapReadsRules(t *testing.T) {
	ownNetwork(t)
	p := open(t, "tap:dtap3", PortConfig{Pool: newPool(t), RxQueues: 2, TxQueues: 2, RxDescs: 32})
	for _, rule := range everyRule {
		knows := rule.VLAN == 0 && !rule.RSS
		if err := p.validateFlow(rule); (err == nil) != knows || (err != nil && !errors.Is(err, ErrNoFlow)) {
			t.Errorf("%+v: %v", rule, err)
		}
	}
}

// TestRulesInRteFlowsWords is what stands in for a NIC: the patterns are compared, byte by byte, with the headers.
func TestRulesInRteFlowsWords(t *testing.T) {
	p := open(t, "ring", PortConfig{Pool: newPool(t), RxQueues: 2})
	zeros := func(bytes int) string { return strings.Repeat("00", bytes) }
	const macs = 12
	roce := "UDP 000012b7" + zeros(4) + "&0000ffff" + zeros(4)
	ethertype := func(hex string) string { return "ETH " + zeros(macs) + hex + "&" + zeros(macs) + "ffff" }
	const v4SourceOnly, v6SourceOnly = "RSS types 0x8000000000000004", "RSS types 0x8000000000000100"
	for i, want := range []string{
		"ETH / IPV4 / " + roce + " / QUEUE 0 priority 0",
		"ETH / IPV6 / " + roce + " / QUEUE 1 priority 0",
		"ETH / IPV4 / " + roce + " / " + v4SourceOnly + " 0 1 priority 0",
		"ETH / IPV6 / " + roce + " / " + v6SourceOnly + " 0 1 priority 0",
		ethertype("8915") + " / QUEUE 0 priority 0",
		ethertype("0806") + " / QUEUE 0 priority 0",
		"ETH / IPV4 " + zeros(9) + "02" + zeros(10) + "&" + zeros(9) + "ff" + zeros(10) + " / QUEUE 0 priority 1",
		"ETH 01005e010203" + zeros(8) + "&ffffffffffff" + zeros(8) + " / QUEUE 0 priority 0",
		"ETH / IPV4 " + zeros(16) + "ef010203&" + zeros(16) + "ffffffff / " + v4SourceOnly + " 0 1 priority 0",
		"ETH / IPV6 " + zeros(24) + "ff0e" + zeros(13) + "01&" + zeros(24) + strings.Repeat("ff", 16) + " / QUEUE 1 priority 0",
		"ETH / VLAN 00640000&0fff0000 / IPV4 / " + roce + " / QUEUE 0 priority 0",
		"ETH / VLAN 0ffe0000&0fff0000 / IPV6 / " + roce + " / " + v6SourceOnly + " 0 1 priority 0",
		"ETH / VLAN 00018915&0fffffff / QUEUE 0 priority 0",
		"ETH 01005e010203" + zeros(8) + "&ffffffffffff" + zeros(8) + " / VLAN 00020000&0fff0000 / QUEUE 0 priority 0",
		"ETH / IPV4 " + zeros(16) + "ef010203&" + zeros(16) + "ffffffff / UDP 00001267" + zeros(4) + "&0000ffff" + zeros(4) + " / QUEUE 0 priority 0",
		"ETH / VLAN 00640000&0fff0000 / IPV6 " + zeros(24) + "ff0e" + zeros(13) + "01&" + zeros(24) + strings.Repeat("ff", 16) +
			" / UDP 00001267" + zeros(4) + "&0000ffff" + zeros(4) + " / " + v6SourceOnly + " 0 1 priority 0",
	} {
		got, err := p.showFlow(everyRule[i])
		if err != nil || got != want {
			t.Errorf("%+v:\ngot  %s\nwant %s\n%v", everyRule[i], got, want, err)
		}
	}
}

func TestRuleErrors(t *testing.T) {
	p := open(t, "ring", PortConfig{Pool: newPool(t), RxQueues: 2})
	for _, c := range []struct {
		rule Rule
		want string
	}{
		{Rule{Match: MatchARP}, "0 queues: name one, or with RSS 1 to 64"},
		{Rule{Match: MatchIGMP, Queues: []uint16{0, 1}}, "2 queues: name one, or with RSS"},
		{Rule{Match: MatchIGMP, Queues: []uint16{2}}, "there is no queue 2: the port has 2"},
		{Rule{Match: MatchRoCEv1, Queues: []uint16{0}, RSS: true}, "RSS goes by the source IP"},
		{Rule{Match: MatchIP, Queues: []uint16{0}}, "MatchIP and MatchUDP need an address"},
		{Rule{Match: MatchUDP, IP: netip.MustParseAddr("239.1.2.3"), Queues: []uint16{0}}, "MatchUDP needs a port"},
		{Rule{Match: 99, Queues: []uint16{0}}, "there is no match 99"},
		{Rule{Match: MatchARP, Queues: []uint16{0}, VLAN: 4095}, "there is no VLAN 4095: use 1 to 4094"},
	} {
		_, err := p.CreateFlow(c.rule)
		wantError(t, err, `dpdk: port "ring": flow rule: `+c.want)
	}
}

func TestMulticastErrors(t *testing.T) {
	p := open(t, "ring", PortConfig{Pool: newPool(t)})
	_, err := p.SetMulticast([][6]byte{{2, 0, 0, 0, 0, 1}})
	wantError(t, err, `dpdk: port "ring": 020000000001 is no multicast address`)
	if how, err := p.SetMulticast(nil); err != nil || how != MulticastAll || how.String() != "allmulticast" {
		t.Errorf("multicast by %v, %v", how, err)
	}
}
