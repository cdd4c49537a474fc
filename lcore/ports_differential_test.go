// SPDX-License-Identifier: Apache-2.0

package lcore_test

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"

	"causeway/lcore"
	"causeway/lcore/frame"
)

// A frame by one of two ports has the port in front, as a byte.

func byPort(port int, f []byte) []byte { return append([]byte{byte(port)}, f...) }

// portsRig is a rig with two ports.
type portsRig struct{ *rig }

// judge delivers frames by both ports at once. What is dropped is named with the port, and what is sent is in the order of
// the ports whose proxy QPs send it.
func (s portsRig) judge(frames [][]byte) judged {
	before := s.datapath.PortCounters()
	for port := range 2 {
		var own [][]byte
		for _, f := range frames {
			if int(f[0]) == port {
				own = append(own, f[1:])
			}
		}
		s.arriveBy(port, 0, own...)
	}
	s.work()
	j := judged{drops: map[string]uint64{}}
	for port, c := range s.datapath.PortCounters() {
		for d, n := range c[lcore.RoCEToIB].Drops {
			if n -= before[port][lcore.RoCEToIB].Drops[d]; n > 0 {
				j.drops[byPortNamed(d.String(), port)] = n
			}
		}
	}
	j.takePunted(s.takePunted())
	var second []posted
	for _, m := range s.toIB(0) {
		if p := postedOf(m); s.fixture.second.sends(p.QP) {
			second = append(second, p)
		} else {
			j.sent = append(j.sent, p)
		}
	}
	j.sent = append(j.sent, second...)
	return j
}

func byPortNamed(drop string, port int) string { return fmt.Sprintf("%s by port %d", drop, port) }

// sends reports whether one of the proxy QPs has this handle.
func (w *fixture) sends(qp uint32) bool {
	for i := range w.proxyQPs {
		if w.proxyQPs[i].QP == qp {
			return true
		}
	}
	return false
}

// takePunted counts what management got, and ends what waits. MADs that are served have been counted as dropped.
func (j *judged) takePunted(all []lcore.PuntedFrame) {
	served := [2]uint64{j.drops[byPortNamed("mad_served", 0)], j.drops[byPortNamed("mad_served", 1)]}
	for _, o := range all {
		switch {
		case o.Pending != nil:
			j.drops[byPortNamed(isPending, int(o.Pending.Port()))]++
			o.Pending.Drop(lcore.DropShutdown)
		case served[o.Port] > 0:
			served[o.Port]--
		default:
			j.drops[byPortNamed(isPunted, int(o.Port))]++
		}
	}
	if served != [2]uint64{} {
		j.drops["served, and not punted to management"] = served[0] + served[1]
	}
}

// portsModel is the reference of a bridge with two ports: two bridges, each with one, that share the nodes.
type portsModel struct{ segments }

func newPortsModel(w *fixture) portsModel {
	w.second.config.MAC, w.second.config.MoreMACs = secondMAC, [][6]byte{bridgeMAC}
	return portsModel{newSegments(w)}
}

func (m portsModel) judge(frames [][]byte) judged {
	all := judged{drops: map[string]uint64{}}
	for port, r := range m.segments {
		for _, f := range frames {
			if int(f[0]) != port {
				continue
			}
			j := r.judge([][]byte{f[1:]})
			for d, n := range j.drops {
				all.drops[byPortNamed(d, port)] += n
			}
			all.sent = append(all.sent, j.sent...)
		}
	}
	return all
}

// readdressed is a frame for the second port, if it was for the first; a frame from the bridge is from either port.
func readdressed(f []byte, port int, either bool) []byte {
	f = bytes.Clone(f)
	if port == 1 && bytes.HasPrefix(f, bridgeMAC[:]) {
		copy(f, secondMAC[:])
	}
	if either && len(f) >= frame.EthernetLen && bytes.Equal(f[6:12], bridgeMAC[:]) {
		copy(f[6:], secondMAC[:])
	}
	return f
}

