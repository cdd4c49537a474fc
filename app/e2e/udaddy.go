// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"

	"causeway/app/e2e/agent/client"
	"causeway/ibside/fabric"
	"causeway/ibside/fabric/fabrictest"
	"causeway/ibside/ib"
)

const (
	// udaddyPort is the port that rdma_cm's UD example always uses.
	udaddyPort = 7174
	// udaddyCount is how many messages it sends each way, of udaddySize bytes.
	udaddyCount, udaddySize = 10, 100
)

// ServeUdaddy starts rdma_cm's UD example as a server for so many connections. It ends when all of them have ended.
func (p Peer) ServeUdaddy(ctx context.Context, connections int) (*client.Command, error) {
	c, err := p.Start(fmt.Sprintf("exec udaddy -b %s -c %d -S %d -C %d", p.IP, connections, udaddySize, udaddyCount))
	if err != nil {
		return nil, err
	}
	// A server's listener is found by address and port, so that another's does not count.
	listens := fmt.Sprintf("rdma resource show cm_id | grep LISTEN | grep -qF '%s:%d'", p.IP, udaddyPort)
	if strings.Contains(p.IP, ":") {
		listens = fmt.Sprintf("rdma resource show cm_id | grep LISTEN | grep -qF -e '[%[1]s]:%[2]d' -e '%[1]s:%[2]d'", p.IP, udaddyPort)
	}
	if err := p.Until(ctx, listens); err != nil {
		c.Stop()
		return nil, err
	}
	return c, nil
}

// CallUdaddy runs the example as a client of a server at an address.
func (p Peer) CallUdaddy(ctx context.Context, server string) error {
	c, err := p.Start(fmt.Sprintf("exec udaddy -b %s -s %s -S %d -C %d", p.IP, server, udaddySize, udaddyCount))
	if err != nil {
		return err
	}
	defer c.Stop()
	return p.endsUdaddy(ctx, c)
}

// endsUdaddy waits for the example's end; it must have had all its messages.
func (p Peer) endsUdaddy(ctx context.Context, c *client.Command) error {
	out, exit, err := c.Wait(ctx)
	if err == nil && (exit != 0 || !strings.Contains(out, "return status 0")) {
		err = errors.New("it fails")
	}
	if err != nil {
		return fmt.Errorf("guest %s: udaddy at %s: %w: exit code %d: %s", p.Name, p.IP, err, exit, c.Output())
	}
	return nil
}

// Exchanger makes the node run the protocol of the example.
func (n *IBNode) Exchanger(c fabric.CMConfig, ips ...string) *fabrictest.Exchanger {
	t := &fabrictest.Exchanger{Node: n.Node, CM: fabric.NewCM(n.HCA(), c), Count: udaddyCount, Size: udaddySize}
	for _, ip := range ips {
		t.IPs = append(t.IPs, netip.MustParseAddr(ip))
	}
	return t
}

var portGID = regexp.MustCompile(`msg=ib_port .*gid=(\S+)`)

// GID returns the GID of the bridge's port, at which IB nodes find RoCE hosts.
func (c *Causeway) GID() (ib.GID, error) {
	found := portGID.FindStringSubmatch(c.Log())
	if found == nil {
		return ib.GID{}, errors.New("the bridge has not logged its GID")
	}
	return ib.ParseGID(found[1])
}

// exchangeErr checks an exchange with the kernel's example, whose payload is uninitialised memory.
func exchangeErr(k fabrictest.Exchange) error {
	if k.Err != nil {
		return k.Err
	}
	if len(k.Received) != udaddyCount {
		return fmt.Errorf("%d messages came, want %d", len(k.Received), udaddyCount)
	}
	for i, m := range k.Received {
		if len(m.Payload) != udaddySize {
			return fmt.Errorf("message %d has %d bytes, want %d", i+1, len(m.Payload), udaddySize)
		}
	}
	return nil
}
