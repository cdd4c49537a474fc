// SPDX-License-Identifier: Apache-2.0

package talk

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore/frame"
)

var ownMAC = frame.MAC{2, 0, 0, 0, 0, 0x22}

// ownConfig is of a host with addresses of its own.
func ownConfig() Config {
	return Config{On: "packet:right", QPN: 0x222, MAC: ownMAC, IP: []netip.Prefix{netip.MustParsePrefix("10.9.0.2/24"), netip.MustParsePrefix("fd09::2/64")}}
}

// TestPacketUnicast has a host at the kernel's addresses and one at its own talk, both ways, in both versions.
func TestPacketUnicast(t *testing.T) {
	w := needWire(t)
	for _, version := range []int{1, 2} {
		own := ownConfig()
		own.RoCE = version
		right, toRight := openIn(t, w.right, own)
		left, toLeft := openIn(t, w.left, Config{On: "packet:left", RoCE: version, Name: "listen"})
		if x := left.Where(); len(x.IP) != 2 || x.IP[0] != "10.9.0.1" || x.IP[1] != "fd09::1" || x.MTU != 4096 || x.QPN < 2 {
			t.Errorf("%+v", x)
		}
		for _, c := range []struct {
			from    End
			to, src string
			qpn     ib.QPN
			at      *heard
		}{
			{left, "10.9.0.2", "10.9.0.1", 0x222, toRight}, {left, "fd09::2", "fd09::1", 0x222, toRight},
			{right, "10.9.0.1", "10.9.0.2", left.Where().QPN, toLeft}, {right, "fd09::1", "fd09::2", left.Where().QPN, toLeft},
		} {
			way, err := c.from.Find(soon(t), netip.MustParseAddr(c.to), c.qpn)
			if err != nil {
				t.Fatal(err)
			}
			if err := way.Send([]byte("hello")); err != nil {
				t.Fatal(err)
			}
			m := c.at.await(t, 1)[0]
			if m.From.String() != c.src || m.To.String() != c.to || m.SrcQP != c.from.Where().QPN || string(m.Payload) != "hello" {
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

// TestPacketGroups has one host in two groups. Others' messages, and those with a wrong Q_Key, do not come.
func TestPacketGroups(t *testing.T) {
	w := needWire(t)
	right, toRight := openIn(t, w.right, ownConfig())
	left, _ := openIn(t, w.left, Config{On: "packet:left"})
	send := func(g Group) {
		t.Helper()
		way, err := left.Join(soon(t), g, false)
		if err != nil {
			t.Fatal(err)
		}
		if err := way.Send([]byte(g.Addr.String())); err != nil {
			t.Fatal(err)
		}
	}
	groups := []netip.Addr{netip.MustParseAddr("239.1.2.3"), netip.MustParseAddr("ff15::1:3")}
	for _, ip := range groups {
		if _, err := right.Join(soon(t), Group{Addr: ip}, true); err != nil {
			t.Fatal(err)
		}
	}
	send(Group{Addr: netip.MustParseAddr("239.129.2.3")}) // has the same MAC address as the other
	send(Group{Addr: groups[0], QKey: 5})
	for _, ip := range groups {
		send(Group{Addr: ip})
	}
	for i, m := range toRight.await(t, 2) {
		if m.To != groups[i] || string(m.Payload) != m.To.String() {
			t.Errorf("%+v", m)
		}
	}
	if r := right.Refused(); r["qkey"] != 1 || len(r) != 2 || r["no_buffer"] != 0 {
		t.Errorf("refused %v", r)
	}
	if _, err := right.Join(soon(t), Group{Addr: groups[0], Port: 7}, true); err == nil || !strings.Contains(err.Error(), "leave them out") {
		t.Errorf("a port: %v", err)
	}
}

// TestPacketReports wants switches to be told of a group, at once and when they ask, and of its end.
func TestPacketReports(t *testing.T) {
	w := needWire(t)
	var tap *socket
	if err := inside(w.left, func() (err error) { tap, err = openSocket("left"); return err }); err != nil {
		t.Fatal(err)
	}
	defer tap.Close()
	right, _ := openIn(t, w.right, ownConfig())
	link := frame.Link{MAC: frame.MAC(tap.link.HardwareAddr)}
	for _, c := range []struct {
		group string
		query []byte
	}{
		{"239.1.2.3", frame.AppendIGMPv3Query(nil, link, netip.MustParseAddr("10.9.0.1"), frame.Query{Group: netip.IPv4Unspecified(), MaxResp: 100 * time.Millisecond})},
		{"ff15::1:3", frame.AppendMLDv2Query(nil, link, link.MAC.LinkLocal(), frame.Query{Group: netip.IPv6Unspecified(), MaxResp: 100 * time.Millisecond})},
	} {
		group := netip.MustParseAddr(c.group)
		if _, err := right.Join(soon(t), Group{Addr: group}, true); err != nil {
			t.Fatal(err)
		}
		awaitReport(t, tap, group, frame.ToExclude)
		if _, err := tap.Write(c.query); err != nil {
			t.Fatal(err)
		}
		awaitReport(t, tap, group, frame.ModeIsExclude)
	}
	right.(*packetEnd).leave()
	awaitReport(t, tap, netip.MustParseAddr("239.1.2.3"), frame.ToInclude)
}

// awaitReport waits for what the host with its own MAC address says of a group.
func awaitReport(t *testing.T, tap *socket, group netip.Addr, kind frame.RecordType) {
	t.Helper()
	if err := tap.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 9000)
	for {
		n, err := tap.Read(b)
		if err != nil {
			t.Fatalf("no report %d of %v: %v", kind, group, err)
		}
		f, fault := frame.Open(b[:n])
		if fault != "" || f.Eth.Src() != ownMAC {
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

// TestPacketErrors wants one line that says what to do.
func TestPacketErrors(t *testing.T) {
	w := needWire(t)
	for _, c := range []struct {
		name, want string
		edit       func(*Config)
	}{
		{"no such interface", "packet:nosuch: ", func(c *Config) { c.On = "packet:nosuch" }},
		{"the loopback", "packet:lo: the interface is not Ethernet", func(c *Config) { c.On = "packet:lo" }},
		{"no address", "give the host one with -ip", func(c *Config) { c.IP, c.MAC = nil, frame.MAC{} }},
		{"a MAC address alone", "needs an IP address of its own", func(c *Config) { c.IP = nil }},
		{"nowhere", "fabric:SOCKET", func(c *Config) { c.On = "somewhere" }},
	} {
		config := ownConfig()
		c.edit(&config)
		err := inside(w.right, func() error { _, err := Open(config); return err })
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	config := Config{On: "packet:left", MAC: ownMAC, IP: []netip.Prefix{netip.MustParsePrefix("10.9.0.1/24")}}
	if err := inside(w.left, func() error { _, err := Open(config); return err }); err == nil || !strings.Contains(err.Error(), "leave -mac out") {
		t.Errorf("the kernel's address with another MAC address: %v", err)
	}
	only4 := ownConfig()
	only4.IP = only4.IP[:1]
	right, _ := openIn(t, w.right, only4)
	for to, want := range map[string]string{
		"10.9.0.77": "nobody answers ARP for 10.9.0.77", "fd09::1": "no IPv6 address", "10.99.0.1": "the kernel has no route to it",
	} {
		if _, err := right.Find(soon(t), netip.MustParseAddr(to), 7); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", to, err)
		}
	}
}
