// SPDX-License-Identifier: Apache-2.0

package house

import (
	"errors"
	"net/netip"
	"slices"
	"sync"

	"causeway/config"
	"causeway/dpdk"
	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/lcore/manage"
)

// spareGroups is room for groups that have ended, but that a worker may still look at: their ids rest.
const spareGroups = 64

// groupCounts is what each id had counted when its group began: ids are given out again, counts go on.
type groupCounts struct {
	mu   sync.Mutex
	base map[int]lcore.GroupCounters
}

// manageRange is a range as management sees it.
func manageRange(r *config.Range, ethernet bool) manage.Range {
	mgid := r.MGID
	if ethernet {
		mgid = ib.MGIDRoCE
	}
	return manage.Range{
		Prefix: r.Prefix, Reports: r.Reports, SA: r.SA, Most: r.Most, Idle: r.Idle, MGID: mgid, Group: manageGroup(r.Group, false),
	}
}

// manageGroup is a group as management sees it. On an Ethernet link layer its MGID is the IP group itself, whatever
// InfiniBand would make of it.
func manageGroup(g config.Group, ethernet bool) manage.Group {
	m := manage.Group{
		IP: g.IP, MGID: g.MGID, QKey: g.QKey, PKey: g.PKey,
		ToIB: g.Direction&config.ToIB != 0, ToRoCE: g.Direction&config.ToRoCE != 0, RewriteImm: g.RewriteImm, Rate: g.RatePPS, PGM: g.PGM,
	}
	if ethernet {
		m.MGID = ib.MGIDRoCE(g.IP)
	}
	return m
}

// learnsReports reports whether hosts' reports are listened to: those of the older versions go to the groups themselves.
func (h *House) learnsReports() bool {
	return slices.ContainsFunc(h.Config().Ranges, func(r config.Range) bool { return r.Reports })
}

// beginGroup notes what an id has counted for groups before.
func (h *House) beginGroup(id int) {
	was := h.bench.Group(id)
	h.counts.mu.Lock()
	defer h.counts.mu.Unlock()
	if h.counts.base == nil {
		h.counts.base = map[int]lcore.GroupCounters{}
	}
	h.counts.base[id] = was
}

// Groups returns what has crossed for each group address that is joined, over all groups that have it.
func (h *House) Groups() map[netip.Addr]lcore.GroupCounters {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := map[netip.Addr]lcore.GroupCounters{}
	if h.closed {
		return out
	}
	h.counts.mu.Lock() // before the list is read: a group that has an id by then began before
	defer h.counts.mu.Unlock()
	for _, g := range h.loop.Status().Joined {
		sum, c, was := out[g.IP], h.bench.Group(g.ID), h.counts.base[g.ID]
		for d := range c.Packets {
			sum.Packets[d] += c.Packets[d] - was.Packets[d]
			sum.Bytes[d] += c.Bytes[d] - was.Bytes[d]
		}
		out[g.IP] = sum
	}
	return out
}

// hear has the port, and where it is shared the kernel's interface, receive these groups beside what management needs; or all
// groups while reports are listened to.
func (h *House) hear(groups []netip.Addr) error {
	macs, all := h.multicastMACs(groups), h.learnsReports()
	set := h.port.SetMulticast
	if all {
		set = func([][6]byte) (dpdk.MulticastFilter, error) { return h.port.SetAllMulticast() }
	}
	if _, err := set(macs); err != nil {
		return err
	}
	if h.listener == nil {
		return nil
	}
	return errors.Join(h.listener.follow(macs), h.listener.followAll(all))
}
