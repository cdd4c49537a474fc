// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"causeway/app/bridge/link"
	"causeway/dpdk"
)

// carriers are the kernel's interfaces that an Ethernet port lives on.
//
//	kernel ─▶ link.Monitor ─▶ changed ─┬▶ log: link_up, link_down; management reports and announces again
//	                                   └▶ deleted, or down at the start, and there again: reopen the port while no worker polls it; or end the
//	                                      bridge
type carriers struct {
	port   *ethernetPort
	log    *slog.Logger
	paused func(f func() error) error // calls f while no worker runs
	away   away
	fail   func(error)

	monitors []*link.Monitor
	members  *members      // of a bond; nil: the port is none
	again    chan struct{} // has a value after each link_up, of whatever port

	changing sync.Mutex // held by changed
	mu       sync.Mutex
	lost     error // why the port is not on its interface; nil: it is
}

// watch follows the interfaces until undo. It is called in their network namespace.
func (c *carriers) watch(undo *teardown) error {
	waiting := c.port.port.Waiting()
	if waiting {
		c.setLost(errors.New("the port waits for its interface to be set up"))
	}
	c.members = c.bondOf(undo)
	for i, name := range c.port.port.Carriers() {
		changed := c.changed
		if c.members != nil {
			changed = func(was, is link.State) { c.members.changed(i, was, is) }
		}
		m, err := link.Watch(name, changed)
		if err != nil {
			return fmt.Errorf("bridge: [roce] port %v: %w", c.port.name, err)
		}
		c.monitors = append(c.monitors, m)
		undo.add(m.Close)
		if c.members != nil {
			m.Poll(pollMembers)
			c.members.begin(i, m)
			continue
		}
		switch s := m.State(); {
		case waiting && s.Reason != link.Admin: // it was set up meanwhile
			c.changed(link.State{Interface: name, Reason: link.Admin}, s)
		case !s.Up():
			c.say(s)
		}
	}
	return nil
}

// state returns the first state that is not up, of the interfaces and of the port.
func (c *carriers) state() link.State {
	if c.members != nil {
		return c.members.state(c.port.name.String())
	}
	for _, m := range c.monitors {
		s := m.State()
		if lost := c.whyLost(); lost != nil && s.Reason != link.Deleted && s.Reason != link.Admin {
			return link.State{Interface: s.Interface, Reason: link.Deleted, Note: lost.Error()}
		}
		if !s.Up() {
			return s
		}
	}
	if len(c.monitors) == 0 && !c.port.linkUp() {
		return link.State{Interface: c.port.name.String(), Reason: link.Carrier,
			Note: fmt.Sprintf("the port %v has no link: nothing is at its other end", c.port.name)}
	}
	return link.State{}
}

// up reports whether frames can pass the kernel's interfaces. A port without any is up: what its driver calls a link
// may come only when the bridge is ready.
func (c *carriers) up() bool { return len(c.monitors) == 0 || c.state().Up() }

func (c *carriers) whyLost() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lost
}

func (c *carriers) setLost(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost = err
}

// changed is called for each change of an interface.
func (c *carriers) changed(was, is link.State) {
	c.changing.Lock()
	defer c.changing.Unlock()
	if is.Reason == link.Deleted {
		c.setLost(errors.New(is.String()))
		c.say(is)
		if !c.port.port.CanReopen() {
			c.fail(fmt.Errorf("bridge: [roce] port %v: %s, and its driver cannot take another in its place; %w", c.port.name, is, ErrDeviceGone))
		}
		return
	}
	back := false
	if c.whyLost() != nil && c.port.port.CanReopen() && is.Reason != link.Admin {
		if back = c.reopen(is); !back {
			return
		}
	}
	if back || was.Reason != is.Reason {
		c.say(is)
	}
}

// reopen puts the port on an interface that is there again, and reports whether it could. What keeps it from that may
// change with the interface, such as its MTU; then it is tried again.
func (c *carriers) reopen(is link.State) bool {
	err := c.plugIn()
	switch {
	case errors.Is(err, dpdk.ErrNotReopened):
		c.setLost(err)
		c.say(link.State{Interface: is.Interface, Reason: link.Deleted, Note: err.Error()})
		return false
	case err != nil:
		c.fail(fmt.Errorf("bridge: the interface %s is there again, but not the port: %w; %w", is.Interface, err, ErrDeviceGone))
		return false
	}
	c.setLost(nil)
	return true
}

// plugIn has the port opened again while no worker polls it. They go on with the others; if there are none, they pause.
func (c *carriers) plugIn() error {
	if done, err := c.away(c.port.index, c.port.reopen); done {
		return err
	}
	return c.paused(c.port.reopen)
}

func (c *carriers) say(s link.State) {
	if s.Up() {
		c.log.Info("link_up", "interface", s.Interface)
		c.tellAgain()
		return
	}
	c.log.Warn("link_down", "interface", s.Interface, "reason", string(s.Reason), "note", s.String())
}

// tellAgain has management announce and report all again.
func (c *carriers) tellAgain() {
	select {
	case c.again <- struct{}{}:
	default:
	}
}

// leave tells the other ends of a bond that it ends, so that they send by none of its members any more.
func (c *carriers) leave() {
	if c.members != nil {
		c.members.bond.Leave()
	}
}
