// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"causeway/ibside/fabric"
	"causeway/ibside/ib"
	"causeway/lcore/frame/roce"
)

// flows are what the demonstration shows: both ways, unicast and multicast, IPv4 and, where there is any, IPv6.
func (w *world) flows() ([]*flow, error) {
	echo := 0
	published, err := w.published()
	if err != nil {
		return nil, err
	}
	flows := []*flow{w.asked(w.hosts[0], nodeIP4(echo), echo)}
	if h := w.hosts[1]; h.ip6.IsValid() {
		flows = append(flows, w.asked(h, nodeIP6(echo), echo))
	}
	return append(flows, w.multicast(), published), nil
}

// asked has a host send to the echo, which answers the stand-in: the answers must find back to the host's QP.
func (w *world) asked(h *host, to netip.Addr, node int) *flow {
	f := newFlow(fmt.Sprintf("%s ⇄ %s %v", h.name, nodeNames[node], to), "unicast, answered", 1)
	qpn := w.nodes[node].QP().QPN()
	f.transmit = func(number uint64, payload []byte) error { return h.send(to, qpn, number%4 == 0, payload) }
	h.mu.Lock()
	defer h.mu.Unlock()
	h.onUD[qpn] = func(p *roce.Packet) {
		if p.SrcIP != to {
			h.bad.Add(1)
			return
		}
		if number, first := f.arrive(0, p.Payload); first {
			f.trips.end(number)
		}
	}
	return f
}

// multicast has a host send to the group that the listener has joined.
func (w *world) multicast() *flow {
	h := w.hosts[0]
	f := newFlow(fmt.Sprintf("%s → %v → %s", h.name, toIB, nodeNames[1]), "multicast to IB", 1)
	f.transmit = func(number uint64, payload []byte) error { return h.send(toIB, ib.QPMulticast, number%2 == 0, payload) }
	heard := func(r *fabric.Received) {
		if r.MGID() != mgidOf(toIB) {
			return
		}
		if number, first := f.arrive(0, r.Payload); first {
			f.trips.end(number)
		}
	}
	w.onListen.Store(&heard)
	return f
}

// published has a node send to the group that both hosts have joined.
func (w *world) published() (*flow, error) {
	f := newFlow(fmt.Sprintf("%s → %v → hosts", nodeNames[1], toRoCE), "multicast to RoCE", len(w.hosts))
	for i, h := range w.hosts {
		err := h.join(toRoCE, func(p *roce.Packet) {
			if number, first := f.arrive(i, p.Payload); first {
				f.trips.end(number)
			}
		})
		if err != nil {
			return nil, fmt.Errorf("demo: %s joins %v: %w", h.name, toRoCE, err)
		}
	}
	n := w.nodes[1]
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	group, err := n.SA().Join(ctx, ib.MCMemberFields{
		MGID: mgidOf(toRoCE), QKey: ib.QKeyRDMAUDP, PKey: ib.PKeyDefault, JoinState: ib.JoinSendOnlyFull,
	})
	if err != nil {
		return nil, fmt.Errorf("demo: %s joins %v: %w", nodeNames[1], toRoCE, err)
	}
	f.transmit = func(number uint64, payload []byte) error {
		why := n.QP().Send(&fabric.Send{
			AH:     fabric.AH{DLID: group.MLID, SL: group.SL, GRH: &ib.GRHFields{DGID: group.MGID, HopLimit: group.HopLimit}},
			DestQP: ib.QPMulticast, QKey: group.QKey, HasImm: number%2 == 0, Imm: uint32(number), Payload: payload,
		})
		if why != "" {
			return fmt.Errorf("demo: the node did not send: %s", why)
		}
		return nil
	}
	return f, nil
}
