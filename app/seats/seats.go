// SPDX-License-Identifier: Apache-2.0

// Package seats bounds the clients of a server, so that nobody who takes many places takes another's.
package seats

import (
	"net"
	"net/netip"
	"slices"
	"sync"
)

// Seats are places for clients, each of a peer: a user, or an address. When all are taken, the peer with the most seats
// gives its oldest to another.
type Seats struct {
	most   int
	yields bool

	mu    sync.Mutex
	taken []*Seat // the oldest first
}

// New returns so many seats. With yields a new client always gets one, if need be the oldest of a peer with as many;
// without, only from a peer that still has as many as the new one afterwards.
func New(most int, yields bool) *Seats { return &Seats{most: most, yields: yields} }

// A Seat is one client's.
type Seat struct {
	of    *Seats
	peer  string
	leave func()
}

// Take gives a peer a seat, or reports that it has to wait. leave is called when the seat is given to another; the
// client must go then.
func (s *Seats) Take(peer string, leave func()) (*Seat, bool) {
	s.mu.Lock()
	var gone *Seat
	if len(s.taken) >= s.most {
		if gone = s.toGo(peer); gone == nil {
			s.mu.Unlock()
			return nil, false
		}
		s.remove(gone)
	}
	x := &Seat{s, peer, leave}
	s.taken = append(s.taken, x)
	s.mu.Unlock()
	if gone != nil {
		gone.leave()
	}
	return x, true
}

// toGo returns the oldest seat of the peer with the most; nil if it may keep it.
func (s *Seats) toGo(peer string) (oldest *Seat) {
	count := map[string]int{}
	for _, x := range s.taken {
		count[x.peer]++
	}
	for _, x := range s.taken {
		if oldest == nil || count[x.peer] > count[oldest.peer] {
			oldest = x
		}
	}
	if s.yields || count[oldest.peer] > count[peer]+1 {
		return oldest
	}
	return nil
}

// Leave frees the seat, unless another has it already.
func (x *Seat) Leave() {
	x.of.mu.Lock()
	defer x.of.mu.Unlock()
	x.of.remove(x)
}

func (s *Seats) remove(x *Seat) {
	if i := slices.Index(s.taken, x); i >= 0 {
		s.taken = slices.Delete(s.taken, i, i+1)
	}
}

// PeerOf returns what counts as one peer on a network: an IPv4 address, or the IPv6 addresses that one host can have.
func PeerOf(conn net.Conn) string {
	a, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil {
		return "unknown"
	}
	ip := a.Addr().Unmap()
	if ip.Is4() {
		return ip.String()
	}
	const subnet = 64
	p, _ := ip.Prefix(subnet) // of an IPv6 address it always exists
	return p.String()
}
