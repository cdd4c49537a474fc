// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"fmt"
	"slices"

	"causeway/config"
	"causeway/lcore"
	"causeway/lcore/manage"
	"causeway/tables"
)

// segments are the workers' part of the segments, with their numbers. Those of the start have no numbers yet.
func (b *Bridge) segments(cfg *config.Config) (all []lcore.Segment, numbers []uint8) {
	var bound []manage.Segment
	for _, r := range cfg.Segments() {
		bound = append(bound, manage.Segment{Bound: r.PKey})
	}
	for _, r := range cfg.Segments() {
		if b.loop == nil {
			all = append(all, b.segment(&r, manage.PartitionOf(r.PKey, b.cfg.IB.PKey, bound)))
			continue
		}
		for _, s := range b.loop.Status().Segments {
			if s.VLAN == r.VLAN {
				all, numbers = append(all, b.segment(&r, b.loop.Partition(r.PKey))), append(numbers, s.Number)
			}
		}
	}
	return all, numbers
}

// segment is the workers' part of one.
func (b *Bridge) segment(r *config.RoCE, partition uint8) lcore.Segment {
	s := lcore.Segment{
		VLAN: r.VLAN, RoCEMTU: r.IBMTU.Bytes(), Versions: versions(r), TTL: r.TTL, Addresses: b.ethernet.ownAddresses(r), Bound: r.PKey != 0,
	}
	if s.Bound {
		s.Partition = partition
	}
	return s
}

// complete gives the segments of a change what management calls.
func (b *Bridge) complete(c *manage.Change, cfg *config.Config) {
	for i, r := range cfg.Segments() {
		s := &c.Segment
		if i > 0 {
			s = &c.More[i-1]
		}
		s.Receive = func(groups []tables.GroupAddr) error { return b.ethernet.receive(r.VLAN, groups) }
		s.Attach = func(number, partition uint8) {
			w := b.segment(&r, partition)
			b.datapath.AddSegment(number, &w)
		}
		s.Detach = func(number uint8) {
			b.datapath.RemoveSegment(number)
			if err := b.ethernet.removeSegment(r.VLAN); err != nil {
				b.log.Error("segment_removed", "segment", r.Name(), "error", err)
			}
		}
	}
}

// added returns the segments that another configuration has besides.
func added(now, to *config.Config) []config.RoCE {
	return slices.DeleteFunc(to.Segments(), func(r config.RoCE) bool {
		return slices.ContainsFunc(now.Segments(), func(o config.RoCE) bool { return o.VLAN == r.VLAN })
	})
}

// checkSegments reports why segments cannot be added to a bridge that runs.
func (b *Bridge) checkSegments(now, to *config.Config) error {
	for _, r := range added(now, to) {
		if most := b.ethernet.port.MTU(); r.MTU > most {
			return fmt.Errorf("[[roce]] %s: mtu %d is more than the %d of the port while it runs: lower it, or restart the bridge", r.Name(), r.MTU, most)
		}
		s := b.segment(&r, 0)
		if err := s.Validate(); err != nil {
			return fmt.Errorf("[[roce]] %s: %w", r.Name(), err)
		}
	}
	return nil
}

// groupsTo adds the groups and ranges to the segments that reach their partitions, or to those that several have.
func groupsTo(c *manage.Change, all []manage.Segment, cfg *config.Config, ethernet bool) {
	for _, g := range cfg.Groups {
		if len(g.VLANs) > 0 {
			c.Shared = append(c.Shared, manage.SharedGroup{Group: manageGroup(g, ethernet), VLANs: g.VLANs})
			continue
		}
		in, _ := cfg.SegmentOf(g.PKey)
		all[in].Groups = append(all[in].Groups, manageGroup(g, ethernet))
	}
	for i := range cfg.Ranges {
		in, _ := cfg.SegmentOf(cfg.Ranges[i].Group.PKey)
		all[in].Ranges = append(all[in].Ranges, manageRange(&cfg.Ranges[i], ethernet))
	}
}

// hostTo adds a RoCE host to its segment: that of its VLAN, or an only one.
func hostTo(all []manage.Segment, cfg *config.Config, x *config.Host) {
	segments := cfg.Segments()
	in := max(0, slices.IndexFunc(segments, func(r config.RoCE) bool { return r.VLAN == x.VLAN }))
	for _, ip := range x.Addrs() {
		if !x.HasMAC {
			all[in].Resolve = append(all[in].Resolve, ip)
			continue
		}
		all[in].Hosts = append(all[in].Hosts, tables.Host{IP: ip, MAC: x.MAC, VLAN: x.VLAN, Version: firstVersion(&segments[in]), Static: true})
	}
}
