// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"causeway/app/segment"
	"causeway/ibside/fabric"
	"causeway/ibside/ib"
)

// A layout is how many there are of what a bridge may have several.
type layout struct{ fabrics, segments, ports int }

func (l layout) String() string {
	return fmt.Sprintf("FABRICS=%d SEGMENTS=%d PORTS=%d", l.fabrics, l.segments, l.ports)
}

// check says what is not possible.
func (l layout) check() error {
	for what, n := range map[string]int{"fabrics": l.fabrics, "segments": l.segments, "ports": l.ports} {
		if n < 1 || n > 2 {
			return fmt.Errorf("-%s %d: there are 1 or 2", what, n)
		}
	}
	if l.ports > l.segments {
		return fmt.Errorf("-ports %d with -segments %d: each Ethernet port has a segment", l.ports, l.segments)
	}
	return nil
}

// A partition is a segment of the bridge's with its hosts, and the partition of InfiniBand with its nodes. The hosts of
// two have the same addresses, and so have the groups.
type partition struct {
	i        int
	layout   layout
	segment  *segment.Segment // its hosts' switch
	cable    *segment.Segment // which has the other end of the bridge's cable
	port     string           // the bridge's interface
	hosts    []*host          // nil: not there now
	services *services
}

// secondVLAN is the second segment's, where there is one port; secondPort is the second port.
const (
	secondVLAN = 100
	secondPort = "dut2"
)

// pkey is that of its messages on InfiniBand.
func (p *partition) pkey() ib.PKey {
	if p.layout.segments == 1 {
		return ib.PKeyDefault
	}
	return ib.PKey(0x8001 + p.i)
}

// vlan is its segment's; 0: untagged.
func (p *partition) vlan() uint16 {
	if p.i > 0 && p.layout.ports == 1 {
		return secondVLAN
	}
	return 0
}

// String names it.
func (p *partition) String() string {
	if p.isNone() {
		return "no partition"
	}
	return fmt.Sprintf("partition %v", p.pkey())
}

// of names it behind what is in it; "": it is the only one.
func (p *partition) of() string {
	if p.layout.segments == 1 {
		return ""
	}
	return fmt.Sprint(" of ", p)
}

// first is the number of the node that serves and echoes.
func (p *partition) first() int { return p.i * nodes }

func (p *partition) mgidOf(group netip.Addr) ib.GID { return ib.MGIDRDMACM(group, p.pkey(), 2) }

// newPartitions makes the switches. The bridge is in the namespace of the first. Where it has one port, both are behind
// its cable.
func (r *rig) newPartitions(ctx context.Context, l layout) error {
	for i := range l.segments {
		p := &partition{i: i, layout: l, port: segment.Port, services: newServices(l.fabrics, i*nodes)}
		r.partitions = append(r.partitions, p)
		var err error
		if p.segment, err = segment.New(); err != nil {
			return err
		}
		if err := snoop(p.segment); err != nil {
			return err
		}
		if p.cable = p.segment; i == 0 {
			r.segment = p.segment
			continue
		}
		if err := r.takePort(p.segment); err != nil {
			return err
		}
		if p.port = secondPort; l.ports == 1 {
			p.port, p.cable = segment.Port, r.segment
			return r.relay(ctx)
		}
	}
	return nil
}

// snoop has a switch forward groups to their members alone, which answer the bridge's queries. It has room for those of the floods, too:
// Linux ends snooping when there is none.
func snoop(s *segment.Segment) error {
	return s.Do(func() error {
		out, err := exec.Command("ip", strings.Fields("link set br0 type bridge mcast_snooping 1 mcast_hash_max 65536")...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("ip: %w: %s", err, out)
		}
		return nil
	})
}

// takePort moves the port of the second switch to the bridge's namespace.
func (r *rig) takePort(second *segment.Segment) error {
	return r.segment.Do(func() error {
		here, err := netns.Get()
		if err != nil {
			return err
		}
		defer here.Close()
		err = second.Do(func() error {
			l, err := netlink.LinkByName(segment.Port)
			if err != nil {
				return err
			}
			return errors.Join(netlink.LinkSetDown(l), netlink.LinkSetName(l, secondPort), netlink.LinkSetNsFd(l, int(here)))
		})
		if err != nil {
			return err
		}
		l, err := netlink.LinkByName(secondPort)
		if err != nil {
			return err
		}
		return netlink.LinkSetUp(l)
	})
}

// A memberPort is a node's, in one partition of those that the subnet has, and in the default one, in which the subnet's
// administrator answers. Queue pairs are in the first.
type memberPort struct {
	fabric.Port
	pkey ib.PKey
}

// Info implements fabric.Port.
func (p memberPort) Info() fabric.PortInfo {
	info := p.Port.Info()
	info.PKeys = []ib.PKey{p.pkey, ib.PKeyDefault}
	return info
}

// sharing are the partitions whose hosts are behind the port of one.
func (r *rig) sharing(p *partition) func(*flow) bool {
	return func(f *flow) bool { return f.in == nil || f.in.port == p.port }
}

// anyPartition draws one.
func (r *rig) anyPartition() *partition {
	if len(r.partitions) == 1 {
		return r.partitions[0]
	}
	return r.partitions[r.random.IntN(len(r.partitions))]
}
