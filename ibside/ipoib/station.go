// SPDX-License-Identifier: Apache-2.0

package ipoib

import (
	"context"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"

	"causeway/ibside/ib"
)

// A station is a Responder on one interface.
type station struct {
	responder *Responder
	link      net.Interface
	pkey      ib.PKey
	*sockets
	ended     sync.WaitGroup
	failed    atomic.Bool
	moved     chan struct{}
	questions chan question
	asked     addresses
	unheard   string // why not all solicitations are heard
}

// A question is a node's, where a host is.
type question struct {
	of, by netip.Addr
	from   net.HardwareAddr // the node's
}

// addresses are what nodes have asked for.
type addresses map[netip.Addr]*asked

// asked is an address that nodes have asked for.
type asked struct {
	last  time.Time // when one did
	here  bool
	again bool // it is announced once more, as announcements get lost
}

const (
	askedMost   = 4096             // addresses that are remembered
	askedFor    = 20 * time.Minute // so long
	requestMost = 1024             // requests a second, of ARP and of ND
	hereTime    = time.Second      // for Here and Searched
)

func newStation(r *Responder, i net.Interface) (*station, error) {
	sockets, err := openSockets(&i)
	if err != nil {
		return nil, err
	}
	return &station{
		responder: r, link: i, pkey: pkeyOf(i.Name), sockets: sockets, moved: make(chan struct{}, 1), questions: make(chan question, 64), asked: addresses{},
	}, nil
}

// serves reports whether the station is that of an interface, as it is now: IPoIB's address has a queue pair's number, which is
// another one when the interface is up again.
func (s *station) serves(i net.Interface) bool {
	return i.Index == s.link.Index && slices.Equal(i.HardwareAddr, s.link.HardwareAddr) && !s.failed.Load()
}

// close ends the station.
func (s *station) close() {
	s.closeInputs() // and with them read
	s.ended.Wait()
	_ = s.out.Close()
}

// begin takes what nodes have asked for at the same interface before, and announces it at once: that may have another address
// now.
func (s *station) begin(before addresses) {
	for ip, x := range before {
		x.here = false
		s.asked[ip] = x
	}
	s.moved <- struct{}{}
}

// run answers and announces until the station is closed.
func (s *station) run(ctx context.Context) {
	s.ended.Go(s.readAll)
	s.hear(ctx)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case q, open := <-s.questions:
			if !open {
				return
			}
			s.answer(ctx, &q)
		case <-s.moved:
			s.announce(ctx)
		case <-tick.C:
			s.hear(ctx)
			s.announce(ctx)
		}
	}
}

// readAll passes questions on, until the sockets are closed or fail.
func (s *station) readAll() {
	defer close(s.questions)
	var all sync.WaitGroup
	all.Go(func() { s.read(s.arp, parseRequest) })
	all.Go(func() { s.read(s.nd, parseSolicitation) })
	all.Wait()
}

// read passes on those of one socket. Of a flood the rest is dropped: nodes ask again.
func (s *station) read(from *os.File, parse func([]byte, int) (question, bool)) {
	allowed := rate.NewLimiter(requestMost, requestMost)
	b := make([]byte, 2048)
	for {
		n, err := from.Read(b)
		if err != nil {
			s.failed.Store(true)
			return
		}
		q, ok := parse(append([]byte(nil), b[:n]...), len(s.link.HardwareAddr))
		if !ok || q.of == q.by || q.by.IsUnspecified() || !allowed.Allow() {
			continue
		}
		select {
		case s.questions <- q:
		default:
		}
	}
}

// answer answers a question, if the host is here, and remembers it.
func (s *station) answer(ctx context.Context, q *question) {
	here := len(s.here(ctx, []netip.Addr{q.of})) > 0
	if x := s.asked[q.of]; x != nil || len(s.asked) < askedMost {
		s.asked[q.of] = &asked{last: time.Now(), here: here}
	}
	switch {
	case !here:
		s.responder.cfg.Ask(s.pkey, q.of)
	case s.reply(q):
		s.responder.answered.Add(1)
	}
}

func (s *station) reply(q *question) bool {
	own := s.link.HardwareAddr
	if q.of.Is4() {
		return s.sendARP(q.from, &arp{op: arpReply, sha: own, spa: q.of, tha: q.from, tpa: q.by})
	}
	return s.send(unix.ETH_P_IPV6, q.from, appendAdvertisement(nil, q.of, q.by, own))
}

// hear has the interface be in the groups to which nodes send solicitations for RoCE hosts: of all hosts, because who gets
// one's share answers at once, and announces what nodes have asked others for.
func (s *station) hear(ctx context.Context) {
	ctx, end := context.WithTimeout(ctx, hereTime)
	defer end()
	hosts, err := s.responder.cfg.Searched(ctx, s.pkey)
	if err != nil {
		return // and stays in those that it is in
	}
	groups := map[netip.Addr]bool{}
	for _, ip := range hosts {
		groups[solicitedNode(ip)] = true
	}
	why := ""
	if err := s.join(groups); err != nil {
		why = err.Error()
	}
	if why != "" && s.unheard != why {
		s.responder.cfg.Log.Warn("ipoib_unanswered", "interface", s.link.Name, "error", why, "note", "nodes do not find all RoCE hosts by IPv6 there")
	}
	s.unheard = why
}

func (s *station) here(ctx context.Context, ips []netip.Addr) []netip.Addr {
	ctx, end := context.WithTimeout(ctx, hereTime)
	defer end()
	return s.responder.cfg.Here(ctx, s.pkey, ips)
}

// announce says to all nodes of the hosts that have come here since they were asked for that they are here, twice.
func (s *station) announce(ctx context.Context) {
	maps.DeleteFunc(s.asked, func(_ netip.Addr, x *asked) bool { return time.Since(x.last) > askedFor })
	if len(s.asked) == 0 {
		return
	}
	here := map[netip.Addr]bool{}
	for _, ip := range s.here(ctx, slices.Collect(maps.Keys(s.asked))) {
		here[ip] = true
	}
	for ip, x := range s.asked {
		came := here[ip] && !x.here
		if came || here[ip] && x.again {
			s.tell(ip)
		}
		x.here, x.again = here[ip], came
	}
}

// tell announces a host (RFC 5227 §2.3, RFC 4861 §7.2.6).
func (s *station) tell(ip netip.Addr) {
	own := s.link.HardwareAddr
	sent := false
	if ip.Is4() {
		sent = s.sendARP(s.broadcast, &arp{op: arpRequest, sha: own, spa: ip, tha: make(net.HardwareAddr, len(own)), tpa: ip})
	} else {
		sent = s.send(unix.ETH_P_IPV6, groupLink(allNodes, s.broadcast), appendAdvertisement(nil, ip, allNodes, own))
	}
	if sent {
		s.responder.announced.Add(1)
	}
}

func (s *station) sendARP(to net.HardwareAddr, a *arp) bool {
	return s.send(unix.ETH_P_ARP, to, a.appendTo(nil, s.kind))
}

func (s *station) send(protocol uint16, to net.HardwareAddr, packet []byte) bool {
	_, err := s.out.Write(append(appendLink(nil, s.kind, protocol, to, s.link.HardwareAddr), packet...))
	return err == nil
}
