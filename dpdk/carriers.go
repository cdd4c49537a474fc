// SPDX-License-Identifier: Apache-2.0

package dpdk

import (
	"errors"
	"fmt"
	"net"
)

// ErrNotReopened is in the error of a Reopen that has done nothing.
var ErrNotReopened = errors.New("it cannot be opened again yet")

// Carriers names the kernel's interfaces that the port lives on: none of its frames pass while one of them is down. A
// port without the kernel has none. Of a bond, each is one of its members, in their order. It is to be called in the network namespace that the port was opened in.
func (p *Port) Carriers() []string {
	if p.netdev != 0 && p.plan.carriers == nil {
		if netdev, err := net.InterfaceByIndex(p.netdev); err == nil {
			return []string{netdev.Name}
		}
	}
	if p.bond != nil {
		var all []string
		for _, m := range p.bond.members {
			all = append(all, m.Carriers()...)
		}
		return all
	}
	return p.plan.carriers
}

// CanReopen reports whether Reopen can succeed: an af_packet port's interface is somebody else's, and may be deleted
// and made again. A tap's ends with the tap, and a card's with the card.
func (p *Port) CanReopen() bool { return p.plan.captured != 0 }

// Reopen plugs an af_packet port in anew when its interface was deleted and is there again, or is up that Waiting
// waited for, and starts it: packet sockets stay with the interface that they began with. The port keeps its id, its
// MAC address and its counters. No worker may be in a burst call. On an error that is ErrNotReopened, nothing was done
// and it can be tried again; after others only Close is possible.
func (p *Port) Reopen() error {
	eal, err := theEAL(fmt.Sprintf("port %q", p.name))
	if err != nil {
		return err
	}
	kind, arg, err := parsePortName(p.name)
	if err != nil {
		return portError(p.name, "%w", err)
	}
	plan, err := kind.plan(arg, &p.config)
	if err != nil {
		return portError(p.name, "%w: %w", ErrNotReopened, err)
	}
	if plan.waits {
		return portError(p.name, "%w: the interface %s is down", ErrNotReopened, arg)
	}
	before, err := p.Stats()
	if err != nil {
		return err
	}
	id := p.id
	if err := p.Close(); err != nil {
		return err
	}
	p.plan, p.rings = plan, nil
	clearLog()
	if err := p.plug(eal, kind); err != nil {
		return portError(p.name, "%w", err)
	}
	p.closed, p.before = false, before
	if err := p.setUp(); err != nil {
		return portError(p.name, "%w", err)
	}
	if p.id != id {
		return portError(p.name, "plugged in again, it is DPDK's port %d, and was %d", p.id, id)
	}
	return p.Start()
}
