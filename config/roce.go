// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"causeway/ibside/ib"
)

// minMTU is the least netdev MTU that carries the least IB MTU: 256 bytes and the 80 that the kernel reserves for
// headers (Linux drivers/infiniband/sw/rxe, RXE_MAX_HDR_LENGTH).
const minMTU = 256 + 80

func (p *parser) bridge(t *table) {
	p.cfg.Name = t.text("name")
	if p.cfg.Name == "" || printable(p.cfg.Name) != p.cfg.Name {
		t.fail("name", "name %s is not a name; use letters, digits and dashes, such as %s", show(p.cfg.Name),
			findKey("bridge", "name").example)
	}
	const mostName = 64 // what other bridges are told
	if len(p.cfg.Name) > mostName {
		t.fail("name", "name %s is longer than %d bytes; write a shorter one", show(p.cfg.Name), mostName)
	}
	p.cfg.Beside = t.texts("beside")
	for i, name := range p.cfg.Beside {
		switch {
		case name == "" || printable(name) != name:
			t.failAt("beside", i, "beside has %s, which is no name; write the other's [bridge] name or [fleet] name", show(name))
		case name == p.cfg.Name:
			t.failAt("beside", i, "beside has %s, which is this bridge; write the other's [bridge] name", show(name))
		}
	}
}

// roce reads a segment of the Ethernet side.
func (p *parser) roce(t *table) (r RoCE) {
	r.Port = readEthPort(t)
	r.Addresses = readOwnAddresses(t)
	r.MTU = int(t.number("mtu"))
	r.IBMTU = ib.MTUForNetdev(r.MTU)
	versions := t.texts("versions")
	r.V1, r.V2 = slices.Contains(versions, "v1"), slices.Contains(versions, "v2")
	if t.isEmptyList("versions") {
		t.fail("versions", `versions is empty; write versions = ["v2"]`)
	}
	r.VLAN = uint16(t.number("vlan"))
	if t.has("pkey") {
		r.PKey = t.pkey("pkey")
	}
	r.TTL = uint8(t.number("ttl"))
	r.Querier = t.truth("querier")
	r.Allow = t.prefixes("allow", "10.9.0.0/24")
	if own, remote, shares := strings.Cut(r.Port.Arg, tapRemote); shares && own == remote {
		t.fail("port", "port %q would be the interface that it shares; give the tap a name of its own, such as \"tap:dtap0,remote=%s\"",
			r.Port, remote)
	}
	return r
}

// The forms of a driver's argument.
var (
	pciAddress = regexp.MustCompile(`^[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]$`)
	// An interface name is at most 15 bytes without '/', ':' or blanks (Linux IFNAMSIZ, dev_valid_name).
	netInterface = regexp.MustCompile(`^[^\s/:,=]{1,15}$`)
	sharingTap   = regexp.MustCompile(`^[^\s/:,=]{1,15},remote=[^\s/:,=]{1,15}$`)
	memif        = regexp.MustCompile(`^/[^,\s]+(,(role=(server|client)|id=[0-9]+|mac=[0-9a-fA-F:]{17}))*$`)
	files        = regexp.MustCompile(`^[^,]+(,[^,]+)?$`)
)

var ethDrivers = []struct {
	name    string
	forms   []*regexp.Regexp
	example string
}{
	{"mlx5", []*regexp.Regexp{pciAddress}, "mlx5:0000:3b:00.0"},
	{"af_packet", []*regexp.Regexp{netInterface}, "af_packet:eth1"},
	{"tap", []*regexp.Regexp{netInterface, sharingTap}, "tap:dtap0,remote=eth1"},
	{"memif", []*regexp.Regexp{memif}, "memif:/run/memif.sock,role=client,id=0"},
	{"pcap", []*regexp.Regexp{files}, "pcap:in.pcap,out.pcap"},
	{"ring", nil, "ring"},
	{"null", nil, "null"},
}

// readEthPort reads roce.port.
func readEthPort(t *table) EthPort {
	s, ok := t.given("port")
	if s == "" {
		if ok {
			t.fail("port", `port is empty; write port = "af_packet:eth1"`)
		}
		return EthPort{}
	}
	driver, arg, _ := strings.Cut(s, ":")
	if driver == bondDriver {
		return readBond(t, s, arg)
	}
	var names []string
	for _, d := range ethDrivers {
		names = append(names, d.name)
		if d.name != driver {
			continue
		}
		fits := func(form *regexp.Regexp) bool { return form.MatchString(arg) }
		if d.forms == nil && s == driver || slices.ContainsFunc(d.forms, fits) {
			return EthPort{driver, arg}
		}
		t.fail("port", "port %s does not say what the driver %s needs; write it like %q", show(s), driver, d.example)
		return EthPort{}
	}
	names = append(names, bondDriver)
	if !strings.Contains(s, ":") && netInterface.MatchString(s) {
		t.fail("port", `port %q names no driver; write "af_packet:%s" for a network interface`, s, s)
	} else {
		t.fail("port", "port %s: the driver %s is not known; use %s", show(s), show(driver), enumerate(names, "or"))
	}
	return EthPort{}
}

// readOwnAddresses reads roce.addresses.
func readOwnAddresses(t *table) []netip.Prefix {
	if t.isEmptyList("addresses") {
		t.fail("addresses", `addresses is empty; write addresses = ["10.9.0.254/24"]`)
	}
	var out []netip.Prefix
	for i, s := range t.elements("addresses") {
		n, err := netip.ParsePrefix(s)
		switch {
		case err != nil:
			t.failAt("addresses", i, "address %s is not an address with a prefix length; write one like \"10.9.0.254/24\"", show(s))
		case !isHostAddr(n.Addr()):
			t.failAt("addresses", i, "address %s is not one that a host can have", s)
		case isNetOrBroadcast(n):
			t.failAt("addresses", i, "address %s is the subnet's own or its broadcast address; write the bridge's, like \"%s/%d\"",
				s, n.Masked().Addr().Next(), n.Bits())
		case slices.ContainsFunc(out, func(o netip.Prefix) bool { return o.Addr() == n.Addr() }):
			t.failAt("addresses", i, "address %s is there twice; remove one", n.Addr())
		default:
			out = append(out, n)
		}
	}
	return out
}

// isHostAddr reports whether a can be a host's address: unicast, not loopback, and not IPv4-mapped.
func isHostAddr(a netip.Addr) bool {
	return a.IsValid() && a.Zone() == "" && !a.Is4In6() && !a.IsUnspecified() && !a.IsMulticast() && !a.IsLoopback() &&
		a != netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

// isNetOrBroadcast reports whether n's address is the first of its subnet or, with IPv4, the last: neither is a host's,
// except in subnets of one or two addresses (RFC 3021).
func isNetOrBroadcast(n netip.Prefix) bool {
	a := n.Addr()
	if n.Bits() >= a.BitLen()-1 {
		return false
	}
	if a == n.Masked().Addr() {
		return true
	}
	return a.Is4() && !n.Contains(a.Next())
}
