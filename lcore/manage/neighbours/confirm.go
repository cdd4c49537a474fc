// SPDX-License-Identifier: Apache-2.0

package neighbours

import (
	"hash/maphash"
	"net/netip"
	"time"

	"causeway/lcore/frame"
	"causeway/lcore/manage/limit"
	"causeway/lcore/manage/local"
	"causeway/lcore/manage/neighbours/schedule"
)

// A host that is known from its frames alone is a stranger: anybody can write an address. It is confirmed when it has
// answered a request, which went to the MAC address that its frames come from. It is asked when it asks for an address
// of the bridge's, before it sends data, and when it wants a proxy QP.

const (
	// asksPerSecond bounds the requests to strangers that were heard before, and the same to others: so the latter, who
	// may be any number, do not use up the requests to the former. A request is as long as the frame that caused it.
	asksPerSecond = 512
	// askAgain is the time between two requests to a stranger, and answerTime that within which it must answer.
	askAgain   = 250 * time.Millisecond
	answerTime = 3 * time.Second
	// askedMost bounds the strangers whose answers are awaited.
	askedMost = 8192
	// seenMost is how many strangers are remembered that were heard once: a forged address comes once, a host sends again.
	seenMost = 8192
)

// A request is one whose answer is awaited.
type request struct {
	mac frame.MAC
	at  time.Time
}

// standings say which hosts are strangers, and ask these whether they are there.
type standings struct {
	on       bool // else none is
	tables   Tables
	hosts    *schedule.Hosts
	proxyQPs ProxyQPs
	local    *local.Addresses
	searcher *searcher

	order         *limit.LRU[netip.Addr] // learned hosts, by when they were heard
	known, others limit.Rate
	asked         map[netip.Addr]request
	seen          [seenMost]uint64 // hashes of those that were heard last, of an address and a MAC address
	seed          maphash.Seed
	confirmed     uint64
}

func newStandings(on bool, d *Deps, hosts *schedule.Hosts, s *searcher) *standings {
	return &standings{
		on: on, tables: d.Tables, hosts: hosts, proxyQPs: d.ProxyQPs, local: d.Local, searcher: s, order: limit.NewLRU[netip.Addr](classes),
		known: limit.NewRate(asksPerSecond), others: limit.NewRate(asksPerSecond), asked: map[netip.Addr]request{}, seed: maphash.MakeSeed(),
	}
}

// mayAsk reports whether a stranger is to be asked now.
func (s *standings) mayAsk(ip netip.Addr, mac frame.MAC, known bool, now time.Time) bool {
	rate := &s.others
	if known {
		rate = &s.known
	}
	last, again := s.asked[ip]
	if again && last.mac == mac && now.Sub(last.at) < askAgain || !again && len(s.asked) >= askedMost || !rate.Allows(now) {
		return false
	}
	rate.Take(now)
	return true
}

// heardBefore reports whether a stranger was heard before, and not too many others since.
func (s *standings) heardBefore(ip netip.Addr, mac frame.MAC) bool {
	if _, _, known := s.tables.Find(ip); known {
		return true
	}
	h := maphash.Comparable(s.seed, netip.AddrFrom16(ip.As16())) ^ maphash.Comparable(s.seed, mac)
	place := &s.seen[h%seenMost]
	before := *place == h
	*place = h
	return before
}

// hasAsked reports whether an answer from there has been awaited.
func (s *standings) hasAsked(ip netip.Addr, mac frame.MAC, now time.Time) bool {
	r, asked := s.asked[ip]
	return asked && r.mac == mac && now.Sub(r.at) < answerTime
}

func (s *standings) age(now time.Time) {
	for ip, r := range s.asked {
		if now.Sub(r.at) >= answerTime {
			delete(s.asked, ip)
		}
	}
}

// SetConfirm says whether hosts are strangers until they have answered.
func (s *standings) SetConfirm(confirm bool) { s.on = confirm }

// Standing reports whether a host has shown that it exists, or need not, and whether it can be asked to. One that has
// stopped answering is a stranger again.
func (s *standings) Standing(ip netip.Addr) (confirmed, onLink bool) {
	if !s.on {
		return true, true
	}
	h, _, _ := s.tables.Find(ip)
	x := s.hosts.Find(ip)
	return h.Static || h.Confirmed && !(x != nil && x.IsSilent()), s.local.OnLink(ip)
}

// isStranger reports whether a learned host could show that it exists, and has not.
func (s *standings) isStranger(ip netip.Addr) bool {
	is, onLink := s.Standing(ip)
	return !is && onLink
}

// Confirm asks a stranger whether it is there, at the MAC address that its frame has come from.
func (s *standings) Confirm(ip netip.Addr, mac frame.MAC, vlan uint16, now time.Time) {
	if confirmed, onLink := s.Standing(ip); !confirmed && onLink {
		s.ask(ip, mac, vlan, s.heardBefore(ip, mac), now)
	}
}

// ask asks a host at a MAC address, if there is room for its answer.
func (s *standings) ask(ip netip.Addr, mac frame.MAC, vlan uint16, known bool, now time.Time) {
	if !s.mayAsk(ip, mac, known, now) {
		return
	}
	if s.searcher.askAt(frame.Link{MAC: s.local.Link.MAC, VID: vlan}, mac, ip) {
		s.asked[ip] = request{mac, now}
	}
}

// isAt reports whether a host is known by this MAC address.
func (s *standings) isAt(ip netip.Addr, mac frame.MAC) bool {
	h, _, known := s.tables.Find(ip)
	return known && frame.MAC(h.MAC) == mac
}

// isAnswer reports whether what says that a host is at a MAC address answers a request: to a stranger, of a search, or
// a probe.
func (s *standings) isAnswer(ip netip.Addr, mac frame.MAC, now time.Time) bool {
	x := s.hosts.Find(ip)
	probed := x != nil && x.Asked > 0 && s.isAt(ip, mac)
	return probed || s.searcher.isSought(ip) || s.hasAsked(ip, mac, now)
}

// answered confirms a host.
func (s *standings) answered(ip netip.Addr, mac frame.MAC) {
	h, _, known := s.tables.Find(ip)
	if !known || h.Static || h.Confirmed || frame.MAC(h.MAC) != mac {
		return
	}
	h.Confirmed = true
	if _, err := s.tables.Put(h); err != nil { // it stays a stranger, and is asked again
		return
	}
	delete(s.asked, ip)
	s.confirmed++
	s.order.Put(ip, s.classOf(h))
}
