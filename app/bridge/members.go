// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"causeway/app/bridge/bond"
	"causeway/app/bridge/link"
	"causeway/dpdk"
)

// members are those of a bonded Ethernet port. In place of one carrier there is one for each of them.
type members struct {
	carriers *carriers
	bond     *bond.Bond
	port     *dpdk.Bond
	began    time.Time

	mu   sync.Mutex // held by changed
	gone []bool     // deleted, and the port is not on one in its place yet
}

const missing = "its interface was not there when the bridge started; the bond takes it when the bridge starts again"

// bondOf returns the members of the port, and has them decided about until undo; nil: the port is no bond.
func (c *carriers) bondOf(undo *teardown) *members {
	b := c.port.port.Bond()
	if b == nil {
		return nil
	}
	m := &members{carriers: c, port: b, began: time.Now(), gone: make([]bool, len(b.Members()))}
	m.bond = bond.New(bond.Config{
		Port: b, Members: c.port.port.Carriers(), LACP: b.Mode() == "lacp", System: c.port.port.MAC(), Log: c.log,
		Wake: c.port.wakeAll, Changed: c.tellAgain,
	})
	for _, name := range b.Missing() {
		c.log.Warn("bond_member_off", "member", name, "note", missing)
	}
	ctx, end := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() { m.bond.Run(ctx) })
	undo.add(func() error {
		end()
		ended.Wait()
		return nil
	})
	return m
}

// pollMembers is a quarter of the time within which another member is to carry on for one that has lost its carrier. A port that is
// no bond does without: it would only be told earlier, and would not be idle when nothing crosses.
const pollMembers = 25 * time.Millisecond

// noLink says why a member has no link; "": it has one.
var noLink = map[link.Reason]string{link.Deleted: "its interface was deleted", link.Admin: "its interface is not set up", link.Carrier: bond.NoCarrier}

// begin takes the first state of a member's interface.
func (m *members) begin(i int, of *link.Monitor) {
	m.mu.Lock()
	defer m.mu.Unlock()
	is := of.State() // what comes after it comes to changed
	if !is.Up() {
		m.say(is)
	}
	m.bond.SetLink(i, noLink[is.Reason])
}

// changed takes a change of a member's interface.
func (m *members) changed(i int, was, is link.State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case is.Reason == link.Deleted:
		m.gone[i] = true
		if !slices.Contains(m.gone, false) && !slices.ContainsFunc(m.port.Members(), (*dpdk.Port).CanReopen) {
			m.carriers.fail(fmt.Errorf("bridge: all interfaces of the bond were deleted; %w", ErrDeviceGone))
		}
	case m.gone[i]:
		if m.gone[i] = !m.reopen(i, is); m.gone[i] {
			return
		}
	case was.Reason == is.Reason:
		return
	}
	m.say(is)
	m.bond.SetLink(i, noLink[is.Reason])
}

// reopen has the bond take an interface in place of one that was deleted, and reports whether it has. What keeps it from that
// may change with the interface, such as its MTU; then it is tried again.
func (m *members) reopen(i int, is link.State) bool {
	if !m.port.Members()[i].CanReopen() {
		return false
	}
	err := m.carriers.port.reopenMember(i, m.carriers.paused)
	switch {
	case errors.Is(err, dpdk.ErrNotReopened):
		m.say(link.State{Interface: is.Interface, Reason: link.Deleted, Note: err.Error()})
	case err != nil:
		m.carriers.fail(fmt.Errorf("bridge: the interface %s is there again, but not the member of the bond: %w; %w", is.Interface, err, ErrDeviceGone))
	}
	return err == nil
}

func (m *members) say(s link.State) {
	if s.Up() {
		m.carriers.log.Info("link_up", "interface", s.Interface)
		return
	}
	m.carriers.log.Warn("link_down", "interface", s.Interface, "reason", string(s.Reason), "note", s.String())
}

// state is that of the bond as a whole.
func (m *members) state(name string) link.State {
	why := m.bond.Down()
	if why == "" {
		return link.State{}
	}
	return link.State{Interface: name, Reason: link.Carrier, Note: why}
}

// A BondMember is a member of a bonded Ethernet port.
type BondMember struct {
	bond.Member
	Port  string // as the configuration has it
	Stats dpdk.Stats
	dpdk.BondCounters
}

// Bond returns the mode and the members of the Ethernet port; "" and none: it is no bond. Of several that are, the mode is
// the first's, and the members are all.
func (b *Bridge) Bond() (mode string, all []BondMember) {
	b.whileOpen(func() {
		for _, p := range b.ports.list() {
			if m := p.carriers.members; m != nil {
				mode = cmp.Or(mode, m.port.Mode())
				all = append(all, m.list()...)
			}
		}
	})
	return mode, all
}

// list returns the members as they are shown.
func (m *members) list() (all []BondMember) {
	for i, x := range m.bond.Members() {
		port := m.port.Members()[i]
		all = append(all, BondMember{x, port.Name(), m.carriers.port.statsOf(port), m.port.Count(i)})
	}
	for _, name := range m.port.Missing() {
		_, netdev, _ := strings.Cut(name, ":")
		all = append(all, BondMember{Port: name, Member: bond.Member{Name: netdev, Since: m.began, Why: missing}})
	}
	return all
}
