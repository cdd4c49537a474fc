// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"causeway/app/bridge/bond"
	"causeway/app/bridge/link"
	"causeway/dpdk"
)

// members are those of a bonded Ethernet port. In place of one carrier there is one for each of them.
type members struct {
	bond *bond.Bond
	port *dpdk.Bond
	log  *slog.Logger
	fail func(error)

	began time.Time

	mu   sync.Mutex
	gone []bool // deleted: what comes with that name is another interface, which the port does not have
}

const missing = "its interface was not there when the bridge started; the bond takes it when the bridge starts again"

// bondOf returns the members of the port, and has them decided about until undo; nil: the port is no bond.
func (c *carriers) bondOf(undo *teardown) *members {
	b := c.port.port.Bond()
	if b == nil {
		return nil
	}
	m := &members{port: b, log: c.log, fail: c.fail, began: time.Now(), gone: make([]bool, len(b.Members()))}
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

// changed takes a change of a member's interface.
func (m *members) changed(i int, is link.State) {
	m.mu.Lock()
	all := true
	if is.Reason == link.Deleted {
		m.gone[i] = true
	}
	gone := m.gone[i]
	for _, g := range m.gone {
		all = all && g
	}
	m.mu.Unlock()
	switch {
	case is.Reason == link.Deleted:
		m.log.Warn("link_down", "interface", is.Interface, "reason", string(is.Reason), "note", is.String()+
			"; the bond goes on without it, and takes one in its place when the bridge starts again")
	case gone:
	case is.Up():
		m.log.Info("link_up", "interface", is.Interface)
	default:
		m.log.Warn("link_down", "interface", is.Interface, "reason", string(is.Reason), "note", is.String())
	}
	m.bond.SetLink(i, is.Up() && !gone)
	if all {
		m.fail(fmt.Errorf("bridge: all interfaces of the bond were deleted; %w", ErrDeviceGone))
	}
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

// Bond returns the mode and the members of the Ethernet port; "" and none: it is no bond.
func (b *Bridge) Bond() (mode string, all []BondMember) {
	b.whileOpen(func() {
		m := b.carriers.members
		if m == nil {
			return
		}
		mode = m.port.Mode()
		for i, x := range m.bond.Members() {
			port := m.port.Members()[i]
			s, err := port.Stats()
			if err != nil {
				s = dpdk.Stats{RxMissedUnknown: true}
			}
			all = append(all, BondMember{x, port.Name(), s, m.port.Count(i)})
		}
		for _, name := range m.port.Missing() {
			_, netdev, _ := strings.Cut(name, ":")
			all = append(all, BondMember{Port: name, Member: bond.Member{Name: netdev, Since: m.began, Why: missing}})
		}
	})
	return mode, all
}
