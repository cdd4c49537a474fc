// SPDX-License-Identifier: Apache-2.0

// Package traffic sends numbered test messages and receives them, on either fabric, and reports what became of them:
// lost, duplicated, reordered, corrupted, and how long each took.
//
//	send ─▶ pace ─▶ stamp ─▶ Destination ─▶ Endpoint ─ ─ the fabrics, a bridge ─ ─▶ Endpoint ─▶ tally ─▶ report
//
// An Endpoint is a node of a software subnet, a RoCE host on a network interface, or a queue pair of an RDMA device.
package traffic

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore/frame"
)

// An Endpoint sends and receives messages. Its methods may be called from any goroutine.
type Endpoint interface {
	// Info describes the endpoint.
	Info() Info
	// Join joins a group, as a send-only member unless receive is set.
	Join(ctx context.Context, g Group, receive bool) (Destination, error)
	// Resolve finds the path to a queue pair at an address.
	Resolve(ctx context.Context, to netip.Addr, qpn ib.QPN) (Destination, error)
	// ReplyTo returns the sender of a message as a destination.
	ReplyTo(m *Message) Destination
	// Rejected returns how many packets were received that were no message for this endpoint, by reason.
	Rejected() map[string]uint64
	// Done is closed when the endpoint can receive no more.
	Done() <-chan struct{}
	// Close leaves the groups.
	Close() error
}

// A Destination is a queue pair or a group.
type Destination interface {
	// Send sends one message. It keeps no reference to the payload. After errFull the next message may succeed.
	Send(payload []byte) error
	// String describes the destination.
	String() string
}

// errFull says that there was no room to send a message.
var errFull = errors.New("no room to send")

// A Message is a received one.
type Message struct {
	At      time.Time
	From    netip.Addr // IP address or GID of the sender on this fabric; the zero Addr: unknown
	SrcQP   ib.QPN
	To      netip.Addr // the group, or the endpoint's own address
	Payload []byte     // valid until the handler returns

	lid ib.LID    // of the sender, on InfiniBand
	sl  ib.SL     // of the path
	mac frame.MAC // of the sender, on Ethernet
}

// Info describes an endpoint.
type Info struct {
	On   string   `json:"on"`
	IP   []string `json:"ip,omitempty"`  // RoCE
	MAC  string   `json:"mac,omitempty"` // RoCE
	GID  string   `json:"gid,omitempty"` // InfiniBand
	LID  ib.LID   `json:"lid,omitempty"` // InfiniBand
	QPN  ib.QPN   `json:"qpn"`
	QKey ib.QKey  `json:"qkey"`
	MTU  int      `json:"mtu"` // the largest message, bytes

	larger string // how to allow larger messages
}

// Config says what endpoint to open.
type Config struct {
	On   string  // fabric:SOCKET, packet:INTERFACE, verbs:DEVICE or verbs:DEVICE:PORT
	QPN  ib.QPN  // of its queue pair; 0: one is chosen
	QKey ib.QKey // of its queue pair; 0: rdma_cm's for datagrams

	Name string  // fabric: on the subnet; "": one is made
	GUID ib.GUID // fabric: of its port; 0: one is made

	IP   []netip.Addr // packet: addresses of the interface, at most one of each family; none: the first of each
	RoCE int          // packet: the version to send, 1 or 2; 0: 2

	// OnMessage is called with each message, one at a time.
	OnMessage func(*Message)
}

// Kinds of endpoints.
const (
	onFabric = "fabric"
	onPacket = "packet"
	onVerbs  = "verbs"
)

// open opens an endpoint.
func open(c Config) (Endpoint, error) {
	kind, rest, _ := strings.Cut(c.On, ":")
	if c.QKey == 0 {
		c.QKey = ib.QKeyRDMAUDP
	}
	if c.OnMessage == nil {
		c.OnMessage = func(*Message) {}
	}
	switch open := map[string]func(string, Config) (Endpoint, error){onFabric: openFabric, onPacket: openPacket, onVerbs: openVerbs}[kind]; {
	case rest == "" || open == nil:
		return nil, fmt.Errorf("-on %q is not known; use fabric:SOCKET, a bridge's software subnet, packet:INTERFACE, a RoCE host on "+
			"that interface, or verbs:DEVICE, an RDMA device", c.On)
	default:
		return open(rest, c)
	}
}

// String returns the endpoint's description as the beginning of a line, for people and scripts.
func (i Info) String() string {
	words := []string{i.On + ":"}
	for _, ip := range i.IP {
		words = append(words, "ip="+ip)
	}
	if i.MAC != "" {
		words = append(words, "mac="+i.MAC)
	}
	if i.GID != "" {
		words = append(words, "gid="+i.GID, "lid="+i.LID.String())
	}
	return strings.Join(append(words, "qpn="+i.QPN.String(), "qkey="+i.QKey.String(), fmt.Sprintf("mtu=%d", i.MTU)), " ")
}
