// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"fmt"
	"net/netip"

	"causeway/ibside/ib"
	"causeway/ibside/stamp"
	"causeway/lcore/frame/roce"
)

// A message without a stamp has its flow and the low bits of its number in the immediate data. Bit 31 keeps it apart
// from QPNs, which the bridge would rewrite.
const (
	immMark       = 1 << 31
	immNumberBits = 16
	immStreams    = 1 << 15
)

// immOf returns the immediate data of a message, and whether it has any: without a stamp always, else sometimes.
func immOf(stream uint32, number uint64, size int) (imm uint32, has bool) {
	return immMark | stream%immStreams<<immNumberBits | uint32(number)%(1<<immNumberBits), size < stamp.Len || number%3 == 0
}

// immOf is that of a flow's.
func (f *flow) immOf(number uint64, size int) (imm uint32, has bool) {
	imm, has = immOf(f.stream, number, size)
	return imm, has || f.numbered
}

// sizes are those that flows go through: none, every pad count, around the smallest that carries a stamp, InfiniBand's
// largest.
var sizes = []int{0, 1, 2, 3, 4, 31, 32, 33, 64, 255, 256, 1023, 1024, 2048, 4093, 4095, 4096}

// someSizes returns some of them.
func (r *rig) someSizes() []int {
	all := make([]int, 3+r.random.IntN(6))
	for i := range all {
		all[i] = sizes[r.random.IntN(len(sizes))]
	}
	return all
}

// deliver gives a message to its flow: it has come to a receiver in a partition. from is the sender's address on RoCE,
// where there is one.
func (r *rig) deliver(in *partition, at string, from netip.Addr, hasImm bool, imm uint32, payload []byte) {
	stream, verdict, ok := streamOf(hasImm, imm, payload)
	if !ok {
		r.foreign(at, verdict, len(payload))
		return
	}
	if r.crossed(in, at, stream) {
		return
	}
	r.mu.Lock()
	f := r.flows[stream]
	r.mu.Unlock()
	if f == nil {
		return // it has ended
	}
	i, right := f.at[at]
	if !right || f.from.IsValid() && from != f.from {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.fault("a message is at %s, from %v, with the immediate data %#x (%v), of %d bytes", at, from, imm, hasImm, len(payload))
		return
	}
	f.arrive(i, message{payload, hasImm, imm})
}

// foreign takes a message that belongs to no flow: one of a flood, or one that is damaged. Floods reach groups, and no
// flow's queue pair.
func (r *rig) foreign(at string, verdict stamp.Verdict, size int) {
	for _, f := range r.all() {
		if _, is := f.at[at]; !is || f.group.IsValid() && verdict != stamp.BadStamp {
			continue
		}
		f.mu.Lock()
		f.fault("a message of %d bytes at %s is damaged, or nobody's: verdict %d", size, at, verdict)
		f.mu.Unlock()
		return
	}
}

// newStream returns the number of a new flow.
func (r *rig) newStream() uint32 {
	for {
		if s := r.stream() % immStreams; s != 0 && r.flowOf(s) == nil {
			return s
		}
	}
}

func (r *rig) flowOf(stream uint32) *flow {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.flows[stream]
}

// flow makes a flow to some receivers.
func (r *rig) flow(name, kind string, at ...string) *flow {
	f := newFlow(name, kind, r.newStream(), len(at), r.someSizes())
	for i, x := range at {
		f.at[x] = i
	}
	return f
}

// echoed starts a flow from a queue pair of a host to a node and back, over IPv4 or IPv6.
func (r *rig) echoed(h *host, n int, v6 bool) {
	qpn := ib.QPN(0x1000 + r.random.IntN(0x100000))
	own, to, kind := h.IP4, nodeIP4(n), "echoed, IPv4"
	if v6 {
		own, to, kind = h.IP6, nodeIP6(n), "echoed, IPv6"
	}
	f := r.flow(fmt.Sprintf("%v QPN %v ⇄ node %d", h, qpn, n), kind, h.at(qpn, own))
	f.in, f.host, f.node, f.from = h.in, h.i, n, to
	f.transmit = func(number uint64, payload []byte) error {
		imm, has := immOf(f.stream, number, len(payload))
		return h.Send(roce.Packet{
			DstIP: to, DestQP: nodeQPN(n), SrcQP: qpn, QKey: ib.QKeyRDMAUDP, HasImm: has, Imm: imm, Payload: payload,
		})
	}
	r.start(f)
}

