// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"context"
	"errors"

	"causeway/ibside/ib"
	"causeway/lcore/manage/identity"
)

// What management sees of the rest of the bridge: workers, what they put aside, and the InfiniBand door. What only some doors
// can do has an interface of its own: Renewer, Notifier, Aliaser, and Services in services.go.

// A Worker is what management sees of a worker lcore.
type Worker interface {
	// TakeOdd takes what the worker put aside, at most a burst.
	TakeOdd() []Odd
	// Send has the worker send a frame as it is.
	Send(frame []byte) error
}

// An Odd frame is one that a worker put aside.
type Odd struct {
	Data []byte
	Held Held // nil: the frame is management's own business
}

// Held is RoCE data that waits for a stand-in. It ends by exactly one call.
type Held interface {
	Worker() int // who received it
	Again()      // the stand-in is there
	Refuse(Refusal)
}

// A Refusal says why held data got no stand-in.
type Refusal int

// The refusals.
const (
	RefuseFull    Refusal = iota // a limit is reached, or the IB door gives no QP
	RefuseSource                 // the source contradicts what is configured for its address
	RefuseStopped                // the bridge is stopping
	RefuseDenied                 // policy does not allow the source any more
)

// Membership is what the subnet administrator grants to a group's member.
type Membership struct {
	MLID     ib.LID
	SL       ib.SL
	QKey     ib.QKey
	HopLimit uint8
	MTU      ib.MTU
}

// IBDoor is what management asks of the InfiniBand door. Join, Leave and Path may take as long as their
// context allows; they are called from goroutines of their own.
type IBDoor interface {
	CreateStandIn(worker int, qkey ib.QKey) (qp uint32, qpn ib.QPN, err error)
	DestroyStandIn(qp uint32) error
	Join(ctx context.Context, g Join) (Membership, error)
	Leave(ctx context.Context, mgid ib.GID) error
	Path(ctx context.Context, dgid ib.GID) (ib.LID, ib.SL, error)
	// Own tells what the port goes by; it is asked often.
	Own() Own
}

// Join says how to become a member of a group.
type Join struct {
	MGID    ib.GID
	QKey    ib.QKey
	PKey    ib.PKey
	Worker  int  // who receives the group's messages
	Receive bool // a full member; else one that only sends
	Guest   bool // the group ends when its other members have gone, if the door can tell the subnet so
}

// Own is what the IB port goes by at the moment.
type Own struct {
	LID     ib.LID
	GIDs    []ib.GID // all that it can be known by, in a fixed order
	Sources []Source // those that messages can be sent from; the first is the bridge's own
	Beyond  int      // GIDs that the port has, but that messages cannot be sent from: too many for verbs
}

// A Source is a GID that messages can be sent from, by its number.
type Source = identity.Source

// A Renewer is an IB door whose subnet may change what it has granted: a subnet manager that starts anew gives other MLIDs, and
// other LIDs.
type Renewer interface {
	// Renewed takes what has changed since the last call. It is asked often.
	Renewed() Renewals
}

// Renewals is what a subnet has changed.
type Renewals struct {
	Groups map[ib.GID]Membership // as they are now
	Paths  bool                  // any path may be another
}

// A Notifier is an IB door that knows which groups the subnet has. Groups that are there already are told first.
type Notifier interface {
	// Notices is the same channel each time, nil when the door has none. Who reads it slowly makes the door wait.
	Notices() <-chan Notice
}

// A Notice says that a group came to the subnet (trap 66 of the subnet manager) or ended (trap 67).
type Notice struct {
	MGID    ib.GID
	Deleted bool
}

// An Aliaser is an IB door that can give its port further GUIDs: the subnet administrator then resolves the GIDs made of them
// to the port, for as long as the door lives.
type Aliaser interface {
	SetAlias(ctx context.Context, guid ib.GUID) error
	DropAlias(ctx context.Context, guid ib.GUID) error
}

// ErrNoAlias is what SetAlias returns when the port has no room for another.
var ErrNoAlias = errors.New("the port has no room for another alias GUID")
