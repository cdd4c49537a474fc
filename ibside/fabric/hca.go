// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"causeway/ibside/ib"
)

// HCA is a channel adapter with one port, for unreliable datagrams: it turns messages into packets and back, and checks
// received packets as verbs do.
type HCA struct {
	port Port
	info atomic.Pointer[PortInfo] // as last told; see own
	link chan struct{}            // see Link

	mu      sync.Mutex // for the receive side; held for one burst
	qps     map[ib.QPN]*QP
	groups  map[ib.GID][]*QP
	nextQPN ib.QPN
	recv    HCAStats // the sending half is unused

	sent      atomic.Uint64
	sendDrops tally
	gsi       *gsi
	stopped   chan struct{}
}

// HCAStats counts packets. Received = Delivered + Drops.Sum(), always.
type HCAStats struct {
	Packets   uint64 // from the port
	Received  uint64 // Packets, plus one for each further queue pair of a multicast
	Delivered uint64 // to a receive queue
	ToQP1     uint64 // of Delivered: management
	Drops     Counts

	Sent      uint64 // to the switch
	SendDrops Counts
}

const recvBurst = 64

// NewHCA attaches an adapter to a port. Close closes the port, too.
func NewHCA(port Port) *HCA {
	h := &HCA{
		port: port, link: make(chan struct{}, 1), qps: map[ib.QPN]*QP{}, groups: map[ib.GID][]*QP{},
		nextQPN: ib.QPN(rand.Uint32() & 0xffffff), recv: HCAStats{Drops: Counts{}}, stopped: make(chan struct{}),
	}
	info := port.Info()
	h.info.Store(&info)
	h.gsi = newGSI(h)
	go h.receive()
	return h
}

// Info returns what the subnet assigned to the adapter's port.
func (h *HCA) Info() PortInfo {
	i := *h.own()
	i.PKeys = slices.Clone(i.PKeys)
	return i
}

// own is Info without a copy, which nobody may modify.
func (h *HCA) own() *PortInfo { return h.info.Load() }

// Close takes the adapter off the subnet and waits until it has stopped.
func (h *HCA) Close() error {
	err := h.port.Close()
	<-h.stopped
	h.gsi.close()
	return err
}

// Gone is closed when the adapter or its subnet is closed.
func (h *HCA) Gone() <-chan struct{} { return h.stopped }

// Stats returns the counters.
func (h *HCA) Stats() HCAStats {
	h.mu.Lock()
	s := h.recv
	s.Drops = Counts{}
	s.Drops.add(h.recv.Drops)
	h.mu.Unlock()
	s.Sent, s.SendDrops = h.sent.Load(), h.sendDrops.counts()
	return s
}

func (h *HCA) receive() {
	defer close(h.stopped)
	packets := make([][]byte, recvBurst)
	for {
		n, err := h.port.Recv(packets)
		if err != nil {
			return
		}
		if n == 0 {
			h.linkChanged()
			continue
		}
		h.mu.Lock()
		for _, b := range packets[:n] {
			h.recv.Packets++
			h.packet(b)
		}
		h.mu.Unlock()
	}
}

func (h *HCA) drop(cause string) {
	h.recv.Received++
	h.recv.Drops[cause]++
}

// packet delivers one packet to its queue pairs, or drops it. The caller holds the lock.
func (h *HCA) packet(b []byte) {
	p, fault := ib.ParseChecked(b)
	if fault != ib.FaultNone {
		h.drop(string(fault))
		return
	}
	if cause := h.checkPacket(&p); cause != "" {
		h.drop(cause)
		return
	}
	qps := h.destinations(&p)
	if len(qps) == 0 {
		h.drop(noDestination(&p))
		return
	}
	r := received(&p, b)
	for _, q := range qps {
		h.deliver(q, &p, r)
	}
}

// checkPacket makes the checks of the port, before those of a queue pair.
func (h *HCA) checkPacket(p *ib.Packet) string {
	multicast, info := p.DLID.IsMulticast(), h.own()
	switch {
	case multicast && p.SLID.Base(info.LMC) == info.LID: // IBTA vol 1 §10.5.2 allows an adapter to drop its own multicast
		return DropLoopSelf
	case !multicast && p.DLID.Base(info.LMC) != info.LID:
		return DropDLID
	case !multicast && p.GRH != nil && p.GRH.DGID != info.GID:
		return DropDGID
	case p.DestQP == ib.QP0:
		return DropQP0
	case len(p.Payload) > info.MTU.Bytes():
		return DropMTU
	}
	return ""
}

func (h *HCA) destinations(p *ib.Packet) []*QP {
	if p.DLID.IsMulticast() {
		return h.groups[p.GRH.DGID] // many groups may share one MLID: the MGID decides
	}
	if q := h.qps[p.DestQP]; q != nil {
		return []*QP{q}
	}
	return nil
}

func noDestination(p *ib.Packet) string {
	if p.DLID.IsMulticast() {
		return DropMCUnknown
	}
	return DropNoQP
}

// received makes the message of a packet b, without the fields of the queue pair.
func received(p *ib.Packet, b []byte) Received {
	r := Received{
		SrcQP: p.SrcQP, SLID: p.SLID, SL: p.SL, Imm: p.Imm, HasImm: p.OpCode == ib.OpUDSendOnlyImm,
		HasGRH: p.GRH != nil, Solicited: p.Solicited, FECN: p.FECN, Payload: p.Payload,
	}
	if r.HasGRH {
		copy(r.GRH[:], b[ib.LRHLen:])
	}
	return r
}

// deliver checks P_Key and Q_Key and fills a receive buffer.
func (h *HCA) deliver(q *QP, p *ib.Packet, r Received) {
	index, ok := h.matchPKey(q, p.PKey)
	switch {
	case !ok:
		h.drop(DropPKey)
		return
	case p.QKey != q.qkey:
		h.drop(DropQKey)
		return
	}
	r.QPN, r.PKeyIndex = q.qpn, index
	if !q.recv.put(&r) {
		h.drop(DropNoBuffer)
		return
	}
	h.recv.Received++
	h.recv.Delivered++
	if q.qpn == ib.QP1 {
		h.recv.ToQP1++
	}
}

// matchPKey returns the index of the P_Key that matches: QP1 may take any of the port's (IBTA vol 1 §10.9.8), another
// queue pair only its own.
func (h *HCA) matchPKey(q *QP, pkey ib.PKey) (uint16, bool) {
	if q.qpn != ib.QP1 {
		return q.index, !q.outside.Load() && q.pkey.Matches(pkey)
	}
	for i, k := range h.own().PKeys {
		if k.Matches(pkey) {
			return uint16(i), true
		}
	}
	return 0, false
}
