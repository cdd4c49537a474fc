// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"sync/atomic"

	"causeway/app/bridge/rivals"
	"causeway/fleet/peers"
	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/manage"
	"causeway/lcore/manage/bridges"
)

// beside is the bridge among the others of its subnet.
type beside struct {
	instance  uint64                        // tells the process from others
	messenger ibside.Messenger              // by which they hear each other on InfiniBand; nil: there is none
	unheard   error                         // why there is none
	rivals    atomic.Pointer[rivals.Rivals] // nil: none can be found
	members   atomic.Pointer[peers.Peers]   // of the fleet; nil: it is in none, or has not joined it yet
}

// hear takes the messages of other bridges. They may come at once.
func (x *beside) hear(port ibside.OpenPort) {
	m, can := port.(ibside.Messenger)
	if !can {
		return
	}
	x.unheard = m.ReceiveMessages(func(_ ib.LID, data []byte) { x.received(peers.InfiniBand, data) })
	if x.unheard == nil {
		x.messenger = m
	}
}

func (x *beside) received(by peers.Fabric, data []byte) {
	if rivals.IsMessage(data) {
		x.rivals.Load().Received(by == peers.Ethernet, data)
	} else if p := x.members.Load(); p != nil {
		p.Received(by, data)
	}
}

// Barred says why the bridge carries nothing because of another one; "": it carries what it has.
func (x *beside) Barred() string { return x.rivals.Load().Why() }

// Yields says which other bridge carries nothing because of this one; "": none.
func (x *beside) Yields() string { return x.rivals.Load().Yields() }

// Rivals returns the other bridges between the same two fabrics that are not of the bridge's fleet.
func (x *beside) Rivals() []rivals.Other { return x.rivals.Load().Others() }

// lookForRivals has a bridge begin with nothing, where others can be found.
func lookForRivals(b *Bridge) error {
	b.hear(b.ibPort)
	if b.unheard != nil && b.shards == nil {
		b.log.Warn("rivals_unknown", "error", b.unheard, "note", "another bridge between the same fabrics is not found: each message would arrive twice")
	}
	if _, lists := b.ibPort.(ibside.Announcer); !lists || b.messenger == nil {
		return nil
	}
	c := rivals.Config{
		Name: b.cfg.Name, Instance: b.instance, Fleet: b.cfg.Fleet.Name, InForce: b.Config, Self: func() rivals.Self { return selfOf(b) }, Others: func() []bridges.Bridge { return b.loop.Status().Bridges },
		Ask: b.messenger.SendMessage, Answer: func(to frame.MAC, data []byte) error { return manage.SendEverywhere(b.loop, to, data) },
		Bar: b.bar, Log: b.log,
	}
	b.configuration.barred = true
	if b.shards != nil {
		b.configuration.barred, b.shards.barred = false, true
		c.Bar = func(on bool) error { b.shards.bar(on); return nil }
	}
	b.rivals.Store(rivals.New(c))
	b.checkRivals, b.awaitRivals = b.rivals.Load().Check, b.rivals.Load().Await
	return nil
}

// selfOf is what a bridge is to others, now.
func selfOf(b *Bridge) rivals.Self {
	s := rivals.Self{Listed: b.loop.Status().BridgesListed, Wants: !b.drained.Load()}
	s.Carries = s.Wants
	for _, p := range b.ports.list() {
		s.MACs = append(s.MACs, p.mac())
	}
	if b.shards != nil {
		s.Fleet = b.shards.fleet()
		m := b.membership
		s.Wants = s.Fleet.Founded != 0 && cmp.Or(m.leaves(), m.unable(), m.agrees.why()) == ""
		s.Carries = m.part().Hosts+m.part().Groups > 0 && b.shards.entitled()
	}
	return s
}

// runRivals looks for others until end.
func (x *beside) runRivals(ctx context.Context) {
	if r := x.rivals.Load(); r != nil {
		r.Run(ctx)
	}
}

// fleetOf is what a member tells other bridges of its fleet.
func fleetOf(name string, founded uint64) ibside.Fleet {
	if founded == 0 {
		return ibside.Fleet{}
	}
	sum := sha256.Sum256([]byte(name))
	return ibside.Fleet{Name: binary.BigEndian.Uint64(sum[:]), Founded: founded}
}
