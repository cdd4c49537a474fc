// SPDX-License-Identifier: Apache-2.0

package dpdk

// #include "dpdk.h"
// #include "bond.h"
import "C"

import (
	"errors"
	"fmt"
	"strings"

	"github.com/vishvananda/netlink"
)

// Reopen takes an interface in place of a member's that was deleted. It is set up if it is not. The member is opened anew
// beside the workers; only what paused is given is done while none is in a burst call. On an error that is ErrNotReopened,
// nothing was done and it can be tried again; after others only Close is possible.
func (b *Bond) Reopen(member int, paused func(swap func() error) error) error {
	m := b.members[member]
	eal, err := theEAL(fmt.Sprintf("port %q", m.name))
	if err != nil {
		return err
	}
	next, err := b.openAgain(eal, m)
	if err != nil {
		return portError(m.name, "%w: %w", ErrNotReopened, err)
	}
	old := *m
	err = paused(func() error { return b.swap(member, next) })
	if m.id != old.id {
		err = errors.Join(err, old.unplug())
	} else {
		err = errors.Join(err, next.unplug())
	}
	return err
}

func (b *Bond) openAgain(eal *EAL, m *Port) (*Port, error) {
	if err := setUpInterface(m.name); err != nil {
		return nil, err
	}
	next, err := openPort(eal, m.name, m.config)
	if err != nil {
		return nil, err
	}
	if next.plan.waits {
		return nil, errors.Join(errors.New("its interface is down"), next.unplug())
	}
	return next, nil
}

// swap puts a port that is opened in the place of a member, which keeps its counters.
func (b *Bond) swap(i int, next *Port) error {
	m := b.members[i]
	// Now, because net_bonding gives the bond's address to what has the member's name, when it takes the member out.
	_, arg, _ := strings.Cut(m.name, ":")
	var mac [6]byte
	if link, err := netlink.LinkByName(arg); err == nil { // if not, there is nothing to take back
		copy(mac[:], link.Attrs().HardwareAddr)
	}
	before, err := m.Stats()
	if err != nil {
		return err
	}
	m.stopCounting()
	clearLog()
	if err := errno(C.dpdk_bond_take_out(b.c, C.uint(i))); err != nil {
		return portError(m.name, "take it out of %s: %w", b.port.name, why(err))
	}
	own := m.mac
	*m = *next
	m.before, m.mac = before, own
	return b.putIn(i, mac)
}

// putIn puts a member in again, whose interface had that address of its own.
func (b *Bond) putIn(i int, mac [6]byte) error {
	m := b.members[i]
	err := b.remember(i)
	if b.macs[i] = mac; err == nil {
		clearLog()
		err = errno(C.dpdk_bond_put_in(b.c, C.uint(i), m.id))
	}
	if err == nil {
		err = b.restoreMTU(i)
	}
	if err != nil {
		return portError(m.name, "put it into %s: %w", b.port.name, why(err))
	}
	return nil
}
