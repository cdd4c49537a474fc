// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"causeway/ibside/fabric"
	"causeway/ibside/ib"
)

// A node is a node of the subnet, attached or not. It echoes what comes to its queue pair, and has groups, which it
// joins again whenever it attaches.
type node struct {
	rig    *rig
	i      int
	in     *partition
	fabric int
	second *node // its port on the second fabric, with the same groups and queue pair; nil: there is one fabric

	mu     sync.Mutex
	node   *fabric.Node // nil: detached
	groups map[netip.Addr]*membership
}

// A membership is a node's in a group, and while the node is attached what it has of it.
type membership struct {
	receives bool
	record   ib.MCMemberFields
	qp       *fabric.QP
	end      context.CancelFunc
}

// nodeQPN is the number of a node's queue pair, whenever it attaches.
func nodeQPN(i int) ib.QPN { return ib.QPN(0x800 + i) }

// errDetached says that a node cannot send.
var errDetached = errors.New("the node is detached")

// attach attaches the node, as soon as the subnet has a socket.
func (n *node) attach() error {
	if err := n.attachPort(); err != nil || n.second == nil {
		return err
	}
	return n.second.attachPort()
}

func (n *node) attachPort() error {
	var port fabric.Port
	name := fmt.Sprintf("node%d", n.i)
	last := errors.New("it has not been tried")
	err := await(n.rig.ctx, name+" attaches to the subnet", func() bool {
		port, last = fabric.Dial(n.rig.bridge.subnetSocket(n.fabric), nodeGUID(n.i, n.fabric), name)
		return last == nil
	})
	if err != nil {
		return fmt.Errorf("%w: %w; the bridge logged:\n%s", err, last, lastLines(n.rig.bridge.readLog()))
	}
	node, err := fabric.StartNode(memberPort{port, n.in.pkey()}, fabric.NodeConfig{
		Name: name, GUID: nodeGUID(n.i, n.fabric), QPN: nodeQPN(n.i), Role: fabric.RoleEcho,
		OnMessage: func(_ *fabric.Node, m *fabric.Received) { n.passed(m) },
	})
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.node = node
	for group, m := range n.groups {
		if err := n.enter(group, m); err != nil {
			return err
		}
	}
	if n.i == n.in.first() {
		return n.in.services.serve(node, n.fabric)
	}
	return nil
}

// detach takes the node off the subnet, as if it had lost power: its port just ends.
func (n *node) detach() {
	if n.second != nil {
		n.second.detach()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.node == nil {
		return
	}
	for _, m := range n.groups {
		if m.end != nil {
			m.end()
		}
	}
	if n.i == n.in.first() {
		n.in.services.close(n.fabric)
	}
	_ = n.node.HCA().Close() // the subnet may have ended
	_ = n.node.Close()
	n.node = nil
}

// join makes the node a member of a group, to receive or only to send.
func (n *node) join(group netip.Addr, receives bool) error {
	if n.second != nil {
		if err := n.second.join(group, receives); err != nil {
			return err
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.groups == nil {
		n.groups = map[netip.Addr]*membership{}
	}
	m := &membership{receives: receives}
	n.groups[group] = m
	if n.node == nil {
		return nil
	}
	return n.enter(group, m)
}

// enter joins a group of an attached node. The caller holds the lock.
func (n *node) enter(group netip.Addr, m *membership) (err error) {
	ctx, stop := context.WithTimeout(n.rig.ctx, within)
	defer stop()
	state := uint8(ib.JoinSendOnlyFull)
	if m.receives {
		state = ib.JoinFull
	}
	m.record, err = n.node.SA().Join(ctx, ib.MCMemberFields{MGID: n.in.mgidOf(group), QKey: ib.QKeyRDMAUDP, PKey: n.in.pkey(), JoinState: state})
	if err != nil {
		return fmt.Errorf("node %d joins %v: %w", n.i, group, err)
	}
	recv := fabric.NewRecvQueue(4096)
	if m.qp, err = n.node.HCA().CreateQP(fabric.QPConfig{QKey: m.record.QKey, Recv: recv}); err != nil || !m.receives {
		return err
	}
	ctx, m.end = context.WithCancel(n.rig.ctx)
	go n.receive(ctx, recv, atNode(n.i, group))
	return m.qp.AttachMulticast(m.record.MGID)
}

// atNode names a receiver at a node: a group.
func atNode(i int, group netip.Addr) string { return fmt.Sprintf("node %d in %v", i, group) }

func (n *node) receive(ctx context.Context, recv *fabric.RecvQueue, at string) {
	var burst [64]fabric.Received
	for recv.Wait(ctx) == nil {
		for _, m := range burst[:recv.Poll(burst[:])] {
			n.rig.deliver(n.in, at, netip.Addr{}, m.HasImm, m.Imm, m.Payload)
		}
	}
}

// quit ends a membership.
func (n *node) quit(group netip.Addr) error {
	if n.second != nil {
		if err := n.second.quit(group); err != nil {
			return err
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	m := n.groups[group]
	delete(n.groups, group)
	if m == nil || n.node == nil || m.qp == nil {
		return nil
	}
	if m.end != nil {
		m.end()
	}
	m.qp.Destroy()
	ctx, stop := context.WithTimeout(n.rig.ctx, 10*time.Second)
	defer stop()
	return n.node.SA().Leave(ctx, m.record.MGID, ib.GID{}, m.record.JoinState&0xf)
}

// send sends a message to a group, on each fabric.
func (n *node) send(group netip.Addr, hasImm bool, imm uint32, payload []byte) error {
	if n.second != nil {
		if err := n.second.send(group, hasImm, imm, payload); err != nil {
			return err
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	m := n.groups[group]
	if n.node == nil || m == nil || m.qp == nil {
		return errDetached
	}
	// From the queue pair for unicast: others answer to it.
	why := n.node.QP().Send(&fabric.Send{
		AH:     fabric.AH{DLID: m.record.MLID, SL: m.record.SL, GRH: &ib.GRHFields{DGID: m.record.MGID, HopLimit: m.record.HopLimit}},
		DestQP: ib.QPMulticast, QKey: m.record.QKey, HasImm: hasImm, Imm: imm, Payload: payload,
	})
	if why != "" {
		return fmt.Errorf("node %d: the adapter did not send: %s", n.i, why)
	}
	return nil
}
