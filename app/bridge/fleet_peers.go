// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"causeway/fleet/bfd"
	"causeway/fleet/peers"
	"causeway/fleet/whereabouts"
	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/manage"
)

// neighbours are the other members as the bridge hears them over its fabrics, without etcd.
type neighbours struct {
	*peers.Peers
	ethernet func() peers.Address // where the bridge is reached on each fabric; "": nowhere
	ib       func() peers.Address
}

// ethernetWay is the way over the first segment.
type ethernetWay struct{ loop *manage.Loop }

// ethernetAddress is where a bridge is on its first segment: a MAC and an IP address.
func ethernetAddress(mac frame.MAC, own []netip.Prefix) peers.Address {
	if len(own) == 0 {
		return ""
	}
	return peers.Address(fmt.Sprintf("%v %v", mac, own[0].Addr()))
}

// Say implements peers.Way.
func (w ethernetWay) Say(to peers.Address, message []byte) error {
	mac, ip, _ := strings.Cut(string(to), " ")
	var s manage.Station
	var err error
	if s.MAC, err = frame.ParseMAC(mac); err != nil {
		return err
	}
	if s.IP, err = netip.ParseAddr(ip); err != nil {
		return err
	}
	return manage.SendMessage(w.loop, s, message)
}

// ibWay is the way over InfiniBand, from port to port.
type ibWay struct{ port ibside.Messenger }

// mostGIDs is how many of a bridge's GIDs others are told: one for each of its ports.
const mostGIDs = 4

// ibAddress is where a bridge is on InfiniBand: its ports' GIDs.
func ibAddress(gids []ib.GID) peers.Address {
	var names []string
	for _, g := range gids[:min(len(gids), mostGIDs)] {
		names = append(names, g.String())
	}
	return peers.Address(strings.Join(names, " "))
}

// gids returns those of members' first ports.
func (n *neighbours) gids() map[string]ib.GID {
	all := map[string]ib.GID{}
	for name, at := range n.Addresses(peers.InfiniBand) {
		first, _, _ := strings.Cut(string(at), " ")
		if gid, err := ib.ParseGID(first); err == nil {
			all[name] = gid
		}
	}
	return all
}

// Say implements peers.Way. A bridge with several ports gets a message by each that is reached, and takes the first.
func (w ibWay) Say(to peers.Address, message []byte) error {
	var failed []error
	all := strings.Fields(string(to))
	for _, name := range all {
		gid, err := ib.ParseGID(name)
		if err == nil {
			err = w.port.SendMessage(gid, message)
		}
		if err != nil {
			failed = append(failed, err)
		}
	}
	if len(failed) < len(all) {
		return nil
	}
	return errors.Join(failed...)
}

// joinNeighbours makes the bridge one of the members that hear each other.
func joinNeighbours(b *Bridge, m *membership, process uint64, store peers.Store) error {
	n := &neighbours{ethernet: func() peers.Address { return ethernetAddress(b.ports.list()[0].mac(), b.Config().RoCE.Addresses) }}
	c := peers.Config{Fleet: m.cfg.Name, Name: m.name, Process: process, Store: store, Log: b.log,
		Heard: func(member string, process uint64, word []byte) { m.member.Heard(member, process, word) }}
	c.Ways[peers.Ethernet] = ethernetWay{b.loop}
	if b.unheard != nil {
		b.log.Warn("fleet_no_messages", "fabric", peers.InfiniBand.String(), "error", b.unheard,
			"note", "the other members are not heard there: that a fabric is lost, without a cable's being so, is not found")
	}
	if b.messenger != nil {
		c.Ways[peers.InfiniBand] = ibWay{b.messenger}
		n.ib = func() peers.Address { return ibAddress(b.ibPort.Own().GIDs) }
	}
	var err error
	if n.Peers, err = peers.New(c); err != nil {
		return fmt.Errorf("bridge: [fleet]: %w", err)
	}
	b.members.Store(n.Peers)
	m.neighbours = n
	return nil
}

// run hears the others until ctx ends, and has them know where the bridge is.
func (n *neighbours) run(ctx context.Context) {
	var hearing sync.WaitGroup
	defer hearing.Wait()
	hearing.Go(func() { n.Run(ctx) })
	const every = 200 * time.Millisecond
	tick := time.NewTicker(every)
	defer tick.Stop()
	var was [peers.Fabrics]peers.Address
	for {
		for f, at := range [peers.Fabrics]func() peers.Address{n.ethernet, n.ib} {
			if at == nil {
				continue
			}
			if is := at(); is != was[f] {
				was[f] = is
				n.Reach(peers.Fabric(f), is)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// lost says which fabric the bridge has lost though its port there is up; "": none.
func (n *neighbours) lost() string {
	for f := range peers.Fabric(peers.Fabrics) {
		if why := n.Lost(f); why != "" {
			return why
		}
	}
	return ""
}

// suspects reports whether another member is believed dead: it was heard, is not any more, and another one is. Who hears nobody has
// rather lost them all itself.
func (n *neighbours) suspects(name string) bool {
	return n.Down(name) && slices.ContainsFunc(n.Sessions(), func(s peers.Session) bool { return s.State == bfd.Up })
}

// sayer is how the bridge asks the others when it is without etcd; nil: it does not, and stops.
func (m *membership) sayer() func(word []byte) {
	if !m.cfg.Unanimous {
		return nil
	}
	return func(word []byte) { _ = m.neighbours.Word(word) } // one that is not said is asked for again
}

// gone reports whether the process that was there has ended for certain.
func gone(where string) bool {
	ended, err := whereabouts.Ended(where)
	return ended && err == nil
}

// unnamed is why a member waits that may not have its name yet.
const unnamed = "the process that had the bridge's name before was elsewhere, and may go on without etcd until the others have taken it out of the assignment"