// published starts a flow from a host to a group that a node has joined.
func (r *rig) published(h *host, group netip.Addr, n int, kind string) {
	qpn := ib.QPN(0x1000 + r.random.IntN(0x100000))
	f := r.flow(fmt.Sprintf("%v → %v → node %d", h, group, n), kind, atNode(n, group))
	f.in, f.host, f.node, f.group = h.in, h.i, n, group
	f.transmit = func(number uint64, payload []byte) error {
		imm, has := immOf(f.stream, number, len(payload))
		return h.Send(roce.Packet{
			DstIP: group, DestQP: ib.QPMulticast, SrcQP: qpn, QKey: ib.QKeyRDMAUDP, HasImm: has, Imm: imm, Payload: payload,
		})
	}
	r.start(f)
}

// received starts a flow from a node to a group that hosts have joined.
func (r *rig) received(n int, group netip.Addr, kind string, hosts ...*host) {
	var at []string
	for _, h := range hosts {
		at = append(at, h.at(0, group))
	}
	f := r.flow(fmt.Sprintf("node %d → %v → %d hosts", n, group, len(hosts)), kind, at...)
	f.host, f.node, f.group, f.from, f.toHosts = hosts[0].i, n, group, nodeIP4(n), true
	f.numbered = r.bridge.fabrics > 1
	if group != shared {
		f.in = hosts[0].in
	}
	if group.Is6() {
		f.from = nodeIP6(n)
	}
	f.transmit = func(number uint64, payload []byte) error {
		imm, has := f.immOf(number, len(payload))
		return r.nodes[n].send(group, has, imm, payload)
	}
	r.start(f)
}

// permanent is how many hosts stay. They are members of the configured groups.
const permanent = 3

// begin makes the hosts that stay, and their flows.
func (r *rig) begin() error {
	var all []*host
	for _, p := range r.partitions {
		if err := r.beginIn(p); err != nil {
			return err
		}
		all = append(all, p.hosts...)
	}
	if len(r.partitions) > 1 {
		if err := r.receivedByAll(r.nodes[1], shared, "group of two segments", all); err != nil {
			return err
		}
	}
	for _, f := range r.all() {
		f.stays = true
	}
	r.addCrossers()
	return nil
}

// beginIn makes those of a partition.
func (r *rig) beginIn(p *partition) error {
	for i := range permanent {
		if err := r.addHost(p, i); err != nil {
			return err
		}
		r.echoed(p.hosts[i], p.first(), false)
		r.echoed(p.hosts[i], p.first()+i, p.hosts[i].IP6.IsValid())
	}
	n := r.nodes[p.first()+1]
	for v, group := range toIB {
		if err := n.join(group, true); err != nil {
			return err
		}
		if v == 0 || p.hosts[v].IP6.IsValid() {
			r.published(p.hosts[v], group, n.i, "group to InfiniBand")
		}
	}
	for v, group := range toRoCE {
		if v == 1 && !p.hosts[0].IP6.IsValid() {
			continue
		}
		if err := r.receivedByAll(n, group, "group to RoCE", p.hosts); err != nil {
			return err
		}
	}
	return nil
}

// receivedByAll has hosts join a group, and a node send to it.
func (r *rig) receivedByAll(n *node, group netip.Addr, kind string, hosts []*host) error {
	for _, h := range hosts {
		if err := h.join(group); err != nil {
			return err
		}
	}
	if err := n.join(group, false); err != nil {
		return err
	}
	r.received(n.i, group, kind, hosts...)
	return nil
}

// join makes a host a member of a group.
func (h *host) join(group netip.Addr) (err error) {
	h.leave[group], err = h.Join(group)
	return err
}

// quit ends a membership.
func (h *host) quit(group netip.Addr) error {
	leave := h.leave[group]
	delete(h.leave, group)
	if leave == nil {
		return nil
	}
	return leave()
}
