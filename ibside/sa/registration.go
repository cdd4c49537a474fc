// SPDX-License-Identifier: Apache-2.0

package sa

import (
	"context"
	"errors"
	"fmt"
	"time"

	"causeway/ibside/ib"
)

// Kind is the kind of a registration.
type Kind string

// The kinds. Aliases come first when everything is registered again, because a group's member may be an alias.
const (
	KindAlias   Kind = "alias"
	KindGroup   Kind = "group"
	KindTrap    Kind = "trap"
	KindService Kind = "service"
)

// Registration is a registration at the SA.
type Registration struct {
	Kind Kind
	Name string // the MGID at first, the index of the alias, the number of the trap or service

	// Held says that it is in force: the SA has confirmed it since it was last lost. Otherwise the SA may no longer
	// have it. What an earlier SM programmed into switches may still work, until a new SM changes it.
	Held  bool
	Since time.Time // when Held last changed
	Err   error     // why it is not in force: an event, or the SA's answer

	Group ib.MCMemberFields // of a group, as the SA last confirmed it: its MLID may have changed
	Alias ib.GUID           // of an alias
}

// item is a registration with the function that makes it. register changes the item only through its result, and may be
// called again at any time.
type item struct {
	Registration // guarded by the registrar's mutex
	gone         bool

	busy     chan struct{} // a lock: filled while a request for the item is under way
	register func(context.Context, *Client) (Registration, error)
	withdraw func(context.Context, *Client) error
}

// itemKey identifies an item.
type itemKey struct {
	kind Kind
	name string
	port ib.GID // the member of a group
}

func newItem(kind Kind, name string) *item {
	return &item{Registration: Registration{Kind: kind, Name: name, Since: time.Now()}, busy: make(chan struct{}, 1)}
}

// Join makes the port a member as Client.Join does, and keeps it one. Where the SA chose the MGID (f.MGID is zero), a
// later SA may have to choose another, which OnChange reports.
func (r *Registrar) Join(ctx context.Context, f ib.MCMemberFields) (ib.MCMemberFields, error) {
	chosen := f.MGID.IsZero()
	if chosen {
		got, err := r.client.Join(ctx, f)
		if err != nil {
			return got, err
		}
		f.MGID = got.MGID
	}
	it := newItem(KindGroup, f.MGID.String())
	key := itemKey{KindGroup, it.Name, f.PortGID}
	it.register = func(ctx context.Context, c *Client) (Registration, error) {
		got, err := c.Join(ctx, f)
		if chosen && errors.Is(err, RequestInvalid) { // opensm lets nobody but itself make such a group
			anew := f
			anew.MGID = ib.GID{}
			if got, err = c.Join(ctx, anew); err == nil {
				f.MGID = got.MGID
			}
		}
		return Registration{Group: got}, err
	}
	it.withdraw = func(ctx context.Context, c *Client) error {
		if r.cfg.Kept(f.MGID) {
			return nil
		}
		return c.Leave(ctx, f.MGID, f.PortGID, f.JoinState)
	}
	got, err := r.add(ctx, key, it)
	return got.Group, err
}

// Leave ends a membership of Join, with the MGID that was passed to Join or that it returned, and the same PortGID.
func (r *Registrar) Leave(ctx context.Context, mgid, portGID ib.GID) error {
	return r.remove(ctx, itemKey{KindGroup, mgid.String(), portGID})
}

// SetAlias sets an alias as Client.SetAlias does, and keeps it. The SA's choice for a zero GUID is kept, too.
func (r *Registrar) SetAlias(ctx context.Context, index int, guid ib.GUID) (ib.GUID, error) {
	it := newItem(KindAlias, fmt.Sprint(index))
	if guid == 0 {
		chosen, err := r.client.SetAlias(ctx, index, 0)
		if err != nil {
			return 0, err
		}
		guid = chosen
	}
	it.register = func(ctx context.Context, c *Client) (Registration, error) {
		got, err := c.SetAlias(ctx, index, guid)
		return Registration{Alias: got}, err
	}
	it.withdraw = func(ctx context.Context, c *Client) error { return c.DeleteAlias(ctx, index) }
	got, err := r.add(ctx, itemKey{kind: KindAlias, name: it.Name}, it)
	return got.Alias, err
}

// DeleteAlias removes an alias of SetAlias.
func (r *Registrar) DeleteAlias(ctx context.Context, index int) error {
	return r.remove(ctx, itemKey{kind: KindAlias, name: fmt.Sprint(index)})
}

// Subscribe subscribes as Client.Subscribe does, and keeps the subscription.
func (r *Registrar) Subscribe(ctx context.Context, trap uint16) error {
	it := newItem(KindTrap, fmt.Sprint(trap))
	it.register = func(ctx context.Context, c *Client) (Registration, error) {
		return Registration{}, c.Subscribe(ctx, trap)
	}
	it.withdraw = func(ctx context.Context, c *Client) error { return c.Unsubscribe(ctx, trap) }
	_, err := r.add(ctx, itemKey{kind: KindTrap, name: it.Name}, it)
	return err
}

// Offer offers a service of the port as Client.Offer does, and keeps it offered. make is called each time for what the
// record says, with the port's state; number and GID are filled in.
func (r *Registrar) Offer(ctx context.Context, id ib.ServiceID, make func(ib.PortState) ib.ServiceRecordFields) error {
	it := newItem(KindService, id.String())
	var offered ib.ServiceRecordFields
	it.register = func(ctx context.Context, c *Client) (Registration, error) {
		p, err := c.PortState()
		if err != nil {
			return Registration{}, err
		}
		f := make(p)
		f.ID, f.GID = id, p.GID
		offered, err = c.Offer(ctx, f)
		return Registration{}, err
	}
	it.withdraw = func(ctx context.Context, c *Client) error { return c.Withdraw(ctx, offered) }
	_, err := r.add(ctx, itemKey{kind: KindService, name: it.Name}, it)
	return err
}
