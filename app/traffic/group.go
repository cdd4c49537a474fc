// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"fmt"
	"io"
	"net"
	"net/netip"

	"causeway/config"
	"causeway/ibside/ib"
)

// A Group is a multicast group: an IP address, or an MGID, which only InfiniBand has.
type Group struct {
	Addr  netip.Addr
	Form  string // of the MGID: see [[group]] mgid in the configuration; "": rdmacm, or port if Port is set
	Scope uint8
	Port  uint16  // in the MGID
	QKey  ib.QKey // 0: what the form's applications use
}

// mgid returns the group's MGID and Q_Key on InfiniBand.
func (g Group) mgid(pkey ib.PKey) (ib.GID, ib.QKey, error) {
	form := g.Form
	switch {
	case form == "" && g.Port != 0:
		form = "port"
	case form == "":
		form = "rdmacm"
	}
	scope := g.Scope
	if scope == 0 {
		scope = ib.ScopeLinkLocal
	}
	var mgid ib.GID
	if a := ib.GIDFromAddr(g.Addr); g.Form == "" && g.Port == 0 && isMGID(a) {
		mgid = a
	} else {
		var err error
		if mgid, err = config.MGID(form, g.Addr, pkey, scope, g.Port); err != nil {
			return mgid, 0, fmt.Errorf("group %v: %w", g.Addr, err)
		}
	}
	return mgid, g.qkey(mgid), nil
}

// isMGID reports whether an IPv6 group address is an MGID of InfiniBand's own: one with the signature of IPoIB, of
// rdma_cm, or of the forms with a port.
func isMGID(g ib.GID) bool {
	signature := uint16(g[2])<<8 | uint16(g[3])
	switch signature {
	case 0x401b, 0x601b, 0x4001, 0x6001, 0xa01b:
		return g.IsIBMulticast() && g[1]&0xf0 == 0x10
	}
	return false
}

// qkey returns the group's Q_Key: IPoIB's groups have one of their own.
func (g Group) qkey(mgid ib.GID) ib.QKey {
	switch {
	case g.QKey != 0:
		return g.QKey
	case g.Form == "ipoib" || mgid[2]&0xdf == 0x40 && mgid[3] == 0x1b:
		return ib.QKeyIPoIB
	}
	return ib.QKeyRDMAUDP
}

// checkEthernet returns an error for what an Ethernet group cannot have.
func (g Group) checkEthernet(on string) error {
	switch {
	case g.Form != "" || g.Port != 0:
		return fmt.Errorf("%s: group %v: -mgid, -scope and -port are for InfiniBand; on RoCE a group is its address alone: leave them out", on, g.Addr)
	case isMGID(ib.GIDFromAddr(g.Addr)):
		return fmt.Errorf("%s: group %v is an MGID of InfiniBand's own; on RoCE use the group's IP address", on, g.Addr)
	}
	return nil
}

// joinEthernet makes the kernel join a group on an interface: the kernel sends the switches IGMP or MLD and answers
// their queries. Closing the result leaves the group.
func joinEthernet(on string, link *net.Interface, group netip.Addr) (io.Closer, error) {
	at := &net.UDPAddr{IP: group.AsSlice()} // any port: the datagrams are not read
	if group.Is6() {
		at.Zone = link.Name
	}
	c, err := net.ListenMulticastUDP("udp", link, at)
	if err != nil {
		return nil, fmt.Errorf("%s: the kernel does not join %v on interface %s: %w", on, group, link.Name, err)
	}
	return c, nil
}
