// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"sync"
	"time"

	"causeway/ibside/ib"
	"causeway/ibside/sa"
)

// NewSAClient makes a client of the subnet administrator. It receives all SA MADs of an adapter, so an adapter has at
// most one. A query times out after some seconds. The client ends with the adapter.
func NewSAClient(h *HCA) *sa.Client {
	return sa.NewClient(NewMADPort(h, ib.ClassSA), sa.Config{FirstWait: 250 * time.Millisecond, Tries: 6})
}

// DropMADQueue is the drop reason for a MAD whose reader is too slow.
const DropMADQueue = "mad_queue"

// MADPort sends and receives the MADs of one class at QP1 of an adapter. It is a transport of ibside/sa, and an
// alternative to handleMAD for that class.
type MADPort struct {
	hca    *HCA
	class  uint8
	before MADHandler // which the port took the place of; nil: there was none
	queue  chan madFrom
	closed chan struct{}
	once   sync.Once
}

type madFrom struct {
	from MADAddress
	mad  []byte
}

// NewMADPort makes a MADPort, in place of what handled the class before, until it is closed: so a test can be an
// administrator that is slow or silent for a time. Closing the adapter also ends ReceiveMAD.
func NewMADPort(h *HCA, class uint8) *MADPort {
	p := &MADPort{hca: h, class: class, queue: make(chan madFrom, gsiBuffers), closed: make(chan struct{})}
	p.before = h.handleMAD(class, func(from MADAddress, mad []byte) {
		select {
		case p.queue <- madFrom{from, mad}:
		default:
			h.gsi.drops.add(DropMADQueue)
		}
	})
	return p
}

// SendMAD sends ib.MADLen bytes to QP1 of a port.
func (p *MADPort) SendMAD(to ib.LID, sl ib.SL, mad []byte) error {
	switch cause := p.hca.SendMAD(MADAddress{LID: to, SL: sl}, mad); cause {
	case "":
		return nil
	case DropPortClosed:
		return ErrClosed
	default:
		return fmt.Errorf("fabric: send MAD to %v: %s", to, cause)
	}
}

// ReceiveMAD waits for the next datagram and writes it to mad, which has ib.MADLen bytes.
func (p *MADPort) ReceiveMAD(mad []byte) (ib.LID, ib.SL, error) {
	select {
	case got := <-p.queue:
		copy(mad, got.mad)
		return got.from.LID, got.from.SL, nil
	case <-p.closed:
	case <-p.hca.stopped:
	}
	return 0, 0, ErrClosed
}

// Pass gives a datagram that was received to what handled the class before.
func (p *MADPort) Pass(from ib.LID, sl ib.SL, mad []byte) {
	if p.before != nil {
		p.before(MADAddress{LID: from, SL: sl}, mad)
	}
}

// PortState returns what the subnet assigned to the port.
func (p *MADPort) PortState() (ib.PortState, error) {
	select {
	case <-p.hca.stopped:
		return ib.PortState{}, ErrClosed
	default:
	}
	info := p.hca.Info()
	return ib.PortState{Active: p.hca.Down() == "", GID: info.GID, LID: info.LID, LMC: info.LMC, SMLID: info.SMLID}, nil
}

// Close closes the MADPort, but not the adapter.
func (p *MADPort) Close() error {
	p.once.Do(func() {
		p.hca.handleMAD(p.class, p.before)
		close(p.closed)
	})
	return nil
}

var _ sa.Transport = (*MADPort)(nil)
