// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"testing"

	"causeway/ibside/fabric"
	"causeway/ibside/ib"
	"causeway/ibside/stamp"
)

const (
	// outside is an address of host A that the policy does not allow.
	outside = "10.11.0.1"
	// oneWay is a group that is open towards RoCE only.
	oneWay = "239.1.2.6"
	// stranger is an address of no node; A has a neighbour entry that sends its packets to the bridge.
	stranger = "10.9.0.77"
	// attackCount is how many messages each attack sends.
	attackCount = 3
)

// attack is what a host's own kernel sends and the bridge must drop, by name.
type attack struct {
	name   string
	from   string // an address of host A
	args   string
	reason string
}

var attacks = []attack{
	{"wrong Q_Key to a group", "10.9.0.1", "--qkey 0x22222222 --qpn 0xffffff --to " + groupV4, "qkey"},
	{"wrong Q_Key to an IPv6 group", "fd09::1", "--qkey 0x22222222 --qpn 0xffffff --to " + groupV6, "qkey"},
	{"controlled Q_Key", "10.9.0.1", "--qkey 0x80000001 --qpn 0xffffff --to " + groupV4, "qkey_controlled"},
	{"a group that is not bridged", "10.9.0.1", unicast + " --qpn 0xffffff --to 239.9.9.9", "mc_unknown"},
	{"an IPv6 group that is not bridged", "fd09::1", unicast + " --qpn 0xffffff --to ff0e::9999", "mc_unknown"},
	{"a control group", "10.9.0.1", unicast + " --qpn 0xffffff --to 224.0.0.99", "mc_control"},
	{"a group that is closed this way", "10.9.0.1", unicast + " --qpn 0xffffff --to " + oneWay, "mc_direction"},
	{"a source outside of policy", outside, unicast + " --qpn 0xffffff --to " + groupV4, "acl"},
	{"a source outside of policy, to a node", outside, unicast + " --qpn 5 --to 10.9.0.7", "acl"},
	{"a node that is not known", "10.9.0.1", unicast + " --qpn 5 --to " + stranger, "node_unknown"},
	{"a group, but a queue pair", "10.9.0.1", unicast + " --qpn 5 --to " + groupV4, "mcast_incons"},
	{"a node, but the multicast QPN", "10.9.0.1", unicast + " --qpn 0xffffff --to 10.9.0.7", "mcast_incons"},
	{"QP0", "10.9.0.1", unicast + " --qpn 0 --to 10.9.0.7", "qp0"},
	{"QP1 with a wrong Q_Key", "10.9.0.1", unicast + " --qpn 1 --to 10.9.0.7", "qkey"},
	{"QP1 with what is no datagram", "10.9.0.1", "--qkey 0x80010000 --qpn 1 --to 10.9.0.7", "mad_len"},
	{"QP1 with an unknown datagram", "10.9.0.1", "--qkey 0x80010000 --qpn 1 --size 256 --to 10.9.0.7", "mad_unserved"},
	{"another VLAN", "10.100.0.1", unicast + " --qpn 0xffffff --to " + groupV4, "vlan_unknown"},
}

// besieged is a bridge under attack.
type besieged struct {
	*Causeway
	node  *IBNode
	alien *IBNode // a node that the configuration does not have
	old   *IBNode // a node without an IPv6 address
	host  Peer    // sends the messages that must pass
	proof *proof
	sound uint64 // number of the last message that had to pass
}

// TestHostile: packets that must not cross are dropped for the right reason and no other, and packets that may cross
// still do afterwards.
func TestHostile(t *testing.T) {
	r, a, _ := theRig(t)
	const more = "[[group]]\nip = \"" + oneWay + "\"\ndirection = \"to-roce\"\n" +
		"[[host]]\nip = \"10.9.0.8\"\nside = \"ib\"\ngid = \"fe80::2:c903:0:8\"\n"
	proof := proves(t, "what must not cross is dropped by name; the rest goes on")
	c, nodes := bridgeWith(t, networks[0].config(more), topology, node7(fabric.RoleNone),
		fabric.NodeConfig{Name: "alien", GUID: nodeGUID + 2}, fabric.NodeConfig{Name: "old", GUID: nodeGUID + 1})
	b := &besieged{Causeway: c, node: nodes[0], alien: nodes[1], old: nodes[2], host: Peer{Guest: a, IP: "10.9.0.1"}, proof: proof}
	prepareHost(t, r, a)
	for _, x := range attacks {
		t.Run(x.name, func(t *testing.T) {
			b.expect(t, roceToIB, map[string]uint64{x.reason: attackCount}, 0, func() {
				from := Peer{Guest: a, IP: x.from}
				_, err := from.RunUDEnd(within(t, stepTime), fmt.Sprintf("%s --count %d %s send", from.udendArgs(), attackCount, x.args))
				if err != nil {
					t.Error(err)
				}
			})
		})
	}
	t.Run("a node's address", b.takesNodesAddress)
	t.Run("kernel RC", b.reliableConnection)
	t.Run("SIDR", b.sidr)
	t.Run("node's own checks", b.leftToTheNode)
	t.Run("nodes without an address on Ethernet", b.nodesWithoutAddress)
}

