// SPDX-License-Identifier: Apache-2.0

// Package acm writes files for ibacm, a daemon on InfiniBand nodes that resolves addresses to GIDs and paths for
// programs. ibacm reads them once, when it starts.
//
//	ibacm_hosts.data   ADDRESS GID                 a RoCE host, and the GID of the bridge's port
//	ibacm_route.data   Channel Adapter GUID, ...   paths between the bridge's port and each node with a known LID
//	                   DLID : SL : MTU : RATE
//	ibacm_opts.cfg     NAME VALUE                  makes ibacm read the two
//	ibacm_addr.cfg     NAME DEVICE PORT PKEY       a node's own names, besides the addresses of its interfaces
//
// The forms are those of ibacm's own parser (rdma-core ibacm/prov/acmp/src/acmp.c, ibacm/src/acm.c); it reads lines in
// pieces of 120 bytes and ignores what it does not understand, so this package rejects longer lines.
package acm

import (
	"bufio"
	"fmt"
	"io"
	"net/netip"
	"path"
	"strings"

	"causeway/ibside/ib"
)

// Names of the files in ibacm's directory.
const (
	HostsFile     = "ibacm_hosts.data"
	RoutesFile    = "ibacm_route.data"
	OptionsFile   = "ibacm_opts.cfg"
	EndpointsFile = "ibacm_addr.cfg"
)

// maxLine is the longest line, without its end, that fits into ibacm's smallest fgets(3) buffer.
const maxLine = 118

// A Host is the address of a host on InfiniBand and its GID.
type Host struct {
	Addr netip.Addr
	GID  ib.GID
}

// A Port is a port of the subnet.
type Port struct {
	Name string // informational
	GUID ib.GUID
	LID  ib.LID
	SL   ib.SL // of the path to the bridge
}

// A Path has the properties of all paths to the bridge.
type Path struct {
	MTU  ib.MTU
	Rate ib.Rate
}

// An Endpoint is a name of a node.
type Endpoint struct {
	Name   string // not an address: ibacm reads addresses from the interfaces
	Device string // an RDMA device, such as mlx5_0
	Port   uint8  // from 1
	PKey   ib.PKey
}

// lines writes lines and keeps the first error.
type lines struct {
	w   *bufio.Writer
	err error
}

func (l *lines) add(format string, args ...any) {
	s := fmt.Sprintf(format, args...)
	if l.err == nil && (len(s) > maxLine || strings.ContainsAny(s, "\r\n\x00")) {
		l.err = fmt.Errorf("acm: %q does not fit into one of ibacm's lines", s)
	}
	fmt.Fprintln(l.w, s)
}

// comment writes comment lines.
func (l *lines) comment(text string) {
	for line := range strings.Lines(text) {
		l.add("# %s", strings.TrimSuffix(line, "\n"))
	}
}

// write calls fill and returns the first error.
func write(w io.Writer, fill func(*lines)) error {
	l := &lines{w: bufio.NewWriter(w)}
	fill(l)
	if err := l.w.Flush(); err != nil {
		return err
	}
	return l.err
}

// WriteHosts writes ibacm_hosts.data.
func WriteHosts(w io.Writer, hosts []Host) error {
	return write(w, func(l *lines) {
		l.comment("RoCE hosts, each with the GID of the bridge. Written by causeway acm.")
		for _, h := range hosts {
			if !h.Addr.IsValid() || h.Addr.Zone() != "" || h.Addr.Is4In6() {
				l.err = fmt.Errorf("acm: %v is not an address that ibacm knows", h.Addr)
			}
			l.add("%s %s", h.Addr, netip.AddrFrom16(h.GID))
		}
	})
}

// WriteRoutes writes ibacm_route.data, in the form opensm_full_v1: each node's port with its path to the bridge, and
// the bridge's port with the paths back. ibacm stores one GUID for each LID.
func WriteRoutes(w io.Writer, bridge Port, nodes []Port, p Path) error {
	return write(w, func(l *lines) {
		l.comment("Paths between nodes and the bridge: DLID : SL : MTU : RATE, as IBTA encodes them. Written by causeway acm.")
		seen := map[ib.LID]bool{bridge.LID: true}
		for _, n := range nodes {
			if seen[n.LID] {
				l.err = fmt.Errorf("acm: LID %d belongs to two ports", n.LID)
			}
			seen[n.LID] = true
			l.port(n)
			l.add("%d : %d : %d : %d", bridge.LID, n.SL, p.MTU, p.Rate)
		}
		l.port(bridge)
		for _, n := range nodes {
			l.add("%d : %d : %d : %d", n.LID, n.SL, p.MTU, p.Rate)
		}
	})
}

// port writes the header of a port's paths. ibacm splits it at commas.
func (l *lines) port(p Port) {
	if p.LID == 0 || p.LID.IsMulticast() {
		l.err = fmt.Errorf("acm: %d is not the LID of a port", p.LID)
	}
	const most = 40
	name := strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' || r == ',' {
			return '-'
		}
		return r
	}, p.Name)
	l.add("Channel Adapter %v, base LID %d, LMC 0, %s", p.GUID, p.LID, name[:min(len(name), most)])
}

// WriteOptions writes ibacm_opts.cfg for files in a directory of the nodes; routes says whether the file of paths is
// one of them. ibacm has defaults for other options. Entries do not time out, because nothing on the subnet could renew
// them.
func WriteOptions(w io.Writer, folder string, routes bool) error {
	return write(w, func(l *lines) {
		l.comment("ibacm's options on nodes that reach RoCE hosts. Written by causeway acm. Merge it with your own.\nibacm reads it when it starts: systemctl restart ibacm")
		if strings.ContainsAny(folder, " \t") {
			l.err = fmt.Errorf("acm: ibacm does not know folders with blanks in their names, such as %q", folder)
		}
		l.add("addr_prot acm")
		l.add("addr_timeout -1")
		l.add("addr_preload acm_hosts")
		l.add("addr_data_file %s", path.Join(folder, HostsFile))
		l.add("route_prot sa")
		l.add("route_timeout -1")
		if routes {
			l.add("route_preload opensm_full_v1")
			l.add("route_data_file %s", path.Join(folder, RoutesFile))
		}
	})
}

// WriteEndpoints writes ibacm_addr.cfg. Each node needs its own file: a line applies to every node that has such a
// device.
func WriteEndpoints(w io.Writer, endpoints []Endpoint) error {
	return write(w, func(l *lines) {
		l.comment("Names of this node, besides its interfaces' addresses. Written by causeway acm.")
		for _, e := range endpoints {
			if _, err := netip.ParseAddr(e.Name); err == nil || strings.ContainsAny(e.Name, " \t") || e.Name == "" || len(e.Name) > 46 {
				l.err = fmt.Errorf("acm: %q is not a name: ibacm wants one word of at most 46 bytes that is not an address", e.Name)
			}
			pkey := "default"
			if e.PKey != ib.PKeyDefault {
				pkey = fmt.Sprintf("0x%04x", uint16(e.PKey))
			}
			l.add("%s %s %d %s", e.Name, e.Device, e.Port, pkey)
		}
	})
}
