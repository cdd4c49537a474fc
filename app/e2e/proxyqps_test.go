// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"testing"
	"time"

	"causeway/ibside/fabric"
	"causeway/ibside/ib"
	"causeway/ibside/stamp"
)

// caller is a queue pair of a host that calls the node and then listens.
type caller struct {
	host  Peer
	first uint32 // number of the first message it sends
	udend *UDEnd
	at    fabric.Send // a message to its proxy QP that lacks only its payload
}

// unasked is added to a caller's numbers to number the messages that the node sends it without a request.
const unasked = 50

// TestProxyQPs: two hosts with two queue pairs each send to the node at the same time. Each queue pair has a proxy QP
// of its own, and what the node later sends there comes to exactly that queue pair, though both hosts use the same
// QPNs.
func TestProxyQPs(t *testing.T) {
	_, a, b := theRig(t)
	proof := proves(t, "two hosts, two queue pairs each: four proxy QPs, used in both directions")
	for _, family := range []struct{ name, prefix string }{{"v4", networks[0].v4}, {"v6", networks[0].v6}} {
		t.Run(family.name, func(t *testing.T) {
			c, node := networks[0].bridge(t, fabric.RoleNone)
			const count = 8
			callers := startCallers(t, node, count,
				Peer{Guest: a, IP: family.prefix + "1"}, Peer{Guest: b, IP: family.prefix + "2"})
			received, err := node.ReceiveN(within(t, stepTime), count*len(callers))
			if err != nil {
				t.Fatal(err)
			}
			findProxyQPs(t, callers, received, count)
			answerByTurns(t, node, callers, count)
			for i := range callers {
				receivesInOrder(t, callers[i].udend, node, callers[i].first+unasked, count)
			}
			total := uint64(count * len(callers))
			checkExact(t, c, len(callers), total)
			sendToNobody(t, c, node, callers, total)
			proof.add(2*int(total) + 1)
		})
	}
}

// startCallers starts two queue pairs on each host, all at once.
func startCallers(t *testing.T, node *IBNode, count int, hosts ...Peer) []caller {
	t.Helper()
	var callers []caller
	for _, host := range slices.Concat(hosts, hosts) {
		first := uint32(len(callers)+1) * 100
		u, err := host.StartUDEnd(within(t, stepTime), fmt.Sprintf("%s %s --to %s --qpn %d --count %d --seq %d --gap 2 --seconds 20 exchange",
			host.udendArgs(), unicast, addrOfNode(host.IP), node.QP().QPN(), count, first))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(u.Stop)
		callers = append(callers, caller{host: host, first: first, udend: u})
	}
	return callers
}

// findProxyQPs finds each caller's proxy QP by the messages that came from it, and checks that all have come, and that
// no two callers share one.
func findProxyQPs(t *testing.T, callers []caller, received []fabric.Received, count int) {
	t.Helper()
	messages := map[uint64]int{} // by number
	proxyQPs := map[ib.QPN]int{} // whose
	for _, m := range received {
		s, v := stamp.Read(m.Payload)
		i := int(s.Number)/100 - 1
		if v != stamp.Whole || i < 0 || i >= len(callers) {
			t.Fatalf("a message that nobody has sent: %+v", m)
		}
		messages[s.Number]++
		if owner, known := proxyQPs[m.SrcQP]; known && owner != i {
			t.Errorf("callers %d and %d share the proxy QP %v", owner, i, m.SrcQP)
		}
		proxyQPs[m.SrcQP] = i
		callers[i].at = fabric.Send{AH: fabric.AH{DLID: m.SLID}, DestQP: m.SrcQP, QKey: ib.QKeyRDMAUDP}
	}
	if len(proxyQPs) != len(callers) || len(messages) != len(callers)*count {
		t.Errorf("%d different messages came from %d proxy QPs, want %d from %d", len(messages), len(proxyQPs), len(callers)*count, len(callers))
	}
}