// prepareHost gives host A the addresses and the neighbour that attacks need,
// until the test ends.
func prepareHost(t *testing.T, r *Rig, a *Guest) {
	t.Helper()
	var port *net.Interface
	err := r.Do(func() (err error) {
		port, err = net.InterfaceByName(Port)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	err = a.Must(within(t, stepTime), fmt.Sprintf("ip addr add %s/24 dev eth0 && ip neigh replace %s lladdr %v dev eth0 nud permanent",
		outside, stranger, port.HardwareAddr))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stepTime) // the test's own context has ended
		defer cancel()
		if err := a.Must(ctx, fmt.Sprintf("ip addr del %s/24 dev eth0 && ip neigh del %s dev eth0", outside, stranger)); err != nil {
			t.Error(err)
		}
	})
	awaitGID(t, a, outside)
}

// awaitGID waits until the RDMA device has a GID of an IPv4 address.
func awaitGID(t *testing.T, g *Guest, ip string) {
	t.Helper()
	if err := g.Until(within(t, stepTime), hasGID(ip)); err != nil {
		t.Fatal(err)
	}
}

// hasGID is the condition that the RDMA device has a GID of an IPv4 address.
func hasGID(ip string) string {
	b := netip.MustParseAddr(ip).As4()
	return fmt.Sprintf("grep -qs ffff:%02x%02x:%02x%02x /sys/class/infiniband/rxe0/ports/1/gids/*", b[0], b[1], b[2], b[3])
}

// expect does something and waits until the bridge has counted it: these drops
// and no others, and so many packets sent. Then a good message must still pass.
func (b *besieged) expect(t *testing.T, direction string, drops map[string]uint64, sent uint64, do func()) {
	t.Helper()
	before, err := b.Metrics(within(t, stepTime))
	if err != nil {
		t.Fatal(err)
	}
	do()
	awaitMetrics(t, b.Causeway, func(m Metrics) error {
		since := m.Since(before)
		got := since.Drops(direction)
		for _, reason := range segmentNoise {
			if drops[reason] == 0 || got[reason] >= drops[reason] {
				got[reason] = drops[reason]
			}
		}
		maps.DeleteFunc(got, func(_ string, n uint64) bool { return n == 0 })
		if n := since.Of(direction, "packets_sent_total"); !maps.Equal(got, drops) || n != sent {
			return fmt.Errorf("%d sent and %v dropped, want %d and %v", n, got, sent, drops)
		}
		return m.Conserved()
	})
	for _, n := range drops {
		b.proof.add(int(n))
	}
	b.stillPasses(t)
}

// stillPasses sends one good message from host to node: it must be the next that the node gets, so nothing else has
// come through.
func (b *besieged) stillPasses(t *testing.T) {
	t.Helper()
	b.sound++
	m := receiveOne(t, b.node, b.host, fmt.Sprintf("--qpn 0xffffff --to %s --seq %d", groupV4, 1000+b.sound))
	if s, v := stamp.Read(m.Payload); v != stamp.Whole || s.Number != 1000+b.sound {
		t.Errorf("message %d came to the node, expected %d: %+v", s.Number, 1000+b.sound, m)
	}
	if n := b.node.Waiting(); n != 0 {
		t.Errorf("%d more messages came to the node", n)
	}
	b.proof.add(1)
}

// takesNodesAddress: on Ethernet only the bridge may send from a node's address.
func (b *besieged) takesNodesAddress(t *testing.T) {
	if err := b.host.Must(within(t, stepTime), "ip addr add 10.9.0.7/32 dev eth0"); err != nil {
		t.Fatal(err)
	}
	awaitGID(t, b.host.Guest, "10.9.0.7")
	b.expect(t, roceToIB, map[string]uint64{"loop_bridge": attackCount}, 0, func() {
		_, err := b.host.RunUDEnd(within(t, stepTime), fmt.Sprintf("--ip 10.9.0.7 %s --qpn 0xffffff --to %s --count %d send", unicast, groupV4, attackCount))
		if err != nil {
			t.Error(err)
		}
		if err := b.host.Must(within(t, stepTime), "ip addr del 10.9.0.7/32 dev eth0"); err != nil {
			t.Fatal(err)
		}
	})
}

