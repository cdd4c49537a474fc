// SPDX-License-Identifier: Apache-2.0

package frame_test

import (
	"testing"

	"causeway/lcore/frame"
)

func TestParseMAC(t *testing.T) {
	for _, c := range []struct {
		text string
		want frame.MAC
		ok   bool
	}{
		{"02:00:00:00:00:01", mac1, true},
		{"02-00-00-00-00-01", mac1, true},
		{"e4:1d:2D:AB:2b:c2", frame.MAC{0xe4, 0x1d, 0x2d, 0xab, 0x2b, 0xc2}, true},
		{"", frame.MAC{}, false},
		{"02:00:00:00:00", frame.MAC{}, false},
		{"02:00:00:00:00:0", frame.MAC{}, false},
		{"02:00:00:00:00:011", frame.MAC{}, false},
		{"02:00-00:00:00:01", frame.MAC{}, false},
		{"02.00.00.00.00.01", frame.MAC{}, false},
		{"02:00:00:00:00:0g", frame.MAC{}, false},
		{"02:00:00: 0:00:01", frame.MAC{}, false},
	} {
		got, err := frame.ParseMAC(c.text)
		if got != c.want || (err == nil) != c.ok {
			t.Errorf("ParseMAC(%q) = %v, %v; want %v, ok %v", c.text, got, err, c.want, c.ok)
		}
	}
	if got := (frame.MAC{0xe4, 0x1d, 0x2d, 0xab, 0x2b, 0xc2}).String(); got != "e4:1d:2d:ab:2b:c2" {
		t.Errorf("String: %s", got)
	}
}

func TestMACKinds(t *testing.T) {
	for _, c := range []struct {
		mac                      frame.MAC
		multicast, zero, station bool
	}{
		{mac1, false, false, true},
		{frame.MAC{}, false, true, false},
		{frame.Broadcast, true, false, false},
		{frame.MAC{1, 0, 0x5e, 1, 2, 3}, true, false, false},
	} {
		if c.mac.IsMulticast() != c.multicast || c.mac.IsZero() != c.zero || c.mac.IsStation() != c.station {
			t.Errorf("%s: multicast %v, zero %v, station %v", c.mac, c.mac.IsMulticast(), c.mac.IsZero(), c.mac.IsStation())
		}
	}
}

func TestGroupMAC(t *testing.T) {
	for group, want := range map[string]string{
		"239.1.2.3":           "01:00:5e:01:02:03",
		"239.129.2.3":         "01:00:5e:01:02:03", // the same: 5 bits of the group are lost
		"::ffff:239.1.2.3":    "01:00:5e:01:02:03",
		"ff15::1:2:3":         "33:33:00:02:00:03",
		"ff0e::ffff:ef01:203": "33:33:ef:01:02:03",
		"10.10.0.1":           "00:00:00:00:00:00",
		"fd09::1":             "00:00:00:00:00:00",
	} {
		if got := frame.GroupMAC(addr(group)).String(); got != want {
			t.Errorf("%s: got %s, want %s", group, got, want)
		}
	}
}

func TestDerivedAddresses(t *testing.T) {
	if got := mac(t, "e4:1d:2d:ab:2b:c2").LinkLocal(); got != addr("fe80::e61d:2dff:feab:2bc2") {
		t.Errorf("LinkLocal: %s", got)
	}
	if got := frame.SolicitedNode(addr("fe80::2:c902:24:1895")); got != addr("ff02::1:ff24:1895") {
		t.Errorf("SolicitedNode: %s", got)
	}
}

// TestChecksum tests the sum of RFC 1071 §3, whose complement is the checksum, and odd and large lengths.
func TestChecksum(t *testing.T) {
	long := make([]byte, 1<<20)
	for i := range long {
		long[i] = 0xff
	}
	for _, c := range []struct {
		name  string
		bytes []byte
		want  uint16
	}{
		{"RFC 1071", []byte{0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7}, 0x220d},
		{"nothing", nil, 0xffff},
		{"odd", []byte{0x12, 0x34, 0x56}, ^uint16(0x6834)},
		{"a carry of a carry", []byte{0xff, 0xff, 0xff, 0xff, 0x00, 0x01}, 0xfffe},
		{"1 MiB of ones", long, 0},
	} {
		if got := frame.Checksum(c.bytes); got != c.want {
			t.Errorf("%s: got %#04x, want %#04x", c.name, got, c.want)
		}
	}
}

// TestUDPChecksumOfZero checks that a checksum that comes out as 0 is sent as 0xffff, because 0 would mean that there
// is none.
func TestUDPChecksumOfZero(t *testing.T) {
	b := make([]byte, frame.UDPLen+2)
	frame.PutUDP(b, frame.UDPFields{SrcPort: 1, DstPort: 2, Len: len(b)})
	frame.SetUDPChecksum(b, host1, host2)
	h, _ := frame.AsUDP(b)
	copy(b[frame.UDPLen:], b[6:8]) // a payload that is the checksum makes the new one 0
	frame.SetUDPChecksum(b, host1, host2)
	if h.Checksum() != 0xffff || !frame.UDPChecksumOK(b, host1, host2) {
		t.Errorf("got %#04x, want 0xffff and right", h.Checksum())
	}
	if frame.UDPChecksumOK(b[:7], host1, host2) {
		t.Error("a cut header is right")
	}
}
