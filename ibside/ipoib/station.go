// SPDX-License-Identifier: Apache-2.0

package ipoib

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
	kind      uint16 // of the interface: ARPHRD
	broadcast net.HardwareAddr
	pkey      ib.PKey
	in, out   *os.File // packet sockets: ARP packets; and frames to be sent
	ended     sync.WaitGroup
	failed    atomic.Bool
	moved     chan struct{}
	requests  chan arp
	asked     addresses
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
	requestMost = 1024             // requests a second
	hereTime    = time.Second      // for Here
)

// newStation opens the sockets.
func newStation(r *Responder, i net.Interface) (s *station, err error) {
	s = &station{responder: r, link: i, pkey: pkeyOf(i.Name), moved: make(chan struct{}, 1), requests: make(chan arp, 64), asked: addresses{}}
	if s.kind, s.broadcast, err = linkOf(&i); err != nil {
		return nil, err
	}
	s.in, err = packetSocket(unix.SOCK_DGRAM, unix.ETH_P_ARP, i.Index)
	if err == nil {
		s.out, err = packetSocket(unix.SOCK_RAW, 0, i.Index)
	}
	if err != nil {
		if s.in != nil {
			err = errors.Join(err, s.in.Close())
		}
		return nil, fmt.Errorf("ipoib: packet socket on %s: %w; the bridge needs CAP_NET_RAW", i.Name, err)
	}
	return s, nil
}

// linkOf returns what kind of interface one is (ARPHRD), and its broadcast address, which on IPoIB has the partition and the
// scope.
func linkOf(i *net.Interface) (kind uint16, broadcast net.HardwareAddr, err error) {
	if len(i.HardwareAddr) != addressLen {
		return unix.ARPHRD_ETHER, slices.Repeat(net.HardwareAddr{0xff}, len(i.HardwareAddr)), nil
	}
	text, err := os.ReadFile(filepath.Join("/sys/class/net", i.Name, "broadcast"))
	if err == nil {
		broadcast, err = net.ParseMAC(strings.TrimSpace(string(text)))
	}
	if err != nil {
		return 0, nil, fmt.Errorf("ipoib: the broadcast address of %s: %w", i.Name, err)
	}
	return unix.ARPHRD_INFINIBAND, broadcast, nil
}

func packetSocket(kind int, protocol uint16, index int) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_PACKET, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: protocol<<8 | protocol>>8, Ifindex: index}); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), "ARP"), nil
}

// serves reports whether the station is that of an interface, as it is now: IPoIB's address has a queue pair's number, which is
// another one when the interface is up again.
func (s *station) serves(i net.Interface) bool {
	return i.Index == s.link.Index && slices.Equal(i.HardwareAddr, s.link.HardwareAddr) && !s.failed.Load()
}

// close ends the station.
func (s *station) close() {
	_ = s.in.Close() // and with it read
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
	s.ended.Go(s.read)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case a, open := <-s.requests:
			if !open {
				return
			}
			s.request(ctx, &a)
		case <-s.moved:
			s.announce(ctx)
		case <-tick.C:
			s.announce(ctx)
		}
	}
}

// read passes requests on, until the socket is closed or fails. Of a flood the rest is dropped: nodes ask again.
func (s *station) read() {
	defer close(s.requests)
	allowed := rate.NewLimiter(requestMost, requestMost)
	b := make([]byte, 256)
	for {
		n, err := s.in.Read(b)
		if err != nil {
			s.failed.Store(true)
			return
		}
		a, ok := parseARP(append([]byte(nil), b[:n]...), len(s.link.HardwareAddr))
		if !ok || a.op != arpRequest || a.spa == a.tpa || a.spa.IsUnspecified() || !allowed.Allow() {
			continue
		}
		select {
		case s.requests <- a:
		default:
		}
	}
}

// request answers one, if the host is here, and remembers it.
func (s *station) request(ctx context.Context, a *arp) {
	here := len(s.here(ctx, []netip.Addr{a.tpa})) > 0
	if x := s.asked[a.tpa]; x != nil || len(s.asked) < askedMost {
		s.asked[a.tpa] = &asked{last: time.Now(), here: here}
	}
	switch {
	case !here:
		s.responder.cfg.Ask(s.pkey, a.tpa)
	case s.send(a.sha, &arp{op: arpReply, sha: s.link.HardwareAddr, spa: a.tpa, tha: a.sha, tpa: a.spa}):
		s.responder.answered.Add(1)
	}
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

// tell announces a host (RFC 5227 §2.3).
func (s *station) tell(ip netip.Addr) {
	none := make(net.HardwareAddr, len(s.link.HardwareAddr))
	if s.send(s.broadcast, &arp{op: arpRequest, sha: s.link.HardwareAddr, spa: ip, tha: none, tpa: ip}) {
		s.responder.announced.Add(1)
	}
}

func (s *station) send(to net.HardwareAddr, a *arp) bool {
	_, err := s.out.Write(a.appendTo(appendLink(nil, s.kind, to, s.link.HardwareAddr), s.kind))
	return err == nil
}
