// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"context"
	"sync"

	"causeway/ibside/ib"
)

// gsiBuffers is how many management datagrams wait for their service.
const gsiBuffers = 256

// Causes of drops of datagrams that QP1 received.
const (
	DropMADLen      = "mad_len"      // not 256 bytes
	DropMADUnserved = "mad_unserved" // nobody asked for its class
)

// MADAddress is where a management datagram came from, or goes to. Its queue pair is always QP1.
type MADAddress struct {
	LID ib.LID
	SL  ib.SL
	GRH *ib.GRHFields // nil: none. To answer with a GRH, exchange SGID and DGID
}

// MADHandler takes a management datagram, ib.MADLen bytes that it must not change. It may call SendMAD.
type MADHandler func(from MADAddress, mad []byte)

// gsi is the general services interface: QP1 and who is behind it.
type gsi struct {
	qp       *QP
	recv     *RecvQueue
	mu       sync.Mutex
	handlers map[uint8]MADHandler
	drops    tally
	cancel   context.CancelFunc
	stopped  chan struct{}
}

func newGSI(h *HCA) *gsi {
	ctx, cancel := context.WithCancel(context.Background())
	g := &gsi{recv: NewRecvQueue(gsiBuffers), handlers: map[uint8]MADHandler{}, cancel: cancel, stopped: make(chan struct{})}
	g.qp = &QP{hca: h, qpn: ib.QP1, qkey: ib.QKeyGSI, pkey: h.info.PKeys[0], recv: g.recv}
	h.qps[ib.QP1] = g.qp
	go g.serve(ctx)
	return g
}

func (g *gsi) serve(ctx context.Context) {
	defer close(g.stopped)
	var burst [recvBurst]Received
	for g.recv.Wait(ctx) == nil {
		n := g.recv.Poll(burst[:])
		for i := range burst[:n] {
			g.dispatch(&burst[i])
		}
	}
}

func (g *gsi) dispatch(r *Received) {
	if len(r.Payload) != ib.MADLen {
		g.drops.add(DropMADLen)
		return
	}
	mad, _ := ib.AsMAD(r.Payload)
	g.mu.Lock()
	handle := g.handlers[mad.Class()]
	g.mu.Unlock()
	if handle == nil {
		g.drops.add(DropMADUnserved)
		return
	}
	from := MADAddress{LID: r.SLID, SL: r.SL}
	if grh, ok := ib.AsGRH(r.GRH[:]); ok && r.HasGRH {
		f := grh.Fields()
		from.GRH = &f
	}
	handle(from, r.Payload)
}

func (g *gsi) close() {
	g.cancel()
	<-g.stopped
}

// HandleMAD sets who gets the datagrams of a management class that reach QP1: one goroutine calls it, one
// datagram after the other. A nil handler ends it.
func (h *HCA) HandleMAD(class uint8, f MADHandler) {
	h.gsi.mu.Lock()
	defer h.gsi.mu.Unlock()
	if f == nil {
		delete(h.gsi.handlers, class)
		return
	}
	h.gsi.handlers[class] = f
}

// SendMAD sends a management datagram, ib.MADLen bytes, from QP1 to QP1. It returns "" or why it was dropped.
func (h *HCA) SendMAD(to MADAddress, mad []byte) string {
	if len(mad) != ib.MADLen {
		h.sendDrops.add(DropMADLen)
		return DropMADLen
	}
	return h.gsi.qp.Send(&Send{
		AH:     AH{DLID: to.LID, SL: to.SL, GRH: to.GRH},
		DestQP: ib.QP1, QKey: ib.QKeyGSI, Payload: mad,
	})
}

// MADDrops counts the datagrams that QP1 received and nobody served.
func (h *HCA) MADDrops() Counts { return h.gsi.drops.counts() }
