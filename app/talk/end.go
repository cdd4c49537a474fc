// SPDX-License-Identifier: Apache-2.0

// Package talk sends numbered messages and listens to them, on either fabric, to see what a network does to them: what
// it loses, doubles, overtakes, damages, and how long it takes.
//
//	send ─▶ pace ─▶ message ─▶ Way ─▶ End ─ ─ the fabrics, a bridge ─ ─▶ End ─▶ tally ─▶ report
//
// An End is where messages leave and arrive: a node of a software subnet, a RoCE host made in software on a network
// interface, or a queue pair of an RDMA device.
package talk

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"causeway/config"
	"causeway/ibside/ib"
	"causeway/lcore/frame"
)

// An End is where messages leave and arrive. Its methods may be called from any goroutine.
type End interface {
	// Where says where it is.
	Where() Where
	// Join makes the end a member of a group, one that only sends unless it listens, and returns the way there.
	Join(ctx context.Context, g Group, listens bool) (Way, error)
	// Find returns the way to a queue pair at an address.
	Find(ctx context.Context, to netip.Addr, qpn ib.QPN) (Way, error)
	// Back returns the way to the sender of a message.
	Back(m *Message) Way
	// Refused counts what came and was no message for this end, by reason.
	Refused() map[string]uint64
	// Gone is closed when nothing can come any more.
	Gone() <-chan struct{}
	// Close leaves the groups.
	Close() error
}

// A Way leads to a queue pair or to a group.
type Way interface {
	// Send sends one message; the payload is the caller's again when it returns. ErrFull: not this one, but the next may go.
	Send(payload []byte) error
	// String says where to.
	String() string
}

// ErrFull is a send's refusal that the next one need not meet.
var ErrFull = errors.New("no room to send")

// A Message is one that came.
type Message struct {
	At      time.Time
	From    netip.Addr // IP address or GID, as this fabric sees the sender; the zero Addr: it did not say
	SrcQP   ib.QPN
	To      netip.Addr // the group, or the end's own address
	Payload []byte     // only until the handler returns

	lid ib.LID    // of the sender, on InfiniBand
	sl  ib.SL     // of the path
	mac frame.MAC // of the sender, on Ethernet
}

// Where says where an end is.
type Where struct {
	On   string   `json:"on"`
	IP   []string `json:"ip,omitempty"`  // RoCE
	MAC  string   `json:"mac,omitempty"` // RoCE
	GID  string   `json:"gid,omitempty"` // InfiniBand
	LID  ib.LID   `json:"lid,omitempty"` // InfiniBand
	QPN  ib.QPN   `json:"qpn"`
	QKey ib.QKey  `json:"qkey"`
	MTU  int      `json:"mtu"` // the largest message, bytes

	larger string // what to do for larger ones
}

// A Group is a multicast group: an IP address, or an MGID, which only InfiniBand has.
type Group struct {
	Addr  netip.Addr
	Form  string // of the MGID: see [[group]] mgid in the configuration; "": rdmacm, or port where there is a port
	Scope uint8
	Port  uint16  // in the MGID
	QKey  ib.QKey // 0: what the form's applications use
}

// Config says what end to open.
type Config struct {
	On   string  // fabric:SOCKET, packet:INTERFACE, verbs:DEVICE or verbs:DEVICE:PORT
	QPN  ib.QPN  // of its queue pair; 0: one is chosen
	QKey ib.QKey // of its queue pair; 0: rdma_cm's for datagrams

	Name string  // fabric: on the subnet; "": one is made
	GUID ib.GUID // fabric: of its port; 0: one is made

	IP   []netip.Prefix // packet: the host's own, at most one of each kind; none: the interface's
	MAC  frame.MAC      // packet: the host's own; zero: the interface's
	RoCE int            // packet: the version to send, 1 or 2; 0: 2

	// OnMessage is called with each message, one after the other.
	OnMessage func(*Message)
}

// Kinds of ends.
const (
	onFabric = "fabric"
	onPacket = "packet"
	onVerbs  = "verbs"
)

// Open opens an end.
func Open(c Config) (End, error) {
	kind, rest, _ := strings.Cut(c.On, ":")
	if c.QKey == 0 {
		c.QKey = ib.QKeyRDMAUDP
	}
	if c.OnMessage == nil {
		c.OnMessage = func(*Message) {}
	}
	switch open := map[string]func(string, Config) (End, error){onFabric: openFabric, onPacket: openPacket, onVerbs: openVerbs}[kind]; {
	case rest == "" || open == nil:
		return nil, fmt.Errorf("-on %q is no place to be; use fabric:SOCKET, a bridge's software subnet, packet:INTERFACE, a RoCE host on "+
			"that interface, or verbs:DEVICE, an RDMA device", c.On)
	default:
		return open(rest, c)
	}
}

// mgid returns the group's MGID on InfiniBand, and its Q_Key.
func (g Group) mgid(pkey ib.PKey) (ib.GID, ib.QKey, error) {
	form := g.Form
	switch {
	case form == "" && g.Port != 0:
		form = "port"
	case form == "":
		form = "rdmacm"
	}
	scope := g.Scope
	if scope == 0 {
		scope = ib.ScopeLinkLocal
	}
	var mgid ib.GID
	if a := ib.GIDFromAddr(g.Addr); g.Form == "" && g.Port == 0 && isMGID(a) {
		mgid = a
	} else {
		var err error
		if mgid, err = config.MGID(form, g.Addr, pkey, scope, g.Port); err != nil {
			return mgid, 0, fmt.Errorf("group %v: %w", g.Addr, err)
		}
	}
	return mgid, g.qkey(mgid), nil
}

// isMGID reports whether an IPv6 group is written as InfiniBand's own: with the signature of IPoIB, of rdma_cm, or of
// those that carry a port.
func isMGID(g ib.GID) bool {
	signature := uint16(g[2])<<8 | uint16(g[3])
	switch signature {
	case 0x401b, 0x601b, 0x4001, 0x6001, 0xa01b:
		return g.IsIBMulticast() && g[1]&0xf0 == 0x10
	}
	return false
}

// qkey returns the group's Q_Key: IPoIB's groups have one of their own.
func (g Group) qkey(mgid ib.GID) ib.QKey {
	switch {
	case g.QKey != 0:
		return g.QKey
	case g.Form == "ipoib" || mgid[2]&0xdf == 0x40 && mgid[3] == 0x1b:
		return ib.QKeyIPoIB
	}
	return ib.QKeyRDMAUDP
}

// String writes it as a line's beginning, which people and scripts can read.
func (w Where) String() string {
	words := []string{w.On + ":"}
	for _, ip := range w.IP {
		words = append(words, "ip="+ip)
	}
	if w.MAC != "" {
		words = append(words, "mac="+w.MAC)
	}
	if w.GID != "" {
		words = append(words, "gid="+w.GID, "lid="+w.LID.String())
	}
	return strings.Join(append(words, "qpn="+w.QPN.String(), "qkey="+w.QKey.String(), fmt.Sprintf("mtu=%d", w.MTU)), " ")
}
