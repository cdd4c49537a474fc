// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"

	"causeway/app/e2e/agent/client"
)

// Event is one line of the output of udend (guest/udend/udend.c) or udpend. Which fields count
// depends on Event: ready, sent, received, end, error.
type Event struct {
	Event string `json:"event"`
	What  string `json:"what"` // error

	QPN      uint32 `json:"qpn"` // ready
	GID      string `json:"gid"`
	GIDIndex int    `json:"gid_index"`
	MTU      int    `json:"mtu"` // bytes

	MLID uint16 `json:"mlid"` // joined, by rdma_cm: anew after each change of the subnet that ended the membership

	At     float64 `json:"at"`  // joined, sent, received: seconds of the guest's monotonic clock
	Seq    uint32  `json:"seq"` // sent, received
	Length int     `json:"length"`
	Status string  `json:"status"` // "success", or ibv_wc_status_str's text

	From string `json:"from"` // received, by udpend
	TTL  int    `json:"ttl"`

	SrcQP   uint32 `json:"src_qp"` // received
	WithImm bool   `json:"with_imm"`
	Imm     uint32 `json:"imm"`
	WithGRH bool   `json:"with_grh"`
	GRH     string `json:"grh"`    // the 40 bytes before the payload, in hex
	Intact  bool   `json:"intact"` // the payload is as it was sent (package stamp)

	Sent     int `json:"sent"` // end
	Received int `json:"received"`
	Bad      int `json:"bad"`
}

// GRHArea returns the 40 bytes that precede the payload: a GRH, or for an IPv4
// peer 20 undefined bytes and the IPv4 header (Annex A17).
func (e Event) GRHArea() ([]byte, error) { return hex.DecodeString(e.GRH) }

// GroupV4 returns the group that a received message was sent to, if that is an IPv4 group: the area that precedes the
// payload ends with the IPv4 header.
func (e Event) GroupV4() string {
	b, err := e.GRHArea()
	if err != nil || len(b) < 40 {
		return ""
	}
	return netip.AddrFrom4([4]byte(b[36:])).String()
}

// UDEnd is a udend that runs in a guest.
type UDEnd struct {
	QPN     uint32
	MTU     int
	command *client.Command
}

// StartUDEnd starts udend with these arguments and waits until its QP can
// receive.
func (g *Guest) StartUDEnd(ctx context.Context, args string) (*UDEnd, error) {
	return g.startEnd(ctx, "udend "+args)
}

// StartUDPEnd starts udpend, which has a socket in place of a QP (guest/udpend/udpend.c), and waits until it can
// receive.
func (g *Guest) StartUDPEnd(ctx context.Context, args string) (*UDEnd, error) {
	return g.startEnd(ctx, "udpend "+args)
}

func (g *Guest) startEnd(ctx context.Context, program string) (*UDEnd, error) {
	c, err := g.Start("exec " + program)
	if err != nil {
		return nil, err
	}
	line, err := c.AwaitText(ctx, `"event":"ready"`)
	if err != nil {
		c.Stop()
		return nil, fmt.Errorf("guest %s: %s: %w", g.Name, program, err)
	}
	var ready Event
	if err := json.Unmarshal([]byte(line), &ready); err != nil {
		return nil, fmt.Errorf("guest %s: %s printed %q: %w", g.Name, program, line, err)
	}
	return &UDEnd{QPN: ready.QPN, MTU: ready.MTU, command: c}, nil
}

// Wait waits for udend's end and returns all it printed, and its exit code.
func (u *UDEnd) Wait(ctx context.Context) ([]Event, int, error) {
	out, exit, err := u.command.Wait(ctx)
	if err != nil {
		return nil, exit, err
	}
	events, err := parseEvents(out)
	return events, exit, err
}

// Stop ends udend.
func (u *UDEnd) Stop() { u.command.Stop() }

// Received counts the messages that have come until now.
func (u *UDEnd) Received() int { return strings.Count(u.command.Output(), `"event":"received"`) }

// Cut ends a running udend, and returns what it has printed until then.
func (u *UDEnd) Cut(ctx context.Context) ([]Event, error) {
	u.Stop()
	if _, _, err := u.command.Wait(ctx); err != nil {
		return nil, err
	}
	return u.SoFar()
}

// SoFar returns what udend has printed until now.
func (u *UDEnd) SoFar() ([]Event, error) {
	out := u.command.Output()
	return parseEvents(out[:strings.LastIndexByte(out, '\n')+1])
}

// RunUDEnd runs udend to its end. It fails unless udend's exit code says that all messages came undamaged.
func (g *Guest) RunUDEnd(ctx context.Context, args string) ([]Event, error) {
	u, err := g.StartUDEnd(ctx, args)
	if err != nil {
		return nil, err
	}
	events, exit, err := u.Wait(ctx)
	if err == nil && exit != 0 {
		err = fmt.Errorf("guest %s: udend %s: exit code %d: %s", g.Name, args, exit, lastLines(u.command.Output()))
	}
	return events, err
}

func parseEvents(out string) ([]Event, error) {
	var events []Event
	for line := range strings.Lines(out) {
		var e Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			return nil, fmt.Errorf("udend printed %q: %w", line, err)
		}
		events = append(events, e)
	}
	return events, nil
}

// Only returns the events of one kind, in order.
func Only(events []Event, kind string) []Event {
	var some []Event
	for _, e := range events {
		if e.Event == kind {
			some = append(some, e)
		}
	}
	return some
}
