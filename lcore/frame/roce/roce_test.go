// SPDX-License-Identifier: Apache-2.0

package roce_test

import (
	"bytes"
	"errors"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopacket/gopacket/pcapgo"
	"pgregory.net/rapid"

	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/frame/roce"
)

// kernelFrames calls f with every frame of the Linux kernel's that the captures hold.
func kernelFrames(t *testing.T, f func(name string, b []byte)) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "testdata", "kernel", "*.pcap"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no captures: %v", err)
	}
	for _, file := range files {
		r, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = r.Close() }() // it was only read
		p, err := pcapgo.NewReader(r)
		if err != nil {
			t.Fatal(err)
		}
		for {
			b, _, err := p.ReadPacketData()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			f(filepath.Base(file), b)
		}
	}
}

// The kernel's own frames are read, and written again byte for byte.
func TestKernelFrames(t *testing.T) {
	n := 0
	kernelFrames(t, func(name string, b []byte) {
		p, err := roce.Parse(b)
		if err != nil {
			if !strings.Contains(err.Error(), "neither UDP") && !strings.Contains(err.Error(), "is not RoCE's") {
				t.Errorf("%s: %v", name, err)
			}
			return
		}
		n++
		got := p.AppendTo(nil)
		// The other fields do not depend on MigReq, which rxe leaves clear.
		q, err := roce.Parse(got)
		if err != nil {
			t.Errorf("%s: what was written again: %v", name, err)
		}
		if !bytes.Equal(q.Payload, p.Payload) || q.SrcIP != p.SrcIP || q.DestQP != p.DestQP || len(got) > len(b) {
			t.Errorf("%s: read %+v, then %+v", name, p, q)
		}
	})
	if n < 200 {
		t.Errorf("%d RoCE frames in the captures, want at least 200", n)
	}
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPacket(t)
		b := p.AppendTo([]byte("before"))
		got, err := roce.Parse(b[len("before"):])
		if err != nil {
			t.Fatalf("%+v: %v", p, err)
		}
		want := p
		want.OpCode = ib.OpUDSendOnly
		if p.HasImm {
			want.OpCode = ib.OpUDSendOnlyImm
		}
		if requeued := got.AppendTo(nil); !bytes.Equal(requeued, b[len("before"):]) || !bytes.Equal(got.Payload, want.Payload) ||
			got.OpCode != want.OpCode || got.Imm != want.Imm || got.TClass != want.TClass || got.DestQP != want.DestQP {
			t.Fatalf("wrote %+v, read %+v", want, got)
		}
		// One wrong bit in the last 12 bytes, which are at least from the DETH to the ICRC, is detected.
		at := len(b) - 1 - rapid.IntRange(0, 11).Draw(t, "at")
		b[at] ^= 1
		if _, err := roce.Parse(b[len("before"):]); err == nil {
			t.Fatalf("a wrong bit in byte %d of %d was not noticed", at, len(b))
		}
	})
}

// What no UD send begins with is rejected, though its ICRC is right.
func TestBadTransport(t *testing.T) {
	const bth = frame.EthernetLen + ib.GRHLen
	p := roce.Packet{Version: 1, Dst: frame.MAC{2, 1}, Src: frame.MAC{2, 2}, HopLimit: 64, PKey: ib.PKeyDefault, DestQP: 5, SrcQP: 7,
		SrcIP: netip.MustParseAddr("fe80::1"), DstIP: netip.MustParseAddr("fe80::2"), Payload: []byte("mad!")}
	for _, c := range []struct {
		name   string
		at     int
		set    byte
		reject bool
	}{
		{"nothing", 0, ib.OpUDSendOnly, false},
		{"a send of a reliable connection", 0, 0x04, true},
		{"another version of the transport header", 1, 0x41, true},
		{"three bytes of pad in four", 1, 0x70, false},
		{"immediate data that are the payload", 0, ib.OpUDSendOnlyImm, false},
	} {
		b := p.AppendTo(nil)
		b[bth+c.at] = c.set
		ib.PutICRC(b[len(b)-ib.ICRCLen:], ib.ICRCRoCEv1(b[frame.EthernetLen:len(b)-ib.ICRCLen]))
		if got, err := roce.Parse(b); (err != nil) != c.reject {
			t.Errorf("%s: %+v, %v", c.name, got, err)
		}
	}
}

func drawPacket(t *rapid.T) roce.Packet {
	p := roce.Packet{
		Version: rapid.IntRange(1, 2).Draw(t, "version"), Dst: frame.MAC{2, 1}, Src: frame.MAC{2, 2},
		TClass: rapid.Byte().Draw(t, "class"), HopLimit: rapid.ByteRange(1, 255).Draw(t, "hops"),
		SrcPort: 0xc000, Solicited: rapid.Bool().Draw(t, "solicited"), PKey: ib.PKeyDefault,
		DestQP: ib.QPN(rapid.Uint32Range(2, 0xffffff).Draw(t, "qpn")), PSN: rapid.Uint32Max(0xffffff).Draw(t, "psn"),
		QKey: ib.QKey(rapid.Uint32().Draw(t, "qkey")), SrcQP: 7, HasImm: rapid.Bool().Draw(t, "with imm"),
		Payload: rapid.SliceOfN(rapid.Byte(), 0, 70).Draw(t, "payload"),
		SrcIP:   netip.MustParseAddr("10.9.0.1"), DstIP: netip.MustParseAddr("10.9.0.2"),
	}
	if rapid.Bool().Draw(t, "six") {
		p.SrcIP, p.DstIP = netip.MustParseAddr("fd09::1"), netip.MustParseAddr("fd09::2")
		p.FlowLabel = rapid.Uint32Max(0xfffff).Draw(t, "flow")
	}
	p.UDPChecksum = p.Version == 2 && rapid.Bool().Draw(t, "checksum")
	if p.Version == 1 {
		p.SrcPort = 0
	}
	if rapid.Bool().Draw(t, "tagged") {
		p.Tag = &frame.VLANFields{PCP: 3, VID: 100}
	}
	if p.HasImm {
		p.Imm = rapid.Uint32().Draw(t, "imm")
	}
	return p
}
