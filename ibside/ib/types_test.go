// SPDX-License-Identifier: Apache-2.0

package ib_test

import (
	"net/netip"
	"testing"

	"causeway/ibside/ib"
)

func TestPKeyMatch(t *testing.T) {
	for _, c := range []struct {
		a, b ib.PKey
		want bool
	}{
		{0xffff, 0xffff, true},
		{0xffff, 0x7fff, true},  // full and limited
		{0x7fff, 0x7fff, false}, // both limited
		{0x8001, 0x0001, true},
		{0x8001, 0x8001, true},
		{0x0001, 0x0001, false},
		{0x8001, 0x8002, false}, // another partition
		{0xffff, 0x8001, false},
		{0x0000, 0x0000, false}, // not a partition
		{0x8000, 0x8000, false},
		{0x8000, 0x0000, false},
	} {
		if c.a.Matches(c.b) != c.want || c.b.Matches(c.a) != c.want {
			t.Errorf("%v and %v: match %v, %v; want %v", c.a, c.b, c.a.Matches(c.b), c.b.Matches(c.a), c.want)
		}
	}
	for k := range 0x10000 {
		p := ib.PKey(k)
		if p.Valid() != (k != 0 && k != 0x8000) || p.IsFull() != (k >= 0x8000) || p.Matches(p) != (k > 0x8000) {
			t.Fatalf("%v: Valid %v, IsFull %v, matches itself %v", p, p.Valid(), p.IsFull(), p.Matches(p))
		}
	}
}

func TestLIDs(t *testing.T) {
	for _, c := range []struct {
		lid                ib.LID
		unicast, multicast bool
	}{
		{0, false, false}, {1, true, false}, {0xbfff, true, false},
		{0xc000, false, true}, {0xfffe, false, true}, {0xffff, false, false},
	} {
		if c.lid.IsUnicast() != c.unicast || c.lid.IsMulticast() != c.multicast {
			t.Errorf("%v: unicast %v, multicast %v", c.lid, c.lid.IsUnicast(), c.lid.IsMulticast())
		}
	}
}

func TestQKeyControlled(t *testing.T) {
	for k, want := range map[ib.QKey]bool{
		ib.QKeyGSI: true, ib.QKeyRDMAUDP: false, ib.QKeyIPoIB: false, 0x7fffffff: false, 0x80000000: true,
	} {
		if k.IsControlled() != want {
			t.Errorf("%v: controlled %v, want %v", k, !want, want)
		}
	}
}

func TestGIDs(t *testing.T) {
	for _, c := range []struct {
		text                       string
		multicast, ibMulti, mapped bool
		addr                       string
	}{
		{"fe80::2:c903:0:1", false, false, false, "fe80::2:c903:0:1"},
		{"ff12:401b:ffff::ffff:ffff", true, true, false, "ff12:401b:ffff::ffff:ffff"},
		{"::ffff:10.10.0.1", false, false, true, "10.10.0.1"},
		{"::ffff:223.255.255.255", false, false, true, "223.255.255.255"},
		{"::ffff:224.0.0.0", true, false, true, "224.0.0.0"},
		{"::ffff:239.1.2.3", true, false, true, "239.1.2.3"},
		{"::ffff:240.0.0.0", false, false, true, "240.0.0.0"},
		{"ff0e::ffff:ef01:203", true, true, false, "ff0e::ffff:ef01:203"},
		{"::", false, false, false, "::"},
	} {
		g := gid(c.text)
		if g.String() != c.text || g.Addr() != netip.MustParseAddr(c.addr) || ib.GIDFromAddr(g.Addr()) != g {
			t.Errorf("%s: String %v, Addr %v, and back %v", c.text, g, g.Addr(), ib.GIDFromAddr(g.Addr()))
		}
		if g.IsMulticast() != c.multicast || g.IsIBMulticast() != c.ibMulti || g.IsIPv4Mapped() != c.mapped {
			t.Errorf("%s: multicast %v, on InfiniBand %v, mapped %v", c.text, g.IsMulticast(), g.IsIBMulticast(), g.IsIPv4Mapped())
		}
		if g.IsZero() != (c.text == "::") || ib.GIDFromGUID(g.Prefix(), g.GUID()) != g {
			t.Errorf("%s: zero %v, prefix %x, GUID %v", c.text, g.IsZero(), g.Prefix(), g.GUID())
		}
	}
	if !ib.GIDFromAddr(netip.Addr{}).IsZero() {
		t.Error("the zero Addr does not give the zero GID")
	}
	for _, bad := range []string{"", "10.10.0.1", "fe80::1%eth0", "fe80::g", "fe80", "0x1"} {
		if g, err := ib.ParseGID(bad); err == nil {
			t.Errorf("ParseGID(%q) = %v, want an error", bad, g)
		}
	}
}

