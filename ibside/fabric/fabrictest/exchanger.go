// SPDX-License-Identifier: Apache-2.0

// Package fabrictest provides nodes of the software subnet for tests of several packages.
package fabrictest

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"causeway/ibside/fabric"
	"causeway/ibside/ib"
	"causeway/ibside/stamp"
)

// An Exchanger is a node that runs the protocol of rdma_cm's example udaddy, as client and as server: the client sends
// Count messages, then the server sends as many back. Each message has its sender's QPN as immediate data, and answers
// go to that QPN.
type Exchanger struct {
	Node  *fabric.Node
	CM    *fabric.CM
	IPs   []netip.Addr // the node's, at most one of each family
	Count int          // messages each way
	Size  int          // of each, bytes (stamp.Message)

	// Anyone has it take messages from whichever queue pair: of a fleet, another bridge may carry what its peer sends.
	Anyone bool
}

// An Exchange is the result of one connection.
type Exchange struct {
	Local, Remote ib.QPN
	Received      []fabric.Received // with copies of the payloads
	Err           error
}

// Serve answers requests for a port, each with its own queue pair, and passes the result of each to done.
func (e *Exchanger) Serve(ctx context.Context, port uint16, done func(Exchange)) error {
	return e.CM.Serve([]fabric.CMPorts{{First: port, Last: port}}, func(r *fabric.CMRequest) { done(e.Answer(ctx, r)) })
}

// Answer answers one request and exchanges messages.
func (e *Exchanger) Answer(ctx context.Context, r *fabric.CMRequest) (x Exchange) {
	if !slices.Contains(e.IPs, r.To) {
		x.Err = r.Reject(ib.SIDRStatusRejected, nil)
		return x
	}
	qp, recv, err := e.queuePair()
	if err != nil {
		x.Err = r.Reject(ib.SIDRStatusNoQP, nil)
		return x
	}
	defer qp.Destroy()
	x.Local = qp.QPN()
	if x.Err = r.Accept(qp.QPN(), qp.QKey(), nil); x.Err != nil {
		return x
	}
	if x.Err = e.receive(ctx, recv, &x); x.Err != nil {
		return x
	}
	first := &x.Received[0]
	x.Remote = ib.QPN(first.Imm)
	x.Err = e.send(qp, x.Remote, qp.QKey(), addressOf(first))
	return x
}

// Connect requests a service of the host to, behind the port with a GID, and exchanges messages.
func (e *Exchanger) Connect(ctx context.Context, gid ib.GID, to netip.Addr, port uint16) (x Exchange) {
	from := slices.IndexFunc(e.IPs, func(a netip.Addr) bool { return a.Is4() == to.Is4() })
	if from < 0 {
		x.Err = fmt.Errorf("fabric: node %s: no address to connect to %v from", e.Node.Config().Name, to)
		return x
	}
	path, err := e.Node.SA().Path(ctx, gid)
	if err != nil {
		x.Err = err
		return x
	}
	a, err := e.CM.Connect(ctx, fabric.CMConnect{
		Route: fabric.MADAddress{LID: path.DLID, SL: path.SL}, From: e.IPs[from], To: to, FromPort: port, Port: port,
	})
	if err != nil {
		x.Err = err
		return x
	}
	qp, recv, err := e.queuePair()
	if err != nil {
		x.Err = err
		return x
	}
	defer qp.Destroy()
	x.Local, x.Remote = qp.QPN(), a.QPN
	if x.Err = e.send(qp, a.QPN, a.QKey, fabric.AH{DLID: path.DLID, SL: path.SL}); x.Err == nil {
		x.Err = e.receive(ctx, recv, &x)
	}
	return x
}

func (e *Exchanger) queuePair() (*fabric.QP, *fabric.RecvQueue, error) {
	recv := fabric.NewRecvQueue(4096)
	qp, err := e.Node.HCA().CreateQP(fabric.QPConfig{QKey: e.Node.Config().QKey, Recv: recv})
	return qp, recv, err
}

func (e *Exchanger) send(qp *fabric.QP, to ib.QPN, qkey ib.QKey, ah fabric.AH) error {
	for i := range e.Count {
		cause := qp.Send(&fabric.Send{
			AH: ah, DestQP: to, QKey: qkey, Imm: uint32(qp.QPN()), HasImm: true, Payload: stamp.Message(uint64(i+1), e.Size),
		})
		if cause != "" {
			return fmt.Errorf("fabric: node %s: message %d of %d to %v: %s", e.Node.Config().Name, i+1, e.Count, to, cause)
		}
	}
	return nil
}

// receive takes Count messages. The immediate data of each must be its sender's QPN.
func (e *Exchanger) receive(ctx context.Context, recv *fabric.RecvQueue, x *Exchange) error {
	for len(x.Received) < e.Count {
		if err := recv.Wait(ctx); err != nil {
			return fmt.Errorf("fabric: node %s: received %d of %d messages: %w", e.Node.Config().Name, len(x.Received), e.Count, context.Cause(ctx))
		}
		var burst [64]fabric.Received
		for _, m := range burst[:recv.Poll(burst[:])] {
			if !m.HasImm || m.Imm != uint32(m.SrcQP) || x.Remote != 0 && !e.Anyone && m.SrcQP != x.Remote {
				return fmt.Errorf("fabric: node %s: a message from QPN %v, want %v, with immediate data %#x (%v)",
					e.Node.Config().Name, m.SrcQP, x.Remote, m.Imm, m.HasImm)
			}
			m.Payload = append([]byte(nil), m.Payload...)
			x.Received = append(x.Received, m)
		}
	}
	return nil
}

// addressOf returns the address handle for an answer to a message.
func addressOf(r *fabric.Received) fabric.AH {
	ah := fabric.AH{DLID: r.SLID, SL: r.SL}
	if grh, ok := ib.AsGRH(r.GRH[:]); ok && r.HasGRH {
		ah.GRH = &ib.GRHFields{DGID: grh.SGID(), TClass: grh.TClass(), FlowLabel: grh.FlowLabel(), HopLimit: grh.HopLimit()}
	}
	return ah
}
