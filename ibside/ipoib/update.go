// SPDX-License-Identifier: Apache-2.0

package ipoib

import (
	"context"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"causeway/ibside"
	"causeway/ibside/ib"
)

// valid are the states in which the kernel believes a link-layer address (linux/neighbour.h).
const valid = netlink.NUD_REACHABLE | netlink.NUD_STALE | netlink.NUD_DELAY | netlink.NUD_PROBE | netlink.NUD_PERMANENT

// update takes over a change of the kernel's table, and passes it on. It reports false when ctx has ended.
func (n *Neighbours) update(ctx context.Context, link *net.Interface, u *netlink.NeighUpdate) bool {
	c, ok := n.changeOf(link.Index, u)
	if !ok {
		return true
	}
	n.mu.Lock()
	n.note(c)
	n.mu.Unlock()
	select {
	case n.changes <- c:
		return true
	case <-ctx.Done():
		return false
	}
}

// changeOf reads a message of the kernel's; false when it is about another interface, or no IP address.
func (n *Neighbours) changeOf(link int, u *netlink.NeighUpdate) (c ibside.AddressChange, ok bool) {
	ip, ok := netip.AddrFromSlice(u.IP)
	if !ok || u.LinkIndex != link || u.Family != unix.AF_INET && u.Family != unix.AF_INET6 || ip.IsMulticast() || ip.IsLinkLocalUnicast() {
		return ibside.AddressChange{}, false
	}
	c.IP = ip.Unmap()
	gid, whole := n.gidOf(u.HardwareAddr)
	switch {
	case u.Type == unix.RTM_NEWNEIGH && u.State&valid != 0 && whole:
		c.GID, c.Answered = gid, u.State&(netlink.NUD_REACHABLE|netlink.NUD_PERMANENT) != 0
	case u.Type == unix.RTM_NEWNEIGH && u.State&netlink.NUD_FAILED != 0:
		c.Failed = true
	}
	return c, true
}

// note takes over a change.
func (n *Neighbours) note(c ibside.AddressChange) {
	if old, had := n.gids[c.IP]; had && old != c.GID {
		delete(n.gids, c.IP)
		n.addrs[old] = slices.DeleteFunc(n.addrs[old], func(a netip.Addr) bool { return a == c.IP })
		if len(n.addrs[old]) == 0 {
			delete(n.addrs, old)
		}
	}
	if _, had := n.gids[c.IP]; c.GID != (ib.GID{}) && !had {
		n.gids[c.IP] = c.GID
		n.addrs[c.GID] = append(n.addrs[c.GID], c.IP)
	}
}