// TestDifferentialPorts compares a bridge of two ports, each with a partition of its own, with two bridges of one: frames
// come by both at once.
func TestDifferentialPorts(t *testing.T) {
	packets, seed := drawn(t)
	w := twoPorts()
	s, r := newRig(t, w), newPortsModel(w)
	g := [2]*generator{newGenerator(w, seed, 95), newGenerator(w.second, seed, 96)}
	for i := range g {
		g[i].nodes = append(g[i].nodes, inFirstIP, inSecondIP, hostIP, onlySecond)
		g[i].sgids = append(g[i].sgids, inFirstGID, inSecondGID)
	}
	frames := make([][]byte, differentialBatch)
	for range packets / 8 / differentialBatch {
		for i := range frames {
			port := g[0].IntN(2)
			frames[i] = byPort(port, readdressed(g[port].frame(), port, g[0].rarely(2)))
		}
		compare(t, portsRig{s}, r, frames)
		comparePortsFromIB(t, s, r, func() message { return g[g[0].IntN(2)].message() })
		if t.Failed() {
			return
		}
	}
	for port, c := range s.datapath.PortCounters() {
		t.Logf("port %d: %d frames: %d sent, drops %v", port, c[lcore.RoCEToIB].Received, c[lcore.RoCEToIB].Sent, c[lcore.RoCEToIB].Drops)
		for _, name := range []string{"wrong_partition", "same_side", "l2_notus", "loop_self", "vlan_unknown"} {
			if c[lcore.RoCEToIB].Drops[dropNamed(t, name)] == 0 {
				t.Errorf("port %d: no packet was dropped by %s", port, name)
			}
		}
		if in, out := c[lcore.RoCEToIB], c[lcore.IBToRoCE]; in.Sent < in.Received/20 || out.Sent < uint64(packets/8/100) {
			t.Errorf("port %d: only %d of %d packets were good, and %d messages left", port, in.Sent, in.Received, out.Sent)
		}
	}
	if c := s.counters(lcore.IBToRoCE); c.Drops[dropNamed(t, "wrong_partition")] == 0 {
		t.Error("no message was dropped by wrong_partition")
	}
}

// comparePortsFromIB compares messages: each leaves by the port of the segment that it is for.
func comparePortsFromIB(t *testing.T, s *rig, r portsModel, draw func() message) {
	t.Helper()
	before := s.counters(lcore.IBToRoCE)
	msgs := make([]message, differentialBatch)
	drops := map[lcore.Drop]uint64{}
	var frames [2][][]byte
	for i := range msgs {
		msgs[i] = draw()
		f, why := r.fromIB(&msgs[i])
		switch {
		case why != "":
			drops[dropNamed(t, why)]++
		case bytes.Equal(f[6:12], secondMAC[:]):
			frames[1] = append(frames[1], f)
		default:
			frames[0] = append(frames[0], f)
		}
	}
	s.fromIB(msgs...)
	if d := s.droppedSince(lcore.IBToRoCE, before); !maps.Equal(d, drops) {
		t.Errorf("the C drops %v, the model %v", d, drops)
	}
	for port := range frames {
		if got := s.sentBy(port, 0); !slices.EqualFunc(got, frames[port], bytes.Equal) {
			t.Errorf("port %d: the C sends %d frames, the model %d, or they differ:\n%x\n%x", port, len(got), len(frames[port]), first(got), first(frames[port]))
		}
	}
}

func first(all [][]byte) []byte { return append(all, nil)[0] }

// TestEveryMutationByPorts sends frames that are damaged in every way, each by both ports.
func TestEveryMutationByPorts(t *testing.T) {
	w := twoPorts()
	s, r := newRig(t, w), newPortsModel(w)
	n := 0
	for _, seed := range seeds() {
		var all [][]byte
		for i, f := range mutations(seed) {
			port := i % 2
			all = append(all, byPort(port, readdressed(f, port, false)), byPort(1-port, readdressed(f, port, false)))
		}
		for batch := range slices.Chunk(all, differentialBatch) {
			compare(t, portsRig{s}, r, batch)
			n += len(batch)
		}
	}
	t.Logf("%d packets", n)
}