func TestMTUs(t *testing.T) {
	for _, c := range []struct{ netdev, core, rxe int }{
		{1280, 1024, 1024}, {1500, 1024, 1024}, {2200, 2048, 2048}, {4096, 2048, 2048}, {4168, 2048, 2048},
		{4175, 2048, 2048}, {4176, 2048, 4096}, {4191, 2048, 4096}, {4192, 4096, 4096}, {4200, 4096, 4096},
		{9000, 4096, 4096}, {336, 0, 256}, {352, 256, 256}, {335, 0, 0}, {0, 0, 0}, {-1, 0, 0},
	} {
		if got := ib.MTUForNetdevCore(c.netdev).Bytes(); got != c.core {
			t.Errorf("netdev MTU %d: core says %d, want %d", c.netdev, got, c.core)
		}
		if got := ib.MTUForNetdev(c.netdev).Bytes(); got != c.rxe {
			t.Errorf("netdev MTU %d: rxe says %d, want %d", c.netdev, got, c.rxe)
		}
	}
	for m, n := range map[ib.MTU]int{0: 0, 1: 256, 2: 512, 3: 1024, 4: 2048, 5: 4096, 6: 0, 255: 0} {
		if m.Bytes() != n || m.Valid() != (n != 0) {
			t.Errorf("%v: %d bytes, want %d", m, m.Bytes(), n)
		}
		if got, ok := ib.MTUFromBytes(n); n != 0 && (got != m || !ok) {
			t.Errorf("MTUFromBytes(%d) = %v, %v", n, got, ok)
		}
	}
	for _, n := range []int{0, 1, 255, 257, 1500, 8192} {
		if m, ok := ib.MTUFromBytes(n); ok || m != 0 {
			t.Errorf("MTUFromBytes(%d) = %v, %v", n, m, ok)
		}
	}
}

func TestStaticRate(t *testing.T) {
	for _, c := range []struct {
		path     ib.Rate
		portMbps int
		want     ib.Rate
	}{{3, 100000, 3}, {16, 100000, 0}, {17, 100000, 0}, {3, 0, 3}, {0, 100000, 0}, {63, 100000, 0}, {2, 5000, 2}} {
		if got := c.path.Static(c.portMbps); got != c.want {
			t.Errorf("a path of %v from a port of %d Mb/s: %v, want %v", c.path, c.portMbps, got, c.want)
		}
	}
}

func TestBaseLID(t *testing.T) {
	for _, c := range []struct {
		lid  ib.LID
		lmc  uint8
		want ib.LID
	}{{5, 0, 5}, {5, 2, 4}, {0x137, 7, 0x100}, {0xbfff, 7, 0xbf80}} {
		if got := c.lid.Base(c.lmc); got != c.want {
			t.Errorf("%v of a port with LMC %d: base %v, want %v", c.lid, c.lmc, got, c.want)
		}
	}
}

func TestRates(t *testing.T) {
	sorted := []ib.Rate{2, 5, 3, 11, 6, 15, 19, 4, 7, 20, 12, 8, 9, 16, 13, 10, 14, 17, 18, 21, 22, 23, 24}
	gbps := []float64{2.5, 5, 10, 14, 20, 25, 28, 30, 40, 50, 56, 60, 80, 100, 112, 120, 168, 200, 300, 400, 600, 800, 1200}
	known := map[ib.Rate]bool{}
	for i, r := range sorted {
		known[r] = true
		if got := float64(r.Mbps()) / 1000; got != gbps[i] {
			t.Errorf("rate %d: %g Gb/s, want %g", uint8(r), got, gbps[i])
		}
	}
	for r := range 256 {
		if got := ib.Rate(r).Mbps(); got != 0 && !known[ib.Rate(r)] {
			t.Errorf("rate %d is not known, and is %d Mb/s", r, got)
		}
	}
}

func TestWords(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{ib.MTU2048.String(), "2048"}, {ib.MTU(9).String(), "MTU(9)"},
		{ib.Rate(2).String(), "2.5 Gb/s"}, {ib.Rate(3).String(), "10 Gb/s"}, {ib.Rate(1).String(), "Rate(1)"},
		{ib.Rate(18).String(), "300 Gb/s"}, {ib.Rate(24).String(), "1200 Gb/s"}, {ib.Rate(25).String(), "Rate(25)"},
		{ib.QPN(0x123).String(), "0x000123"}, {ib.QKeyIPoIB.String(), "0x00000b1b"}, {ib.PKey(1).String(), "0x0001"},
		{ib.LID(7).String(), "0x0007"}, {ib.GUID(1).String(), "0x0000000000000001"},
		{ib.ServiceIDFromPort(ib.PortSpaceUDP, 7174).String(), "0x0000000001111c06"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}
