// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"fmt"
	"strings"
)

// Peer is a guest with one of its addresses.
type Peer struct {
	*Guest
	IP     string
	Netdev string // needed only where the address alone is ambiguous, link local; and for GID, whose groups it joins
	GID    string // of an adapter with InfiniBand's link layer, whose IPoIB has IP; "": it follows from IP
	PKey   int    // index of its queue pairs' P_Key in the port's table
}

// udendArgs returns udend's arguments that choose the peer's GID.
func (p Peer) udendArgs() string {
	args := "--ip " + cmp.Or(p.GID, p.IP)
	if p.Netdev != "" {
		args += " --netdev " + p.Netdev
	}
	if p.PKey != 0 {
		args += fmt.Sprintf(" --pkey-index %d", p.PKey)
	}
	return args
}

// Exchange is a number of UD messages and how they are sent.
type Exchange struct {
	Count int
	Sizes string // payload lengths, used in turn: "64", "0,1,2"
	Args  string // more of udend's arguments for the sender: --imm, --tclass ...
}

// PingPong has client send messages to server, which sends each back. It fails
// unless all come back byte for byte. The events are the client's.
func PingPong(ctx context.Context, server, client Peer, x Exchange) ([]Event, error) {
	replier, err := server.StartUDEnd(ctx, fmt.Sprintf("%s --count %d --seconds 60 reply", server.udendArgs(), x.Count))
	if err != nil {
		return nil, err
	}
	defer replier.Stop()
	events, err := client.RunUDEnd(ctx, fmt.Sprintf("%s --to %s --qpn %d --count %d --size %s %s pingpong",
		client.udendArgs(), server.IP, replier.QPN, x.Count, x.Sizes, x.Args))
	if err != nil {
		return events, err
	}
	_, exit, err := replier.Wait(ctx)
	if err == nil && exit != 0 {
		err = fmt.Errorf("guest %s: udend reply: exit code %d: %s", server.Name, exit, replier.command.Output())
	}
	return events, err
}

// Publish has sender send messages to a group that receiver is attached to. It
// fails unless all arrive right. The events are the receiver's.
func Publish(ctx context.Context, receiver, sender Peer, group string, x Exchange) ([]Event, error) {
	listener, err := receiver.StartUDEnd(ctx, fmt.Sprintf("%s --mgid %s --count %d --seconds 60 recv", receiver.udendArgs(), group, x.Count))
	if err != nil {
		return nil, err
	}
	defer listener.Stop()
	// The messages are paced, because a receiver's emulated CPU may stop for milliseconds.
	_, err = sender.RunUDEnd(ctx, fmt.Sprintf("%s --to %s --qpn 0xffffff --count %d --size %s --gap 2 %s send",
		sender.udendArgs(), group, x.Count, x.Sizes, x.Args))
	if err != nil {
		return nil, err
	}
	events, exit, err := listener.Wait(ctx)
	if err == nil && exit != 0 {
		err = fmt.Errorf("guest %s: udend recv: exit code %d: %s", receiver.Name, exit, listener.command.Output())
	}
	return events, err
}

// Mckey runs rdma_cm's multicast example: sender publishes ten messages to an
// IPv4 group (the kernel's rdma_cm knows no IPv6 groups over RoCE v2). more goes to
// the sender: "-o" joins to send only.
func Mckey(ctx context.Context, receiver, sender Peer, group string, more ...string) error {
	c, err := receiver.Start(fmt.Sprintf("exec mckey -m %s -b %s", group, receiver.IP))
	if err != nil {
		return err
	}
	defer c.Stop()
	if _, err := c.AwaitText(ctx, "joined dgid"); err != nil {
		return err
	}
	if err := sender.Must(ctx, fmt.Sprintf("mckey -m %s -b %s -s %s", group, sender.IP, strings.Join(more, " "))); err != nil {
		return err
	}
	out, exit, err := c.Wait(ctx)
	if err == nil && exit != 0 {
		err = fmt.Errorf("guest %s: mckey: exit code %d: %s", receiver.Name, exit, out)
	}
	return err
}

// Udaddy runs rdma_cm's UD example: the client finds the server's QPN by SIDR,
// then ten messages go each way. more goes to both (-S bytes, -C count, -t tos).
func Udaddy(ctx context.Context, server, client Peer, more string) error {
	c, err := server.Start(fmt.Sprintf("exec udaddy -b %s %s", server.IP, more))
	if err != nil {
		return err
	}
	defer c.Stop()
	if err := server.Until(ctx, "rdma resource show cm_id | grep -q LISTEN"); err != nil {
		return err
	}
	if err := client.Must(ctx, fmt.Sprintf("udaddy -b %s -s %s %s", client.IP, server.IP, more)); err != nil {
		return err
	}
	out, exit, err := c.Wait(ctx)
	if err == nil && exit != 0 {
		err = fmt.Errorf("guest %s: udaddy: exit code %d: %s", server.Name, exit, out)
	}
	return err
}
