// SPDX-License-Identifier: Apache-2.0

// Package ibside says what an InfiniBand port of the bridge is: port.h to the workers, and this package to management.
//
//	workers    ── port.h: post, poll, free ──▶ verbs, fabricport ──▶ an HCA's UD queue pairs, or the software subnet
//	management ── Port, Services ────────────▶ verbs, fabricport ──▶ sa ──▶ the subnet administrator
//
// All numbers are in host byte order. What only some ports can do has an interface of its own: Renewer, Notifier,
// Locator, Aliaser, Announcer, Messenger.
package ibside

import (
	"context"
	"errors"
	"net/netip"

	"causeway/ibside/ib"
)

// A Port is an InfiniBand port to management. Join, Leave and Path may take as long as their context allows, and are
// called from goroutines of their own.
type Port interface {
	// CreateProxyQP makes a UD queue pair of a partition that receives with qkey on that worker. qp is the port's handle
	// of it.
	CreateProxyQP(worker int, pkey ib.PKey, qkey ib.QKey) (qp uint32, qpn ib.QPN, err error)
	DestroyProxyQP(qp uint32) error
	// Join makes the port a member of a group, or changes how it is one.
	Join(ctx context.Context, j Join) (Membership, error)
	Leave(ctx context.Context, mgid ib.GID) error
	// Path resolves a port's GID, in a partition or, with 0, in any that both ports are in.
	Path(ctx context.Context, dgid ib.GID, pkey ib.PKey) (Path, error)
	// Own returns the port's own addresses. It is called often.
	Own() Own
}

// ErrNoQueuePair is in the error of CreateProxyQP when the device makes no more queue pairs than there are.
var ErrNoQueuePair = errors.New("the device makes no more queue pairs")

// A Join says how to become a member of a group.
type Join struct {
	MGID      ib.GID
	QKey      ib.QKey
	PKey      ib.PKey
	Worker    int  // the one that receives the group's messages
	Receive   bool // a full member; otherwise one that only sends
	NonMember bool // the group ends when its other members have left, where the port can tell the subnet so
}

// A Path is how messages get to a node's port. On an Ethernet link layer it is zero: the address handle finds the way.
type Path struct {
	LID      ib.LID // where to send: one of the port's, or a router's
	LMC      uint8  // the port has 1<<LMC LIDs, LID among them
	SL       ib.SL
	MTU      ib.MTU  // of the path and the bridge's port; 0: not told
	Rate     ib.Rate // for address handles; 0: the bridge's port is no faster than the path
	HopLimit uint8   // for the GRH; 0 or 1 within the subnet
	GRH      bool    // messages must have one

	Unconfirmed bool // the subnet knows no port with the LID, or does not tell
}

// Routed reports whether a hop limit is that of a path through a router (IBTA vol 1 §8.3.6). What comes back from there
// has a GRH, and the router's LID as source.
func Routed(hopLimit uint8) bool { return hopLimit > 1 }

// A Membership is what the subnet administrator grants to a group's member.
type Membership struct {
	MLID     ib.LID // 0 on an Ethernet link layer
	SL       ib.SL
	QKey     ib.QKey
	HopLimit uint8
	MTU      ib.MTU
	Rate     ib.Rate // for address handles; 0: the bridge's port is no faster than the group
}

// Own is the addresses of a port at the moment.
type Own struct {
	LID     ib.LID
	LMC     uint8     // the port has 1<<LMC LIDs, LID being the first
	GIDs    []ib.GID  // every GID of the port, in a fixed order
	Sources []Source  // the GIDs that messages can be sent from; the first is the bridge's own
	PKeys   []ib.PKey // the port's P_Key table
	Beyond  int       // GIDs of the port that messages cannot be sent from, because there are more than verbs can name
}

// A Source is a GID that messages can be sent from. Its number stays while indexes in the port's GID table move.
type Source struct {
	Number uint8
	GID    ib.GID
}

// A Renewer is a Port whose subnet may change what it granted: a subnet manager that restarts may assign other MLIDs
// and LIDs.
type Renewer interface {
	// Renewed returns what has changed since the last call. It is called often.
	Renewed() Renewals
	// Changed has a value when there is something for Renewed to return. It is the same channel each time.
	Changed() <-chan struct{}
}

// Renewals is what a subnet has changed.
type Renewals struct {
	Groups map[ib.GID]Membership // the new memberships, by MGID
	Paths  bool                  // any path may have changed
	Back   bool                  // what failed may succeed now: the port came up, or its subnet manager is another or anew
	LIDs   bool                  // any LID may be another port's by now
	Ports  []ib.GID              // ports that came or went: their LIDs may be others' by now
}

// A Notifier is a Port that knows which groups exist on the subnet. Groups that are there at the beginning are notified
// first.
type Notifier interface {
	// Notices returns the same channel each time; nil when the port has none. A slow reader makes the port wait.
	Notices() <-chan Notice
}

// A Notice says that a group was created on the subnet (trap 66 of the subnet manager) or deleted (trap 67).
type Notice struct {
	MGID    ib.GID
	Deleted bool
}

// ErrNoPath is what Path and Holder return when the subnet has no such node, or none that can be reached.
var ErrNoPath = errors.New("the subnet has no path there")

// A Locator is a Port that knows whose a LID is.
type Locator interface {
	// Holder returns the GID of the port that has a LID. The error is an ErrNoPath when nobody has it. It takes as long as
	// its context allows, and is called from goroutines of its own.
	Holder(ctx context.Context, lid ib.LID) (ib.GID, error)
}

// An Aliaser is a Port that can have further GUIDs: the subnet administrator resolves the GIDs made of them to the
// port, for as long as the Port is open.
type Aliaser interface {
	SetAlias(ctx context.Context, guid ib.GUID) error
	DropAlias(ctx context.Context, guid ib.GUID) error
}

// ErrNoAlias is what SetAlias returns when the port's GUID table is full.
var ErrNoAlias = errors.New("the port has no room for another alias GUID")

// A Resolver knows who is who on IP over InfiniBand. Its methods do not wait for answers: those come as Changes.
type Resolver interface {
	// GID returns the GID that has an address, and Addrs the addresses that a GID has, as far as they are known.
	GID(ip netip.Addr) (ib.GID, bool)
	Addrs(gid ib.GID) []netip.Addr
	// Ask asks who has an address.
	Ask(ip netip.Addr) error
	// Confirm asks the one that has an address, at once.
	Confirm(ip netip.Addr) error
	// Subnets returns the subnets whose addresses can be asked for.
	Subnets() []netip.Prefix
	// Changes returns the same channel each time.
	Changes() <-chan AddressChange
}

// An AddressChange says what has become known of an address.
type AddressChange struct {
	IP       netip.Addr
	GID      ib.GID // that has it; zero: nobody that is known
	Answered bool   // it has answered just now
	Failed   bool   // nobody answers
}
