// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"context"
	"sync"

	"causeway/ibside/ib"
)

// gsiBuffers is the number of receive buffers of QP1.
const gsiBuffers = 256

// Reasons for dropped MADs that QP1 received.
const (
	DropMADLen      = "mad_len"      // not 256 bytes
	DropMADUnserved = "mad_unserved" // no handler for its class
)

// MADAddress is the source or destination of a MAD. The queue pair is always QP1.
type MADAddress struct {
	LID ib.LID
	SL  ib.SL
	GRH *ib.GRHFields // nil: none. An answer swaps SGID and DGID

	PKeyIndex uint16 // in the port's table, of the P_Key that the MAD is sent with, or came with
}

// MADHandler receives a MAD, ib.MADLen bytes that it must not modify. It may call SendMAD.
type MADHandler func(from MADAddress, mad []byte)

// gsi is the general services interface: QP1 and its handlers.
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
	g.qp = &QP{hca: h, qpn: ib.QP1, qkey: ib.QKeyGSI, pkey: h.own().PKeys[0], recv: g.recv}
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
	from := MADAddress{LID: r.SLID, SL: r.SL, PKeyIndex: r.PKeyIndex}
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

// handleMAD sets the handler for MADs of a class that QP1 receives. One goroutine calls it, one MAD at a time. nil
// removes it. It returns the one before.
func (h *HCA) handleMAD(class uint8, f MADHandler) (before MADHandler) {
	h.gsi.mu.Lock()
	defer h.gsi.mu.Unlock()
	before = h.gsi.handlers[class]
	if f == nil {
		delete(h.gsi.handlers, class)
		return before
	}
	h.gsi.handlers[class] = f
	return before
}

// SendMAD sends a management datagram, ib.MADLen bytes, from QP1 to QP1. It returns "" or the drop reason.
func (h *HCA) SendMAD(to MADAddress, mad []byte) string {
	if len(mad) != ib.MADLen {
		h.sendDrops.add(DropMADLen)
		return DropMADLen
	}
	return h.gsi.qp.Send(&Send{
		AH:     AH{DLID: to.LID, SL: to.SL, GRH: to.GRH},
		DestQP: ib.QP1, QKey: ib.QKeyGSI, PKeyIndex: to.PKeyIndex, Payload: mad,
	})
}
