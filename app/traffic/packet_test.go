// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"causeway/ibside/ib"
	"causeway/lcore/frame"
)

// TestPacketUnicast has two hosts send to each other, in both versions.
func TestPacketUnicast(t *testing.T) {
	w := needWire(t)
	for _, version := range []int{1, 2} {
		both := []netip.Addr{netip.MustParseAddr("10.9.0.2"), netip.MustParseAddr("fd09::2")}
		right, toRight := openIn(t, w.right, Config{On: "packet:right", QPN: 0x222, IP: both, RoCE: version})
		left, toLeft := openIn(t, w.left, Config{On: "packet:left", RoCE: version, Name: "listen"})
		if x := left.Info(); len(x.IP) != 2 || x.IP[0] != "10.9.0.1" || x.IP[1] != "fd09::1" || x.MTU != 4096 || x.QPN < 2 {
			t.Errorf("%+v", x)
		}
		for _, c := range []struct {
			from    Endpoint
			to, src string
			qpn     ib.QPN
			at      *inbox
		}{
			{left, "10.9.0.2", "10.9.0.1", 0x222, toRight}, {left, "fd09::2", "fd09::1", 0x222, toRight},
			{right, "10.9.0.1", "10.9.0.2", left.Info().QPN, toLeft}, {right, "fd09::1", "fd09::2", left.Info().QPN, toLeft},
		} {
			to, err := c.from.Resolve(soon(t), netip.MustParseAddr(c.to), c.qpn)
			if err != nil {
				t.Fatal(err)
			}
			if err := to.Send([]byte("hello")); err != nil {
				t.Fatal(err)
			}
			m := c.at.await(t, 1)[0]
			if m.From.String() != c.src || m.To.String() != c.to || m.SrcQP != c.from.Info().QPN || string(m.Payload) != "hello" {
				t.Errorf("version %d, to %s: %+v", version, c.to, m)
			}
		}
		if err := right.Close(); err != nil {
			t.Error(err)
		}
		if err := left.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestPacketNeighbourMoves checks that a destination follows the kernel's neighbour table.
func TestPacketNeighbourMoves(t *testing.T) {
	w := needWire(t)
	right, _ := openIn(t, w.right, Config{On: "packet:right"})
	moved := frame.MAC{2, 0, 0, 0, 0, 0x77}
	for _, ip := range []string{"10.9.0.1", "fd09::1"} {
		to, err := right.Resolve(soon(t), netip.MustParseAddr(ip), 7)
		if err != nil {
			t.Fatal(err)
		}
		err = inside(w.right, func() error {
			return netlink.NeighSet(&netlink.Neigh{
				LinkIndex: right.(*packetEndpoint).nic.link.Index, IP: net.ParseIP(ip), HardwareAddr: moved[:], State: netlink.NUD_PERMANENT,
			})
		})
		if err != nil {
			t.Fatal(err)
		}
		next := to.(*packetDestination).next
		for deadline := time.Now().Add(time.Minute); next.mac() != moved; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s is still at %v", ip, next.mac())
			}
		}
	}
}

// TestPacketGroups has one host in two groups. It does not receive other groups' messages, or those with a wrong Q_Key.
func TestPacketGroups(t *testing.T) {
	w := needWire(t)
	right, toRight := openIn(t, w.right, Config{On: "packet:right"})
	left, _ := openIn(t, w.left, Config{On: "packet:left"})
	send := func(g Group) {
		t.Helper()
		to, err := left.Join(soon(t), g, false)
		if err != nil {
			t.Fatal(err)
		}
		if err := to.Send([]byte(g.Addr.String())); err != nil {
			t.Fatal(err)
		}
	}
	groups := []netip.Addr{netip.MustParseAddr("239.1.2.3"), netip.MustParseAddr("ff15::1:3"), netip.MustParseAddr("ff12::7")}
	for _, ip := range groups {
		joinIn(t, w.right, right, Group{Addr: ip})
	}
	send(Group{Addr: netip.MustParseAddr("239.129.2.3")}) // has the same MAC address as the other
	send(Group{Addr: groups[0], QKey: 5})
	for _, ip := range groups {
		send(Group{Addr: ip})
	}
	for i, m := range toRight.await(t, len(groups)) {
		if m.To != groups[i] || string(m.Payload) != m.To.String() {
			t.Errorf("%+v", m)
		}
	}
	if r := right.Rejected(); r["qkey"] != 1 || len(r) != 2 || r["no_buffer"] != 0 {
		t.Errorf("rejected %v", r)
	}
	for _, g := range []Group{{Addr: groups[0], Port: 7}, {Addr: netip.MustParseAddr("ff12:401b:ffff::f01:203")}} {
		if _, err := right.Join(soon(t), g, true); err == nil || !strings.Contains(err.Error(), "on RoCE") {
			t.Errorf("%+v: %v", g, err)
		}
	}
}

