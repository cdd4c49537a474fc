// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"strings"

	"causeway/app/bridge"
)

func runSegments(_ context.Context, c *Call) (Result, error) {
	part := Part{Name: "segments", Columns: columns("segment", "P_Key?", "addresses", "hosts", "limit", "QPs", "QP limit", "groups")}
	own := c.Env.config()
	for _, s := range c.Env.Bridge.Status().Segments {
		var pkey any
		if s.PKey != 0 {
			pkey = s.PKey
		}
		var addresses []string
		if own != nil {
			for _, r := range own.Segments() {
				for _, a := range r.Addresses {
					if r.VLAN == s.VLAN {
						addresses = append(addresses, a.String())
					}
				}
			}
		}
		part.Rows = append(part.Rows, []any{s.Name, pkey, strings.Join(addresses, " "), s.Hosts, s.HostsMax, s.ProxyQPs, s.MostQPs, s.Groups})
	}
	return table(part), nil
}

// segment names a segment where there are several; else it is nil.
func (c *Call) segment(number uint8) any {
	all := c.Env.Bridge.Status().Segments
	for _, s := range all {
		if s.Number == number && len(all) > 1 {
			return s.Name
		}
	}
	return nil
}

// segmentsOf returns the numbers of the segments that the argument vlan selects: all without it.
func (c *Call) segmentsOf() (numbers []uint8) {
	vlan, given := value(c, "vlan", uint64(0)), c.has("vlan")
	all := c.Env.Bridge.Status().Segments
	for _, s := range all {
		if !given || uint64(s.VLAN) == vlan {
			numbers = append(numbers, s.Number)
		}
	}
	if len(all) == 0 {
		return []uint8{0}
	}
	return numbers
}

// segmentsIn names the segments that have a group, where there are several.
func (c *Call) segmentsIn(bits uint8) any {
	if names := bridge.SegmentNames(c.Env.Bridge.Status().Segments, bits); names != "" {
		return names
	}
	return nil
}
