// SPDX-License-Identifier: Apache-2.0

// Package ibside says what an InfiniBand port of the bridge is: port.h to the workers, and this package to management.
//
//	workers    ── port.h: post, poll, free ──▶ verbs, fabricport ──▶ an HCA's UD queue pairs, or the software subnet
//	management ── Port, Services ────────────▶ verbs, fabricport ──▶ sa ──▶ the subnet administrator
//
// All numbers are in host byte order. What only some ports can do has an interface of its own: Renewer, Notifier, Aliaser.
package ibside

import (
	"context"
	"errors"

	"causeway/ibside/ib"
)

// A Port is an InfiniBand port to management. Join, Leave and Path may take as long as their context allows, and are
// called from goroutines of their own.
type Port interface {
	// CreateProxyQP makes a UD queue pair that receives with qkey on that worker. qp is the port's handle of it.
	CreateProxyQP(worker int, qkey ib.QKey) (qp uint32, qpn ib.QPN, err error)
	DestroyProxyQP(qp uint32) error
	// Join makes the port a member of a group, or changes how it is one.
	Join(ctx context.Context, j Join) (Membership, error)
	Leave(ctx context.Context, mgid ib.GID) error
	Path(ctx context.Context, dgid ib.GID) (ib.LID, ib.SL, error)
	// Own returns the port's own addresses. It is called often.
	Own() Own
}

// A Join says how to become a member of a group.
type Join struct {
	MGID      ib.GID
	QKey      ib.QKey
	PKey      ib.PKey
	Worker    int  // the one that receives the group's messages
	Receive   bool // a full member; otherwise one that only sends
	NonMember bool // the group ends when its other members have left, where the port can tell the subnet so
}

// A Membership is what the subnet administrator grants to a group's member.
type Membership struct {
	MLID     ib.LID // 0 on an Ethernet link layer
	SL       ib.SL
	QKey     ib.QKey
	HopLimit uint8
	MTU      ib.MTU
}

// Own is the addresses of a port at the moment.
type Own struct {
	LID     ib.LID
	GIDs    []ib.GID // every GID of the port, in a fixed order
	Sources []Source // the GIDs that messages can be sent from; the first is the bridge's own
	Beyond  int      // GIDs of the port that messages cannot be sent from, because there are more than verbs can name
}

// A Source is a GID that messages can be sent from. Its number stays while indexes in the port's GID table move.
type Source struct {
	Number uint8
	GID    ib.GID
}

// A Renewer is a Port whose subnet may change what it granted: a subnet manager that restarts may assign other MLIDs and
// LIDs.
type Renewer interface {
	// Renewed returns what has changed since the last call. It is called often.
	Renewed() Renewals
}

// Renewals is what a subnet has changed.
type Renewals struct {
	Groups map[ib.GID]Membership // the new memberships, by MGID
	Paths  bool                  // any path may have changed
	Back   bool                  // what failed may succeed now: the port came up, or its subnet manager is another or anew
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

// An Aliaser is a Port that can have further GUIDs: the subnet administrator resolves the GIDs made of them to the port, for
// as long as the Port is open.
type Aliaser interface {
	SetAlias(ctx context.Context, guid ib.GUID) error
	DropAlias(ctx context.Context, guid ib.GUID) error
}

// ErrNoAlias is what SetAlias returns when the port's GUID table is full.
var ErrNoAlias = errors.New("the port has no room for another alias GUID")
