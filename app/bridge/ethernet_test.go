// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"causeway/config"
	"causeway/dpdk"
	"causeway/tables"
)

// TestRules checks that the flow rules of a shared port select RoCE of the configured versions and nothing else, with
// RoCEv2 spread over the workers. That the port takes such rules is checked by the task rules.
func TestRules(t *testing.T) {
	const v2, v2IPv6, v1 = dpdk.MatchRoCEv2IPv4, dpdk.MatchRoCEv2IPv6, dpdk.MatchRoCEv1
	first, both := []uint16{0}, []uint16{0, 1}
	one, two := config.Workers{LCores: []int{3}}, config.Workers{LCores: []int{3, 4}}
	for _, c := range []struct {
		name string
		cfg  config.Config
		want []dpdk.Rule
	}{
		{"v2, one worker", config.Config{RoCE: config.RoCE{V2: true}, Workers: one},
			[]dpdk.Rule{{Match: v2, Queues: first}, {Match: v2IPv6, Queues: first}}},
		{"v1 in a VLAN", config.Config{RoCE: config.RoCE{V1: true, VLAN: 300}, Workers: one},
			[]dpdk.Rule{{Match: v1, Queues: first, VLAN: 300}}},
		{"both, two workers, VLAN", config.Config{RoCE: config.RoCE{V1: true, V2: true, VLAN: 100}, Workers: two},
			[]dpdk.Rule{{Match: v2, Queues: both, RSS: true, VLAN: 100}, {Match: v2IPv6, Queues: both, RSS: true, VLAN: 100},
				{Match: v1, Queues: first, VLAN: 100}}},
		{"a tap, whose driver knows no VLAN ids", config.Config{
			RoCE: config.RoCE{V1: true, VLAN: 100, Port: config.EthPort{Driver: "tap", Arg: "cw0,remote=eth1"}}, Workers: one},
			[]dpdk.Rule{{Match: v1, Queues: first}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if rules := (&ethernetPort{cfg: &c.cfg, name: c.cfg.RoCE.Port}).rules(&c.cfg.RoCE); !reflect.DeepEqual(rules, c.want) {
				t.Errorf("rules\n%+v\nwant\n%+v", rules, c.want)
			}
		})
	}
}

// TestPlainRules checks which datagrams flow rules of groups of plain UDP take, and that their MAC addresses are
// received.
func TestPlainRules(t *testing.T) {
	group := tables.GroupAddr{IP: netip.MustParseAddr("239.1.2.3"), UDPPort: 4711}
	p := &ethernetPort{cfg: &config.Config{RoCE: config.RoCE{V2: true, VLAN: 9}, Workers: config.Workers{LCores: []int{3, 4}},
		Groups: []config.Group{{IP: group.IP, UDPPort: group.UDPPort, Direction: config.ToIB}, {IP: group.IP, Direction: config.ToRoCE}}}}
	if got := p.groupsToIB(); !slices.Equal(got[9], []tables.GroupAddr{group}) {
		t.Errorf("groups to IB: %v", got)
	}
	want := dpdk.Rule{Match: dpdk.MatchUDP, IP: group.IP, UDPPort: 4711, Queues: []uint16{0, 1}, RSS: true, VLAN: 9}
	if got := p.plainRule(vlanGroup{9, group}); !reflect.DeepEqual(got, want) {
		t.Errorf("rule %+v, want %+v", got, want)
	}
}

// taskRules checks that the Ethernet port takes every rule: only the hardware card is missing here.
func taskRules() (string, error) {
	h, err := built()
	if err != nil {
		return "", err
	}
	defer h.Close()
	p, err := dpdk.OpenPort("null", dpdk.PortConfig{Pool: h.pool, RxQueues: 2, TxQueues: 2})
	if err != nil {
		return "", err
	}
	defer p.Close()
	n := 0
	for _, workers := range []int{1, 2} {
		for _, r := range (&ethernetPort{cfg: &config.Config{
			RoCE:    config.RoCE{V1: true, V2: true, VLAN: 100},
			Workers: config.Workers{LCores: slices.Repeat([]int{0}, workers)},
		}}).rules(&config.RoCE{V1: true, V2: true, VLAN: 100}) {
			if _, err := p.CreateFlow(r); !errors.Is(err, dpdk.ErrNoFlow) {
				return "", fmt.Errorf("%d workers: %+v: %w", workers, r, err)
			}
			n++
		}
	}
	return fmt.Sprintf("%d rules", n), nil
}
