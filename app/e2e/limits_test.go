// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"causeway/ibside/fabric"
)

// TestSubnetMTU: the subnet's MTU is smaller than the host's. What fits passes,
// one byte more does not; neither to a group nor to a node.
func TestSubnetMTU(t *testing.T) {
	_, a, _ := theRig(t)
	proof := proves(t, "payload larger than the subnet's MTU")
	c, nodes := bridgeWith(t, networks[0].config(""), strings.Replace(topology, "4096", "2048", 1), node7(fabric.RoleNone))
	b := &besieged{Causeway: c, node: nodes[0], host: Peer{Guest: a, IP: "10.9.0.1"}, proof: proof}
	networks[0].families(t, a, func(t *testing.T, host Peer, nodeIP, group string) {
		for _, to := range []string{fmt.Sprintf("--to %s --qpn %d", nodeIP, b.node.QP().QPN()), "--qpn 0xffffff --to " + group} {
			if m := receiveOne(t, b.node, host, to+" --size 2048"); len(m.Payload) != 2048 {
				t.Errorf("2048 bytes came as %d", len(m.Payload))
			}
			b.expect(t, roceToIB, map[string]uint64{"mtu_exceeded": 2}, 0, func() {
				_, err := host.RunUDEnd(within(t, stepTime), fmt.Sprintf("%s %s %s --count 2 --size 2049,4096 send", host.udendArgs(), unicast, to))
				if err != nil {
					t.Error(err)
				}
			})
		}
	})
}

// TestSegmentMTU: the Ethernet segment carries less than the subnet.
func TestSegmentMTU(t *testing.T) {
	_, a, _ := theRig(t)
	proof := proves(t, "payload larger than the segment's MTU")
	config := strings.Replace(networks[0].config(""), fmt.Sprintf("mtu       = %d", hostMTU), "mtu = 1500", 1)
	c, nodes := bridgeWith(t, config, topology, node7(fabric.RoleNone))
	b := &besieged{Causeway: c, node: nodes[0], host: Peer{Guest: a, IP: "10.9.0.1"}, proof: proof}
	networks[0].families(t, a, func(t *testing.T, host Peer, _, group string) {
		listener, err := host.StartUDEnd(within(t, stepTime), fmt.Sprintf("%s %s --mgid %s --count 2 --seconds 20 recv", host.udendArgs(), unicast, group))
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Stop()
		b.expect(t, ibToRoCE, map[string]uint64{"mtu_exceeded": 2}, 2, func() {
			if err := b.node.Publish(within(t, stepTime), mgid(group), []int{1024, 1025, 4096, 1023}, false); err != nil {
				t.Error(err)
			}
		})
		events, exit, err := listener.Wait(within(t, stepTime))
		received := Only(events, "received")
		if exit != 0 || err != nil || len(received) != 2 || received[0].Length != 1024 || received[1].Length != 1023 {
			t.Errorf("the host received %+v: exit %d, %v", received, exit, err)
		}
	})
}

// TestProxyQPLimit: packets of a host with more queue pairs than it may have proxy QPs are dropped by name; those of
// another host are not.
func TestProxyQPLimit(t *testing.T) {
	_, a, other := theRig(t)
	proof := proves(t, "more queue pairs than a host may have proxy QPs")
	config := strings.Replace(networks[0].config(""), "[workers]", "[workers]\nproxy_qps_per_host = 2", 1)
	c, nodes := bridgeWith(t, config, topology, node7(fabric.RoleNone))
	b := &besieged{Causeway: c, node: nodes[0], host: Peer{Guest: other, IP: "10.9.0.2"}, proof: proof}
	host := Peer{Guest: a, IP: "10.9.0.1"}
	for range 2 {
		receiveOne(t, b.node, host, "--qpn 0xffffff --to "+groupV4)
	}
	b.expect(t, roceToIB, map[string]uint64{"proxy_qp_full": attackCount}, 0, func() {
		_, err := host.RunUDEnd(within(t, stepTime), fmt.Sprintf("%s %s --qpn 0xffffff --to %s --count %d send", host.udendArgs(), unicast, groupV4, attackCount))
		if err != nil {
			t.Error(err)
		}
	})
}
