// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"causeway/app/segment"
	"causeway/ibside/fabric"
	"causeway/ibside/ib"
	"causeway/ibside/stamp"
	"causeway/lcore/frame"
	"causeway/lcore/frame/roce"
)

// Nothing may cross from one partition to another. Every message has the stream of a flow or of a crosser, which is of a
// partition, and whoever takes one compares. Crossers are there so that something is tried, all the time: they send by
// the bridge's own cable, past hosts' kernels, which would not send to whom nobody answers for.

// A crosser is somebody of a segment who sends to nodes of the other partition.
type crosser struct {
	in     *partition
	stream uint32
	host   netip.Addr // nobody's
}

// isNone reports whether it is no partition: what is of no segment may be nowhere.
func (p *partition) isNone() bool { return p.segment == nil }

// addCrossers makes one for each partition, where there are several, and one for what is of none.
func (r *rig) addCrossers() {
	if len(r.partitions) == 1 {
		return
	}
	none := &partition{i: len(r.partitions)}
	for _, p := range append(r.partitions[:len(r.partitions):len(r.partitions)], none) {
		c := &crosser{in: p, stream: r.newStream(), host: netip.AddrFrom4([4]byte{10, 9, 0, byte(0xf0 + p.i)})}
		r.mu.Lock()
		r.crossers[c.stream] = c
		r.mu.Unlock()
	}
}

// cross has a crosser try until ctx ends.
func (r *rig) cross(ctx context.Context, c *crosser) {
	const every = 50 * time.Millisecond
	for number := uint64(1); ctx.Err() == nil; number++ {
		if c.in.services.still.Load() {
			time.Sleep(every)
			continue
		}
		mac, err := r.portAddress(c.in) // it changes
		if err == nil {
			for _, to := range r.partitions {
				p := c.packet(mac, nodeIP4(to.first()), number)
				p.DestQP = nodeQPN(to.first())
				if to != c.in {
					err = errors.Join(err, c.in.inject(p.AppendTo(nil)))
				}
			}
		}
		if err != nil && ctx.Err() == nil {
			r.note("the crosser%s: %v", c.in.of(), err) // the link may be down
		}
		time.Sleep(every)
	}
}

// packet is a crosser's message.
func (c *crosser) packet(mac frame.MAC, to netip.Addr, number uint64) roce.Packet {
	b := make([]byte, stamp.Len)
	stamp.Fill(b, uint16(number))
	(&stamp.Stamp{Stream: c.stream, Number: number, Time: stamp.Now(), Seed: uint16(number)}).Put(b)
	p := roce.Packet{
		Version: 2, Dst: mac, Src: frame.MAC{2, 0x51, 0, 0, 0, byte(c.in.i)}, SrcIP: c.host, DstIP: to, HopLimit: 64, SrcPort: 0xc124, PKey: ib.PKeyDefault,
		PSN: uint32(number) & 0xffffff, QKey: ib.QKeyRDMAUDP, SrcQP: 0x301, Payload: b,
	}
	if vlan := c.in.vlan(); vlan != 0 {
		p.Tag = &frame.VLANFields{VID: vlan}
	}
	return p
}

// inject sends frames to the bridge's port by the other end of its cable, with whatever tag they have.
func (p *partition) inject(frames ...[]byte) error {
	return p.cable.Do(func() error {
		far, err := net.InterfaceByName(segment.Far)
		if err != nil {
			return err
		}
		s, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(s)
		for _, b := range frames {
			if err := unix.Sendto(s, b, 0, &unix.SockaddrLinklayer{Ifindex: far.Index}); err != nil && !errors.Is(err, unix.ENOBUFS) && !errors.Is(err, unix.ENETDOWN) {
				return err
			}
		}
		return nil
	})
}

