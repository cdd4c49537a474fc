// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"causeway/ibside/fabric"
	"causeway/ibside/ib"
	"causeway/lcore/frame/roce"
)

// flows returns the flows: both directions, unicast and multicast, IPv4 and, if available, IPv6.
func (tb *testbed) flows() ([]*flow, error) {
	echo := 0
	published, err := tb.published()
	if err != nil {
		return nil, err
	}
	flows := []*flow{tb.echoed(tb.hosts[0], nodeIP4(echo), echo)}
	if h := tb.hosts[1]; h.IP6.IsValid() {
		flows = append(flows, tb.echoed(h, nodeIP6(echo), echo))
	}
	return append(flows, tb.multicast(), published), nil
}

// echoed returns a flow from a host to the echo node, which answers to the proxy QP. The answers must arrive at the
// host's QP.
func (tb *testbed) echoed(h *host, to netip.Addr, node int) *flow {
	f := newFlow(fmt.Sprintf("%s ⇄ %s %v", h.Name, nodeNames[node], to), "unicast, echoed", 1)
	qpn := tb.nodes[node].QP().QPN()
	f.transmit = func(number uint64, payload []byte) error { return h.send(to, qpn, number%4 == 0, payload) }
	h.mu.Lock()
	defer h.mu.Unlock()
	h.onUD[qpn] = func(p *roce.Packet) {
		if p.SrcIP == to {
			f.arrive(0, p.Payload)
		}
	}
	return f
}

// multicast returns a flow from a host to the group that the listener has joined.
func (tb *testbed) multicast() *flow {
	h := tb.hosts[0]
	f := newFlow(fmt.Sprintf("%s → %v → %s", h.Name, toIB, nodeNames[1]), "multicast to IB", 1)
	f.transmit = func(number uint64, payload []byte) error { return h.send(toIB, ib.QPMulticast, number%2 == 0, payload) }
	receive := func(r *fabric.Received) {
		if r.MGID() != mgidOf(toIB) {
			return
		}
		f.arrive(0, r.Payload)
	}
	tb.onListen.Store(&receive)
	return f
}

// published makes a node send to the group that both hosts have joined.
func (tb *testbed) published() (*flow, error) {
	f := newFlow(fmt.Sprintf("%s → %v → hosts", nodeNames[1], toRoCE), "multicast to RoCE", len(tb.hosts))
	for i, h := range tb.hosts {
		err := h.join(toRoCE, func(p *roce.Packet) { f.arrive(i, p.Payload) })
		if err != nil {
			return nil, fmt.Errorf("demo: %s joins %v: %w", h.Name, toRoCE, err)
		}
	}
	var sends []func(number uint64, payload []byte) error
	for _, n := range tb.publishers() {
		send, err := publisher(n, toRoCE)
		if err != nil {
			return nil, err
		}
		sends = append(sends, send)
	}
	f.transmit = func(number uint64, payload []byte) (err error) {
		for _, send := range sends {
			err = errors.Join(err, send(number, payload))
		}
		return err
	}
	return f, nil
}

// publisher makes a node send to a group that hosts have joined.
func publisher(n *fabric.Node, to netip.Addr) (func(number uint64, payload []byte) error, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	group, err := n.SA().Join(ctx, ib.MCMemberFields{
		MGID: mgidOf(to), QKey: ib.QKeyRDMAUDP, PKey: ib.PKeyDefault, JoinState: ib.JoinSendOnlyFull,
	})
	if err != nil {
		return nil, fmt.Errorf("demo: %s joins %v: %w", n.Config().Name, to, err)
	}
	return func(number uint64, payload []byte) error {
		why := n.QP().Send(&fabric.Send{
			AH:     fabric.AH{DLID: group.MLID, SL: group.SL, GRH: &ib.GRHFields{DGID: group.MGID, HopLimit: group.HopLimit}},
			DestQP: ib.QPMulticast, QKey: group.QKey, HasImm: number%2 == 0, Imm: uint32(number), Payload: payload,
		})
		if why != "" {
			return fmt.Errorf("demo: the node did not send: %s", why)
		}
		return nil
	}, nil
}