// leftToTheNode: the node's adapter checks that a queue pair exists, and its Q_Key; its counters count the drops.
func (b *besieged) leftToTheNode(t *testing.T) {
	qpn := b.node.QP().QPN()
	for _, x := range []struct{ args, reason string }{
		{fmt.Sprintf("--qkey 0x22222222 --qpn %d", qpn), fabric.DropQKey},
		{fmt.Sprintf("%s --qpn %d", unicast, qpn^0x400000), fabric.DropNoQP},
	} {
		before := b.node.HCA().Stats().Drops[x.reason]
		b.expect(t, roceToIB, map[string]uint64{}, attackCount, func() {
			_, err := b.host.RunUDEnd(within(t, stepTime), fmt.Sprintf("--ip 10.9.0.1 --to 10.9.0.7 --count %d %s send", attackCount, x.args))
			if err != nil {
				t.Error(err)
			}
		})
		if n := b.node.HCA().Stats().Drops[x.reason] - before; n != attackCount {
			t.Errorf("%s: the node's adapter dropped %d as %s, want %d", x.args, n, x.reason, attackCount)
		}
		b.proof.add(attackCount)
	}
}

// nodesWithoutAddress: a node without an address of a group's IP version cannot send
// on Ethernet.
func (b *besieged) nodesWithoutAddress(t *testing.T) {
	for _, x := range []struct {
		node   *IBNode
		group  string
		reason string
	}{{b.alien, groupV4, "node_unknown"}, {b.alien, groupV6, "node_unknown"}, {b.old, groupV6, "node_no_ip"}} {
		b.expect(t, ibToRoCE, map[string]uint64{x.reason: attackCount}, 0, func() {
			if err := x.node.Publish(within(t, stepTime), mgid(x.group), []int{0, 64, 4096}, false); err != nil {
				t.Error(err)
			}
			if _, err := b.node.ReceiveN(within(t, stepTime), attackCount); err != nil { // it is a member too
				t.Error(err)
			}
		})
	}
	b.expect(t, ibToRoCE, map[string]uint64{}, attackCount, func() {
		if err := b.old.Publish(within(t, stepTime), mgid(groupV4), []int{0, 64, 4096}, false); err != nil {
			t.Error(err)
		}
		if _, err := b.node.ReceiveN(within(t, stepTime), attackCount); err != nil {
			t.Error(err)
		}
	})
}

// reliableConnection: the kernel's RC tries to connect to the node's queue pair. ibv_rc_pingpong gets its peer's
// address over TCP, and accepts any string.
func (b *besieged) reliableConnection(t *testing.T) {
	gid := ib.GIDFromAddr(netip.MustParseAddr("10.9.0.7"))
	peer := fmt.Sprintf(`0000:%06x:000000:%032x\0`, uint32(b.node.QP().QPN()), gid[:])
	b.atLeast(t, "bth_opcode", fmt.Sprintf("printf '%s' | nc -l -p 18515 & sleep .3; "+
		"exec ibv_rc_pingpong -d rxe0 -n 1 -s 64 -g $(cd /sys/class/infiniband/rxe0/ports/1/gids && grep -ls ffff:0a09:0001 *) 127.0.0.1", peer))
}

// sidr: rdma_cm asks for a service of the node's that the configuration does not bridge. The bridge itself rejects the
// request.
func (b *besieged) sidr(t *testing.T) {
	b.atLeast(t, "mad_served", "exec udaddy -b 10.9.0.1 -s 10.9.0.7")
}

// atLeast runs a program of the host until the bridge has dropped packets of it for this reason, however often the
// program tries.
func (b *besieged) atLeast(t *testing.T, reason, command string) {
	t.Helper()
	before, err := b.Metrics(within(t, stepTime))
	if err != nil {
		t.Fatal(err)
	}
	program, err := b.host.Start(command)
	if err != nil {
		t.Fatal(err)
	}
	awaitMetrics(t, b.Causeway, func(m Metrics) error {
		drops, _ := withoutNoise(m.Since(before).Drops(roceToIB))
		if n := drops[reason]; n == 0 || len(drops) != 1 {
			return fmt.Errorf("%q: dropped %v, want %s; it printed %q", command, drops, reason, program.Output())
		}
		return m.Conserved()
	})
	program.Stop()
	b.proof.add(1)
	b.stillPasses(t)
}
