// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"strings"

	"causeway/app/bridge"
	"causeway/config"
	"causeway/lcore/manage"
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
				if r.VLAN != s.VLAN || r.PKey != s.PKey {
					continue
				}
				for _, a := range r.Addresses {
					addresses = append(addresses, a.String())
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

// isAt reports whether a segment is one that an argument selects.
func isAt(s *manage.SegmentStatus, at config.Place) bool {
	return s.VLAN == at.VLAN && (at.Port == config.EthPort{} || s.Name == at.String())
}

// segmentsOf returns the numbers of the segments that the argument vlan selects: all without it.
func (c *Call) segmentsOf() (numbers []uint8) {
	at, given := value(c, "vlan", config.Place{}), c.has("vlan")
	all := c.Env.Bridge.Status().Segments
	for _, s := range all {
		if !given || isAt(&s, at) {
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
