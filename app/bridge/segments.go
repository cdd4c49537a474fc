// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"fmt"
	"net/netip"
	"slices"

	"causeway/config"
	"causeway/lcore"
	"causeway/lcore/manage"
	"causeway/tables"
)

// atStart are the numbers that segments have at the start, by place.
func atStart(cfg *config.Config) map[config.Place]uint8 {
	numbers := map[config.Place]uint8{}
	for i, r := range cfg.Segments() {
		numbers[r.Place()] = uint8(i)
	}
	return numbers
}

// A segmenter makes what the parts of a bridge have of its segments.
type segmenter struct{ *Bridge }

// numbers are the segments' numbers, by place.
func (b segmenter) numbers() map[config.Place]uint8 {
	if b.loop == nil {
		return atStart(b.cfg)
	}
	numbers := map[manage.Place]uint8{}
	for _, s := range b.loop.Status().Segments {
		numbers[s.Place] = s.Number
	}
	return b.ports.placesOf(numbers)
}

// segments are the workers' part of the segments that have numbers, and these, in their order.
func (b segmenter) segments(cfg *config.Config, numbers map[config.Place]uint8) (all []lcore.Segment, order []uint8) {
	var bound []manage.Segment
	for _, r := range b.cfg.Segments() {
		bound = append(bound, manage.Segment{Bound: r.PKey})
	}
	for _, r := range cfg.Segments() {
		n, known := numbers[r.Place()]
		if !known {
			continue
		}
		partition := manage.PartitionOf(r.PKey, b.cfg.IB.PKey, bound)
		if b.loop != nil {
			partition = b.loop.Partition(r.PKey)
		}
		all, order = append(all, b.segment(&r, partition)), append(order, n)
	}
	return all, order
}

// segment is the workers' part of one.
func (b segmenter) segment(r *config.RoCE, partition uint8) lcore.Segment {
	s := lcore.Segment{VLAN: r.VLAN, RoCEMTU: r.IBMTU.Bytes(), Versions: versions(r), TTL: r.TTL, Bound: r.PKey != 0}
	if p := b.ports.named(r.Port); p != nil { // else it is to be opened
		s.Port, s.Addresses = p.index, p.ownAddresses(r)
	}
	if s.Bound {
		s.Partition = partition
	}
	return s
}

// complete gives the segments of a change what management calls.
func (b segmenter) complete(c *manage.Change, cfg *config.Config) {
	for i, r := range cfg.Segments() {
		s := &c.Segment
		if i > 0 {
			s = &c.More[i-1]
		}
		p := b.ports.named(r.Port)
		s.MAC = p.mac()
		s.Receive = func(groups []tables.GroupAddr) error { return p.receive(r.VLAN, groups) }
		s.Attach = func(number, partition uint8) {
			w := b.segment(&r, partition)
			b.datapath.AddSegment(number, &w)
		}
		s.Detach = func(number uint8) {
			b.datapath.RemoveSegment(number)
			if err := p.removeSegment(r.VLAN); err != nil {
				b.log.Error("segment_removed", "segment", r.Name(), "error", err)
			}
		}
	}
}

// added returns the segments that another configuration has besides.
func added(now, to *config.Config) []config.RoCE {
	return slices.DeleteFunc(to.Segments(), func(r config.RoCE) bool {
		return slices.ContainsFunc(now.Segments(), func(o config.RoCE) bool { return o.Place() == r.Place() })
	})
}

// checkSegments reports why segments cannot be added to a bridge that runs.
func (b segmenter) checkSegments(now, to *config.Config) error {
	if err := b.ports.checkNew(b.cfg, to); err != nil {
		return err
	}
	for _, r := range added(now, to) {
		p := b.ports.named(r.Port)
		if p != nil && r.MTU > p.port.MTU() {
			most := p.port.MTU()
			return fmt.Errorf("[[roce]] %s: mtu %d is more than the %d of the port while it runs: lower it, or restart the bridge", r.Name(), r.MTU, most)
		}
		s := b.segment(&r, 0)
		if p == nil { // of a port that is not open, whose link-local address is not known yet
			s.Addresses = append(slices.Clone(r.Addresses), netip.Prefix{})
		}
		if err := s.Validate(); err != nil {
			return fmt.Errorf("[[roce]] %s: %w", r.Name(), err)
		}
	}
	return nil
}

// groupsTo adds the groups and ranges to the segments that reach their partitions, or to those that several have.
func groupsTo(c *manage.Change, all []manage.Segment, place func(config.Place) manage.Place, cfg *config.Config, ethernet bool) {
	segments := cfg.Segments()
	for _, g := range cfg.Groups {
		if g.Shared() {
			x := manage.SharedGroup{Group: manageGroup(g, ethernet)}
			for _, in := range cfg.GroupSegments(&g) {
				x.In = append(x.In, place(segments[in].Place()))
			}
			c.Shared = append(c.Shared, x)
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

// hostTo adds a RoCE host to its segment, or an only one.
func hostTo(all []manage.Segment, cfg *config.Config, x *config.Host) {
	segments := cfg.Segments()
	in := max(0, slices.IndexFunc(segments, func(r config.RoCE) bool { return x.IsIn(&r) }))
	for _, ip := range x.Addrs() {
		if !x.HasMAC {
			all[in].Resolve = append(all[in].Resolve, ip)
			continue
		}
		all[in].Hosts = append(all[in].Hosts, tables.Host{IP: ip, MAC: x.MAC, VLAN: x.VLAN, Version: firstVersion(&segments[in]), Static: true})
	}
}