// crossingFlood sends frames of every VLAN to nodes of every partition, with one tag and with two, from a port.
func crossingFlood(r *rig) fault {
	p, n := r.anyPartition(), 1000+r.random.IntN(4000)
	mac, failed := r.portAddress(p)
	frames := make([][]byte, n)
	for i := range frames {
		tag := []uint16{0, secondVLAN, secondVLAN + 1}[r.random.IntN(3)]
		node := r.random.IntN(len(r.nodes))
		x := r.packet(p, mac, netip.AddrFrom4([4]byte{10, 9, 0, byte(128 + r.random.IntN(100))}), nodeIP4(node), 0)
		x.DestQP = nodeQPN(node)
		x.Payload = r.crosserOn(p, tag).packet(mac, x.DstIP, uint64(i+1)).Payload
		if x.Tag = nil; tag != 0 {
			x.Tag = &frame.VLANFields{VID: tag, PCP: uint8(r.random.IntN(8))}
		}
		frames[i] = x.AppendTo(nil)
		if tag != 0 && r.random.IntN(8) == 0 {
			frames[i] = append(append(append([]byte{}, frames[i][:12]...), 0x81, 0, 0, byte(secondVLAN)), frames[i][12:]...)
		}
	}
	return fault{fmt.Sprintf("%d frames for every partition by the port%s", n, p.of()), "flood", everything, false, func() error {
		return errors.Join(failed, p.inject(frames...))
	}}
}

// crosserOn returns the crosser of the segment of a port with a VLAN, or the one of no segment.
func (r *rig) crosserOn(port *partition, vlan uint16) (of *crosser) {
	for _, c := range r.crossers {
		if c.in.port == port.port && c.in.vlan() == vlan || of == nil && c.in.isNone() {
			of = c
		}
	}
	return of
}

// streamOf returns the stream of a message; false: it has none.
func streamOf(hasImm bool, imm uint32, payload []byte) (stream uint32, verdict stamp.Verdict, ok bool) {
	s, verdict := stamp.Read(payload)
	if verdict.Stamped() {
		return s.Stream, verdict, true
	}
	return imm &^ immMark >> immNumberBits, verdict, hasImm && imm&immMark != 0
}

// crossed notices a message that is in another partition than its sender, and reports whether it is.
func (r *rig) crossed(in *partition, at string, stream uint32) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	var from *partition
	who := ""
	if c := r.crossers[stream]; c != nil {
		from, who = c.in, fmt.Sprint("the crosser ", c.host)
	} else if f := r.flows[stream]; f != nil {
		from, who = f.in, f.name
	}
	if from == nil || from == in { // it has ended, or has receivers in both
		return false
	}
	const most = 20
	if len(r.crossings) < most {
		r.crossings = append(r.crossings, fmt.Sprintf("%s: a message has crossed from %v to %v: that of %s is at %s",
			time.Now().Format("15:04:05.000"), from, in, who, at))
	}
	return true
}

// passed takes a message that has come to a node's queue pair, which sends it back.
func (n *node) passed(m *fabric.Received) {
	if stream, _, ok := streamOf(m.HasImm, m.Imm, m.Payload); ok {
		n.rig.crossed(n.in, fmt.Sprintf("node %d QPN %v", n.i, m.QPN), stream)
	}
}

// checkCrossings reports what has crossed since the last time, what nodes' adapters kept from doing so, and waits until the
// bridge has rejected something, if crossers are there.
func (r *rig) checkCrossings() {
	r.mu.Lock()
	all := r.crossings
	r.crossings = nil
	r.mu.Unlock()
	for _, c := range all {
		r.fault("%s", c)
	}
	for _, n := range r.nodes {
		if kept := n.strangers(); kept > 0 {
			r.fault("%d messages of another partition have come to node %d%s", kept, n.i, n.in.of())
		}
	}
	if len(r.crossers) == 0 {
		return
	}
	r.patiently("the bridge rejects what would cross", func() string {
		s, err := r.bridge.status(r.ctx)
		if err == nil && s.Directions["roce_to_ib"].Drops["wrong_partition"] == 0 {
			return "none was dropped by wrong_partition"
		}
		if err != nil {
			return err.Error()
		}
		return ""
	})
}

// strangers returns how many packets a node's adapters have rejected by their P_Key.
func (n *node) strangers() (sum uint64) {
	if n.second != nil {
		sum = n.second.strangers()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.node != nil {
		sum += n.node.HCA().Stats().Drops[fabric.DropPKey]
	}
	return sum
}