// TestPacketReports checks that a membership is reported to switches at once and when they query, and its end as well.
func TestPacketReports(t *testing.T) {
	w := needWire(t)
	var tap *socket
	if err := inside(w.left, func() (err error) { tap, err = openSocket("left"); return err }); err != nil {
		t.Fatal(err)
	}
	defer tap.Close()
	if err := tap.hears(true); err != nil {
		t.Fatal(err)
	}
	right, _ := openIn(t, w.right, Config{On: "packet:right"})
	host := frame.MAC(right.(*packetEndpoint).nic.link.HardwareAddr)
	link := frame.Link{MAC: frame.MAC(tap.link.HardwareAddr)}
	for _, c := range []struct {
		group string
		query []byte
	}{
		{"239.1.2.3", frame.AppendIGMPv3Query(nil, link, netip.MustParseAddr("10.9.0.1"), frame.Query{Group: netip.IPv4Unspecified(), MaxResp: 100 * time.Millisecond})},
		{"ff15::1:3", frame.AppendMLDv2Query(nil, link, link.MAC.LinkLocal(), frame.Query{Group: netip.IPv6Unspecified(), MaxResp: 100 * time.Millisecond})},
	} {
		group := netip.MustParseAddr(c.group)
		joinIn(t, w.right, right, Group{Addr: group})
		awaitReport(t, tap, host, group, frame.ToExclude)
		if _, err := tap.Write(c.query); err != nil {
			t.Fatal(err)
		}
		awaitReport(t, tap, host, group, frame.ModeIsExclude)
	}
	if err := right.Close(); err != nil {
		t.Error(err)
	}
	awaitReport(t, tap, host, netip.MustParseAddr("239.1.2.3"), frame.ToInclude)
}

// awaitReport waits for a host's report of a group.
func awaitReport(t *testing.T, tap *socket, host frame.MAC, group netip.Addr, kind frame.RecordType) {
	t.Helper()
	if err := tap.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 9000)
	for {
		n, err := tap.Read(b)
		if err != nil {
			t.Fatalf("no report %d of %v: %v", kind, group, err)
		}
		f, fault := frame.Open(b[:n])
		if fault != "" || f.Eth.Src() != host {
			continue
		}
		var p frame.Membership
		switch {
		case f.IPv4 != nil && f.Protocol() == frame.ProtoIGMP:
			p, fault = frame.ParseIGMP(f.IPv4, f.Payload)
		case f.IPv6 != nil:
			p, fault = frame.ParseMLD(f.IPv6, f.Payload)
		}
		for _, r := range p.Records {
			if fault == "" && r.Group == group && r.Type == kind {
				return
			}
		}
	}
}

// TestPacketErrors checks that an error is one line that says what to do.
func TestPacketErrors(t *testing.T) {
	w := needWire(t)
	for _, c := range []struct {
		on, ip, want string
	}{
		{"packet:nosuch", "", "packet:nosuch: "},
		{"packet:lo", "", "packet:lo: the interface is not Ethernet"},
		{"packet:bare", "", "packet:bare: the interface has no IP address; add one: ip addr add"},
		{"packet:right", "10.9.0.5", "packet:right: 10.9.0.5 is not an address of the interface; add it"},
		{"somewhere", "", "fabric:SOCKET"},
	} {
		config := Config{On: c.on}
		if c.ip != "" {
			config.IP = []netip.Addr{netip.MustParseAddr(c.ip)}
		}
		err := inside(w.right, func() error { _, err := open(config); return err })
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s, %s: %v", c.on, c.ip, err)
		}
	}
	right, _ := openIn(t, w.right, Config{On: "packet:right", IP: []netip.Addr{netip.MustParseAddr("10.9.0.2")}})
	for to, want := range map[string]string{
		"10.9.0.77": "nobody answers ARP for 10.9.0.77", "fd09::1": "no IPv6 address", "10.99.0.1": "the kernel has no route to 10.99.0.1",
	} {
		if _, err := right.Resolve(soon(t), netip.MustParseAddr(to), 7); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", to, err)
		}
	}
}

// TestSocketHears: what a switch floods is read by no host but one that has joined a group, and frames for others by none.
func TestSocketHears(t *testing.T) {
	w := needWire(t)
	open := func(name string) (s *socket) {
		at := w.left
		if name == "right" {
			at = w.right
		}
		if err := inside(at, func() (err error) { s, err = openSocket(name); return err }); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	left, right := open("left"), open("right")
	other, own, group := frame.MAC{2, 0, 0, 0, 0, 9}, frame.MAC(right.link.HardwareAddr), frame.GroupMAC(netip.MustParseAddr("239.1.2.3"))
	send := func(to ...frame.MAC) {
		t.Helper()
		for _, mac := range to {
			b := append(append(append(make([]byte, 0, 60), mac[:]...), left.link.HardwareAddr...), 0x88, 0xb5) // for experiments
			if _, err := left.Write(b[:60]); err != nil {
				t.Fatal(err)
			}
		}
	}
	hears := func(wanted ...frame.MAC) {
		t.Helper()
		for _, mac := range wanted {
			b := make([]byte, 100)
			for b[12] != 0x88 || b[13] != 0xb5 { // else the kernel's own
				if _, err := right.Read(b); err != nil {
					t.Fatal(err)
				}
			}
			if got := frame.MAC(b[:6]); got != mac {
				t.Fatalf("a frame to %v was read, not the one to %v", got, mac)
			}
		}
	}
	broadcast := frame.MAC{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	send(group, other, broadcast, own)
	hears(own)
	if err := right.hears(true); err != nil {
		t.Fatal(err)
	}
	send(other, group, broadcast, own)
	hears(group, own)
}
