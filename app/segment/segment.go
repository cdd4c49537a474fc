// SPDX-License-Identifier: Apache-2.0

// Package segment makes an Ethernet segment out of network namespaces, with RoCE hosts on it:
//
//	namespace of a host: eth0 ─┐
//	namespace of a host: eth0 ─┴─ bridge br0 ─ veth ─ Port, all in one more namespace
//
// The hosts' ARP, ND, IGMP and UDP are the kernel's; their RoCE packets are made by package roce and sent over UDP
// sockets. The namespaces have no names, so they disappear with the process, however it ends.
package segment

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

const (
	MTU  = 4200   // carries InfiniBand's 4096
	Port = "dut0" // the interface for a bridge to open
	Far  = "dut1" // its other end, at the switch
)

// A Segment is a switch with a port for a bridge.
type Segment struct{ wires netns.NsHandle }

// New makes a segment without hosts. The switch floods multicast, because there is no querier.
func New() (*Segment, error) {
	wires, err := NewNamespace()
	if err != nil {
		return nil, fmt.Errorf("make a network namespace: %w; is the process allowed to?", err)
	}
	s := &Segment{wires}
	err = s.Do(func() error {
		// The switch needs no IPv6 addresses. (/proc/sys/net is that of the thread's namespace.) In containers, where
		// the file cannot be written, it has some, which do no harm.
		_ = os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1"), 0)
		snooping := false
		br := &netlink.Bridge{LinkAttrs: attrs("br0"), MulticastSnooping: &snooping}
		if err := errors.Join(netlink.LinkAdd(br), netlink.LinkSetUp(br)); err != nil {
			return fmt.Errorf("make a bridge: %w", err)
		}
		return errors.Join(plug(br, Port, Far), awaitUp(Port), awaitUp(Far))
	})
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Do runs f in the namespace of the switch and of Port.
func (s *Segment) Do(f func() error) error { return In(s.wires, f) }

// Close ends the switch when nobody uses its namespace any more.
func (s *Segment) Close() error { return s.wires.Close() }

func attrs(name string) netlink.LinkAttrs {
	a := netlink.NewLinkAttrs()
	a.Name, a.MTU = name, MTU
	return a
}

// plug makes a veth pair and connects its far end to the switch.
func plug(br netlink.Link, near, far string) error {
	a := attrs(near)
	v := &netlink.Veth{LinkAttrs: a, PeerName: far, PeerMTU: MTU}
	if err := netlink.LinkAdd(v); err != nil {
		return fmt.Errorf("make a veth pair: %w", err)
	}
	peer, err := netlink.LinkByName(far)
	if err != nil {
		return err
	}
	return errors.Join(netlink.LinkSetMaster(peer, br), netlink.LinkSetUp(peer), netlink.LinkSetUp(v))
}

// AddPort makes one more interface for a bridge to open, in the namespace ns and without addresses. The name is its own.
func (s *Segment) AddPort(ns netns.NsHandle, name string) error {
	return s.plugInto(ns, name, func(l netlink.Link) error {
		_ = os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/disable_ipv6", []byte("1"), 0) // as in New
		return errors.Join(netlink.LinkSetUp(l), awaitUp(name))
	})
}

// awaitUp returns when the kernel has seen the carrier of a veth's end, which it does some time after the two are up.
// Until then the end sends nothing, and the switch forwards nothing from it or to it: neither counts what it drops.
func awaitUp(name string) error {
	const longest = 10 * time.Second
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		l, err := netlink.LinkByName(name)
		if err != nil || l.Attrs().OperState == netlink.OperUp {
			return err
		}
		if time.Since(began) > longest {
			return fmt.Errorf("%s has no carrier after %v (it is %v)", name, longest, l.Attrs().OperState)
		}
	}
}

// Connect makes the interface eth0 of the namespace ns, for programs that are no RoCE hosts, and brings up its loopback.
func (s *Segment) Connect(ns netns.NsHandle, name string, ip4, ip6 netip.Addr) error {
	if _, err := s.connect(ns, name, ip4, ip6); err != nil {
		return err
	}
	return In(ns, func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		return netlink.LinkSetUp(lo)
	})
}

// plugInto makes a veth pair between the switch and the namespace ns, where bringUp is given its end.
func (s *Segment) plugInto(ns netns.NsHandle, name string, bringUp func(netlink.Link) error) error {
	far := name + "p"
	err := s.Do(func() error {
		br, err := netlink.LinkByName("br0")
		if err != nil {
			return err
		}
		if err := plug(br, name, far); err != nil {
			return err
		}
		l, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		return netlink.LinkSetNsFd(l, int(ns))
	})
	if err != nil {
		return err
	}
	err = In(ns, func() error {
		l, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		return bringUp(l)
	})
	if err != nil {
		return err
	}
	return s.Do(func() error { return awaitUp(far) })
}

// connect makes the interface eth0 of the namespace ns, and returns its IPv6 address; the zero Addr without IPv6.
func (s *Segment) connect(ns netns.NsHandle, name string, ip4, ip6 netip.Addr) (netip.Addr, error) {
	err := s.plugInto(ns, name, func(l netlink.Link) error {
		if err := netlink.AddrAdd(l, address(ip6, 64)); disabled(err) {
			ip6 = netip.Addr{}
		} else if err != nil {
			return fmt.Errorf("give %s its IPv6 address: %w", name, err)
		}
		const eth0 = "eth0"
		return errors.Join(
			netlink.LinkSetName(l, eth0),
			netlink.AddrAdd(l, address(ip4, 24)),
			netlink.LinkSetUp(l),
			addRoute(l, "224.0.0.0/4"),
			awaitUp(eth0),
		)
	})
	return ip6, err
}

// disabled reports whether an error says that IPv6 is disabled, in the namespace (EACCES) or in the kernel.
func disabled(err error) bool {
	return errors.Is(err, unix.EACCES) || errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EOPNOTSUPP)
}

// address returns an address that is usable at once, without duplicate address detection.
func address(ip netip.Addr, bits int) *netlink.Addr {
	a, err := netlink.ParseAddr(netip.PrefixFrom(ip, bits).String())
	if err != nil {
		panic(err) // callers pass valid addresses
	}
	if ip.Is6() {
		a.Flags = noDAD
	}
	return a
}

const noDAD = 0x02 // IFA_F_NODAD, linux/if_addr.h

func addRoute(l netlink.Link, to string) error {
	dst, err := netlink.ParseIPNet(to)
	if err != nil {
		return err
	}
	return netlink.RouteAdd(&netlink.Route{LinkIndex: l.Attrs().Index, Dst: dst, Scope: netlink.SCOPE_LINK})
}