func answerByTurns(t *testing.T, node *IBNode, callers []caller, count int) {
	t.Helper()
	for n := range count {
		for _, c := range callers {
			message := c.at
			message.Payload = stamp.Message(uint64(c.first)+unasked+uint64(n), 64+n)
			if err := node.Send(message); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// segmentNoise are drop reasons of packets that are no part of a test: those that the switch floods, and those that the
// hosts' interfaces of other VLANs send.
var segmentNoise = []string{"l2_notus", "vlan_unknown"}

// withoutNoise leaves out segmentNoise; its sum comes second.
func withoutNoise(drops map[string]uint64) (map[string]uint64, uint64) {
	var noise uint64
	drops = maps.Clone(drops)
	for _, reason := range segmentNoise {
		noise += drops[reason]
		delete(drops, reason)
	}
	return drops, noise
}

// checkExact checks a bridge's counters since its start: so many proxy QPs,
// and each way so many messages, of which all went through.
func checkExact(t *testing.T, c *Causeway, proxyQPs int, each uint64) {
	t.Helper()
	awaitMetrics(t, c, func(m Metrics) error {
		if m["causeway_proxy_qps"] != uint64(proxyQPs) || m["causeway_proxy_qps_made_total"] != uint64(proxyQPs) {
			return fmt.Errorf("%d proxy QPs, %d were made; want %d", m["causeway_proxy_qps"], m["causeway_proxy_qps_made_total"], proxyQPs)
		}
		for _, direction := range []string{roceToIB, ibToRoCE} {
			drops, noise := withoutNoise(m.Drops(direction))
			received, sent := m.Of(direction, "packets_received_total"), m.Of(direction, "packets_sent_total")
			if received != each+noise || sent != each || len(drops) > 0 {
				return fmt.Errorf("%s: %d received, %d of them noise, %d sent, dropped %v; want %d", direction, received, noise, sent, drops, each)
			}
		}
		return m.Conserved()
	})
}

// noQP matches the counter that the bridge's channel adapter logs at the end.
var noQP = regexp.MustCompile(`ib_port_closed.*\bdrops=\S*\bno_qp:1\b`)

// sendToNobody: a message to a QPN that is no proxy QP is dropped by the bridge's channel adapter and counted as no_qp.
// The function ends the bridge.
func sendToNobody(t *testing.T, c *Causeway, node *IBNode, callers []caller, before uint64) {
	t.Helper()
	somebody, nobody := callers[0].at, callers[0].at
	for slices.ContainsFunc(callers, func(o caller) bool { return o.at.DestQP == nobody.DestQP }) {
		nobody.DestQP ^= 0x400000
	}
	// When the second has been forwarded, the first has been handled.
	for _, message := range []fabric.Send{nobody, somebody} {
		message.Payload = stamp.Message(1, 64)
		if err := node.Send(message); err != nil {
			t.Fatal(err)
		}
	}
	awaitMetrics(t, c, func(m Metrics) error {
		if n := m.Of(ibToRoCE, "packets_sent_total"); n != before+1 {
			return fmt.Errorf("%d messages were sent to RoCE, want %d", n, before+1)
		}
		return nil
	})
	if err := c.Stop(); err != nil {
		t.Error(err)
	}
	if !noQP.MatchString(c.Log()) {
		t.Error("a message to a QPN that nobody has was not counted as no_qp")
	}
}

// awaitMetrics scrapes the bridge until it is as it should be, and fails the
// test if it does not become so.
func awaitMetrics(t *testing.T, c *Causeway, right func(Metrics) error) {
	t.Helper()
	for deadline := time.Now().Add(countedWithin); ; time.Sleep(pollEvery) {
		m, err := c.Metrics(within(t, stepTime))
		if err != nil {
			t.Fatal(err)
		}
		err = right(m)
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Error(err)
			return
		}
	}
}

// countedWithin is how long a packet may take from a guest's completion to the
// bridge's counters.
const countedWithin = 5 * time.Second

// orderlyCount is how many messages one queue pair sends in a row.
const orderlyCount = 1000

// TestOrder: once a queue pair has its proxy QP, the node gets its messages in the order of sending. Only those that
// waited for the proxy QP may be overtaken.
func TestOrder(t *testing.T) {
	_, a, b := theRig(t)
	proof := proves(t, "order within a flow, two hosts at once")
	c, node := networks[0].bridge(t, fabric.RoleNone)
	var senders []*UDEnd
	for i, host := range []Peer{{Guest: a, IP: networks[0].v4 + "1"}, {Guest: b, IP: networks[0].v4 + "2"}} {
		u, err := host.StartUDEnd(within(t, stepTime), fmt.Sprintf("%s %s --to %s --qpn %d --count %d --seq %d send",
			host.udendArgs(), unicast, addrOfNode(host.IP), node.QP().QPN(), orderlyCount, (i+1)*10*orderlyCount))
		if err != nil {
			t.Fatal(err)
		}
		defer u.Stop()
		senders = append(senders, u)
	}
	came, err := node.ReceiveN(within(t, stepTime), orderlyCount*len(senders))
	if err != nil {
		t.Error(err)
	}
	for _, u := range senders {
		if _, exit, err := u.Wait(within(t, stepTime)); exit != 0 || err != nil {
			t.Errorf("udend send: exit %d, %v", exit, err)
		}
	}
	m, err := c.Metrics(within(t, stepTime))
	if err != nil {
		t.Fatal(err)
	}
	checkOrder(t, came, len(senders), int(m.Of(roceToIB, "proxy_qp_waits_total")))
	proof.add(len(came))
}

// checkOrder checks each flow's numbers: all came, once, in order. The first
// `waited` of a flow, and no others, may have waited for its proxy QP.
func checkOrder(t *testing.T, came []fabric.Received, flows, waited int) {
	t.Helper()
	if waited < flows || waited > orderlyCount/2 {
		t.Errorf("%d messages waited for %d proxy QPs", waited, flows)
	}
	bySource := map[ib.QPN][]int{}
	for _, m := range came {
		s, v := stamp.Read(m.Payload)
		if v != stamp.Whole {
			t.Errorf("a message came damaged: %+v", m)
		}
		bySource[m.SrcQP] = append(bySource[m.SrcQP], int(s.Number)%(10*orderlyCount))
	}
	if len(bySource) != flows {
		t.Errorf("%d proxy QPs for %d queue pairs", len(bySource), flows)
	}
	for qpn, numbers := range bySource {
		early := slices.DeleteFunc(slices.Clone(numbers), func(n int) bool { return n >= waited })
		late := slices.DeleteFunc(slices.Clone(numbers), func(n int) bool { return n < waited })
		if !slices.IsSorted(late) || len(slices.Compact(slices.Sorted(slices.Values(numbers)))) != orderlyCount {
			t.Errorf("proxy QP %v: out of order or not all: %v", qpn, numbers)
		}
		if !slices.IsSorted(early) {
			t.Logf("proxy QP %v: overtaken while it was made: %v", qpn, early)
		}
	}
}
