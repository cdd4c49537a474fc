// SPDX-License-Identifier: Apache-2.0

package neighbours

import (
	"net/netip"
	"time"

	"causeway/lcore/manage/limit"
	"causeway/tables"
)

// Classes of learned hosts, by which goes first when there is no room for another.
const (
	strangers = iota
	confirmed
	classes
)

// looksMost bounds how many hosts are looked at to find one that makes room.
const looksMost = 256

func (s *standings) classOf(h tables.Host) int {
	if s.on && !h.Confirmed {
		return strangers
	}
	return confirmed
}

// oldest finds the host without proxy QPs that has not been heard for longest, strangers first. For data, a stranger
// loses its proxy QPs if there is no other; for ARP and ND, which take no more than an entry, only strangers go.
func (s *standings) oldest(urgent bool, now time.Time) (ip netip.Addr, found bool) {
	ip, found = s.order.Oldest(looksMost, func(ip netip.Addr) (int, limit.Verdict) {
		h, _, _ := s.tables.Find(ip)
		class := s.classOf(h)
		switch {
		case s.proxyQPs.Of(ip) > 0:
			return class, limit.Used
		case class == confirmed && !urgent:
			return class, limit.Young
		}
		return class, limit.Idle
	})
	if found || !urgent || !s.on {
		return ip, found
	}
	return s.proxyQPs.EvictStranger(now)
}
