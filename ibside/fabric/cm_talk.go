// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"causeway/ibside/ib"
)

// A Talker is a node with services of datagrams, at both ends as rdma_cm's example udaddy: the client sends Count
// messages, then the server sends as many back; each bears its sender's QPN as immediate data, and is answered to that.
type Talker struct {
	Node  *Node
	CM    *CM
	IPs   []netip.Addr // the node's, of each family at most one
	Count int          // messages each way
	Size  int          // of each, bytes: see AppendStamped
}

// A Talk is what has become of one connection.
type Talk struct {
	Local, Remote ib.QPN
	Received      []Received // with payloads of their own
	Err           error
}

// Serve answers requests for a port. Each gets a queue pair of its own, and done is told what has become of it.
func (t *Talker) Serve(ctx context.Context, port uint16, done func(Talk)) error {
	return t.CM.Serve([]CMPorts{{port, port}}, func(r *CMRequest) { done(t.Answer(ctx, r)) })
}

// Answer is what Serve does with one request.
func (t *Talker) Answer(ctx context.Context, r *CMRequest) (talk Talk) {
	if !slices.Contains(t.IPs, r.To) {
		talk.Err = r.Refuse(ib.SIDRStatusRejected, nil)
		return talk
	}
	qp, recv, err := t.queuePair()
	if err != nil {
		talk.Err = r.Refuse(ib.SIDRStatusNoQP, nil)
		return talk
	}
	defer qp.Destroy()
	talk.Local = qp.QPN()
	if talk.Err = r.Accept(qp.QPN(), qp.QKey(), nil); talk.Err != nil {
		return talk
	}
	if talk.Err = t.receive(ctx, recv, &talk); talk.Err != nil {
		return talk
	}
	first := &talk.Received[0]
	talk.Remote = ib.QPN(first.Imm)
	talk.Err = t.send(qp, talk.Remote, qp.QKey(), addressOf(first))
	return talk
}

// Connect asks the host to, behind the port of a GID, for a service, and talks to it.
func (t *Talker) Connect(ctx context.Context, gid ib.GID, to netip.Addr, port uint16) (talk Talk) {
	from := slices.IndexFunc(t.IPs, func(a netip.Addr) bool { return a.Is4() == to.Is4() })
	if from < 0 {
		talk.Err = fmt.Errorf("fabric: node %s: no address to talk to %v from", t.Node.Config().Name, to)
		return talk
	}
	path, err := t.Node.SA().Path(ctx, gid)
	if err != nil {
		talk.Err = err
		return talk
	}
	a, err := t.CM.Connect(ctx, CMConnect{
		Route: MADAddress{LID: path.DLID, SL: path.SL}, From: t.IPs[from], To: to, FromPort: port, Port: port,
	})
	if err != nil {
		talk.Err = err
		return talk
	}
	qp, recv, err := t.queuePair()
	if err != nil {
		talk.Err = err
		return talk
	}
	defer qp.Destroy()
	talk.Local, talk.Remote = qp.QPN(), a.QPN
	if talk.Err = t.send(qp, a.QPN, a.QKey, AH{DLID: path.DLID, SL: path.SL}); talk.Err == nil {
		talk.Err = t.receive(ctx, recv, &talk)
	}
	return talk
}

func (t *Talker) queuePair() (*QP, *RecvQueue, error) {
	recv := NewRecvQueue(nodeBuffers)
	qp, err := t.Node.HCA().CreateQP(QPConfig{QKey: t.Node.Config().QKey, Recv: recv})
	return qp, recv, err
}

func (t *Talker) send(qp *QP, to ib.QPN, qkey ib.QKey, ah AH) error {
	for i := range t.Count {
		cause := qp.Send(&Send{
			AH: ah, DestQP: to, QKey: qkey, Imm: uint32(qp.QPN()), HasImm: true, Payload: AppendStamped(nil, uint64(i+1), t.Size),
		})
		if cause != "" {
			return fmt.Errorf("fabric: node %s: message %d of %d to %v: %s", t.Node.Config().Name, i+1, t.Count, to, cause)
		}
	}
	return nil
}

// receive takes Count messages. Each must say by its immediate data whom it is from.
func (t *Talker) receive(ctx context.Context, recv *RecvQueue, talk *Talk) error {
	for len(talk.Received) < t.Count {
		if err := recv.Wait(ctx); err != nil {
			return fmt.Errorf("fabric: node %s: %d of %d messages have come: %w", t.Node.Config().Name, len(talk.Received), t.Count, context.Cause(ctx))
		}
		var burst [recvBurst]Received
		for _, m := range burst[:recv.Poll(burst[:])] {
			if !m.HasImm || m.Imm != uint32(m.SrcQP) || talk.Remote != 0 && m.SrcQP != talk.Remote {
				return fmt.Errorf("fabric: node %s: a message from QPN %v, want %v, with immediate data %#x (%v)",
					t.Node.Config().Name, m.SrcQP, talk.Remote, m.Imm, m.HasImm)
			}
			m.Payload = append([]byte(nil), m.Payload...)
			talk.Received = append(talk.Received, m)
		}
	}
	return nil
}

// addressOf returns how to answer a message.
func addressOf(r *Received) AH {
	ah := AH{DLID: r.SLID, SL: r.SL}
	if grh, ok := ib.AsGRH(r.GRH[:]); ok && r.HasGRH {
		ah.GRH = &ib.GRHFields{DGID: grh.SGID(), TClass: grh.TClass(), FlowLabel: grh.FlowLabel(), HopLimit: grh.HopLimit()}
	}
	return ah
}
