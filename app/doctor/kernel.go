// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"errors"
	"io/fs"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// A Kernel answers queries about the kernel's network configuration.
type Kernel interface {
	// Sysctl returns a setting by its path, such as "net/ipv4/ip_forward"; "" if there is none.
	Sysctl(path string) string
	// Link tells whether an interface is there, whether it is up, and its MTU.
	Link(name string) (Link, error)
	// Addresses returns an interface's.
	Addresses(name string) ([]netip.Prefix, error)
	// Proxied returns the proxy entries of an interface ("ip neigh show proxy").
	Proxied(name string) ([]netip.Addr, error)
	// Route returns where the kernel sends to an address.
	Route(to netip.Addr) (Route, error)
	// Forward returns where the kernel forwards a packet that an interface received.
	Forward(from, to netip.Addr, by string) (Route, error)
	// Stopped reports whether a rule ("ip rule") keeps from being forwarded what an interface received for a UDP port.
	Stopped(by string, port uint16, ipv6 bool) bool
}

// Link is an interface.
type Link struct {
	Up, Carrier bool
	MTU         int
}

// Route is what a look-up in the routing tables finds.
type Route struct {
	Dev     string
	Unicast bool // otherwise the address is local, broadcast or unreachable
}

// Live is the kernel of this machine, as the network namespace of the calling thread has it.
type Live struct {
	Proc fs.FS // what /proc/sys is
}

// Sysctl implements Kernel.
func (l Live) Sysctl(path string) string {
	b, err := fs.ReadFile(l.Proc, path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// Link implements Kernel.
func (l Live) Link(name string) (Link, error) {
	found, err := netlink.LinkByName(name)
	if err != nil {
		return Link{}, err
	}
	a := found.Attrs()
	return Link{Up: a.RawFlags&unix.IFF_UP != 0, Carrier: a.RawFlags&unix.IFF_LOWER_UP != 0, MTU: a.MTU}, nil
}

// Addresses implements Kernel.
func (l Live) Addresses(name string) ([]netip.Prefix, error) {
	found, err := netlink.LinkByName(name)
	if err != nil {
		return nil, err
	}
	list, err := netlink.AddrList(found, netlink.FAMILY_ALL)
	var out []netip.Prefix
	for _, a := range list {
		ip, _ := netip.AddrFromSlice(a.IP)
		bits, _ := a.Mask.Size()
		out = append(out, netip.PrefixFrom(ip.Unmap(), bits))
	}
	return out, err
}

// Proxied implements Kernel.
func (l Live) Proxied(name string) ([]netip.Addr, error) {
	found, err := netlink.LinkByName(name)
	if err != nil {
		return nil, err
	}
	list, err := netlink.NeighProxyList(found.Attrs().Index, netlink.FAMILY_ALL)
	var out []netip.Addr
	for _, n := range list {
		if ip, ok := netip.AddrFromSlice(n.IP); ok && n.LinkIndex == found.Attrs().Index {
			out = append(out, ip.Unmap())
		}
	}
	return out, err
}

// Route implements Kernel.
func (l Live) Route(to netip.Addr) (Route, error) { return lookUp(to, nil) }

// Forward implements Kernel.
func (l Live) Forward(from, to netip.Addr, by string) (Route, error) {
	return lookUp(to, &netlink.RouteGetOptions{Iif: by, SrcAddr: net.IP(from.AsSlice())})
}

// Stopped implements Kernel. The library does not tell what a rule does; one that looks up no table ends the search, as
// blackhole does.
func (l Live) Stopped(by string, port uint16, ipv6 bool) bool {
	family := netlink.FAMILY_V4
	if ipv6 {
		family = netlink.FAMILY_V6
	}
	rules, err := netlink.RuleList(family)
	return err == nil && slices.ContainsFunc(rules, func(r netlink.Rule) bool {
		return r.Table == unix.RT_TABLE_UNSPEC && r.IifName == by && r.IPProto == unix.IPPROTO_UDP &&
			r.Dport != nil && r.Dport.Start <= port && port <= r.Dport.End
	})
}

func lookUp(to netip.Addr, options *netlink.RouteGetOptions) (Route, error) {
	list, err := netlink.RouteGetWithOptions(net.IP(to.AsSlice()), options)
	if err != nil {
		return Route{}, err
	}
	if len(list) == 0 {
		return Route{}, errors.New("no route")
	}
	r := Route{Unicast: list[0].Type == unix.RTN_UNICAST}
	if out, err := netlink.LinkByIndex(list[0].LinkIndex); err == nil {
		r.Dev = out.Attrs().Name
	}
	return r, nil
}
