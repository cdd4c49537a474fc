// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"causeway/ibside/fabric"
	"causeway/ibside/ib"
	"causeway/ibside/stamp"
)

// IBNode is a node of the software subnet that is part of the test: it receives and sends exact bytes.
type IBNode struct {
	*fabric.Node
	messages chan fabric.Received
}

const (
	// queuedMessages is how many messages are kept for Receive; more are lost, which fails the test.
	queuedMessages = 4096
	// pace is the time between messages to guests: an emulated CPU may stop for so long.
	pace = 2 * time.Millisecond
)

// AttachNode puts a node on the bridge's subnet. Its port GID is fe80:: with the
// GUID.
func (c *Causeway) AttachNode(n fabric.NodeConfig) (*IBNode, error) { return attachNode(c.Socket, n) }

// attachNode puts a node on the subnet that has a socket.
func attachNode(socket string, n fabric.NodeConfig) (*IBNode, error) {
	node := &IBNode{messages: make(chan fabric.Received, queuedMessages)}
	n.OnMessage = func(_ *fabric.Node, r *fabric.Received) {
		kept := *r
		kept.Payload = append([]byte(nil), r.Payload...)
		select {
		case node.messages <- kept:
		default:
		}
	}
	port, err := dialSubnet(socket, n)
	if err != nil {
		return nil, err
	}
	node.Node, err = fabric.StartNode(port, n)
	return node, err
}

// dialSubnet attaches to a subnet whose socket exists. Between the subnet's bind and its listen, which may be some time
// apart on a busy machine, the kernel refuses connections: it tries again.
func dialSubnet(socket string, n fabric.NodeConfig) (fabric.Port, error) {
	for deadline := time.Now().Add(obeyFor); ; time.Sleep(pollEvery) {
		port, err := fabric.Dial(socket, n.GUID, n.Name)
		if err == nil || !errors.Is(err, syscall.ECONNREFUSED) || time.Now().After(deadline) {
			return port, err
		}
	}
}

// Receive returns the next message that came to the node.
func (n *IBNode) Receive(ctx context.Context) (fabric.Received, error) {
	select {
	case m := <-n.messages:
		return m, nil
	case <-ctx.Done():
		return fabric.Received{}, fmt.Errorf("node %s: no message: %w", n.Config().Name, context.Cause(ctx))
	}
}

// ReceiveN returns the next messages that came to the node.
func (n *IBNode) ReceiveN(ctx context.Context, count int) ([]fabric.Received, error) {
	var messages []fabric.Received
	for range count {
		m, err := n.Receive(ctx)
		if err != nil {
			return messages, fmt.Errorf("after %d of %d: %w", len(messages), count, err)
		}
		messages = append(messages, m)
	}
	return messages, nil
}

// Waiting returns how many messages Receive has not taken yet.
func (n *IBNode) Waiting() int { return len(n.messages) }

// JoinToSend makes the node a send-only member of a group, and returns a message
// to it that lacks only its payload.
func (n *IBNode) JoinToSend(ctx context.Context, group fabric.GroupConfig) (fabric.Send, error) {
	record, err := n.SA().Join(ctx, ib.MCMemberFields{
		MGID: group.MGID, QKey: group.QKey, PKey: n.HCA().Info().PKeys[0], JoinState: ib.JoinSendOnlyFull,
	})
	return fabric.Send{
		AH: fabric.AH{DLID: record.MLID, SL: record.SL, GRH: &ib.GRHFields{
			DGID: record.MGID, TClass: record.TClass, FlowLabel: record.FlowLabel, HopLimit: record.HopLimit,
		}},
		DestQP: ib.QPMulticast, QKey: record.QKey,
	}, err
}

// Send sends one message, and waits long enough for a guest to receive it.
func (n *IBNode) Send(s fabric.Send) error {
	if cause := n.QP().Send(&s); cause != "" {
		return fmt.Errorf("node %s: a message was not sent: %s", n.Config().Name, cause)
	}
	time.Sleep(pace)
	return nil
}

// Publish sends test messages, numbered from 1, to a group.
func (n *IBNode) Publish(ctx context.Context, group fabric.GroupConfig, sizes []int, withImm bool) error {
	message, err := n.JoinToSend(ctx, group)
	if err != nil {
		return err
	}
	message.HasImm, message.Imm = withImm, uint32(n.QP().QPN())
	for i, size := range sizes {
		message.Payload = stamp.Message(uint64(i+1), size)
		if err := n.Send(message); err != nil {
			return fmt.Errorf("message %d: %w", i+1, err)
		}
	}
	return nil
}
