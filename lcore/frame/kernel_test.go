// SPDX-License-Identifier: Apache-2.0

package frame_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/gopacket/gopacket/pcapgo"

	"causeway/ibside/ib"
	"causeway/lcore/frame"
)

// kernelDir has frames that the Linux kernel sent, and a table that describes them.
const kernelDir = "testdata/kernel"

// readPcap returns the frames of a capture file.
func readPcap(t *testing.T, path string) [][]byte {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r, err := pcapgo.NewReader(file)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	var frames [][]byte
	for {
		b, ci, err := r.ReadPacketData()
		if errors.Is(err, io.EOF) {
			return frames
		}
		if err != nil || ci.CaptureLength != ci.Length {
			t.Fatalf("%s: frame %d: %d bytes captured of %d, %v", path, len(frames)+1, ci.CaptureLength, ci.Length, err)
		}
		frames = append(frames, b)
	}
}

// recorded reads from the table in kernelDir how many frames and RoCEv2 frames a capture has.
func recorded(t *testing.T, capture string) (all, roce int) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(kernelDir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(capture) + ` \|.*\| (\d+) \| (\d+) \|$`).FindSubmatch(text)
	if row == nil {
		t.Fatalf("%s/README.md does not say how many frames %s has", kernelDir, capture)
	}
	all, _ = strconv.Atoi(string(row[1]))
	roce, _ = strconv.Atoi(string(row[2]))
	return all, roce
}

// TestKernel parses every frame of the captures and builds it again from the values of the getters: RoCEv2 with a right
// ICRC, and the messages about neighbours and groups. No frame may be rejected, and no RoCEv2 frame overlooked.
func TestKernel(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(kernelDir, "*.pcap"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s has no captures (%v)", kernelDir, err)
	}
	kinds := map[string]int{}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			before := kinds["RoCEv2"]
			frames := readPcap(t, path)
			for i, b := range frames {
				kind, fault := remake(t, b)
				if fault != "" {
					t.Errorf("frame %d: %s rejected: %s: %x", i+1, kind, fault, b)
				}
				kinds[kind]++
			}
			all, roce := recorded(t, filepath.Base(path))
			if len(frames) != all || kinds["RoCEv2"]-before != roce {
				t.Errorf("%d frames, %d of RoCEv2; recorded were %d and %d", len(frames), kinds["RoCEv2"]-before, all, roce)
			}
		})
	}
	t.Logf("frames by kind: %v", kinds)
	for _, kind := range []string{"RoCEv2", "ARP", "ND", "IGMP", "MLD"} {
		if kinds[kind] == 0 {
			t.Errorf("no capture has %s", kind)
		}
	}
}

// remake parses a frame, builds it again, compares both, and returns the frame's kind.
func remake(t *testing.T, b []byte) (kind string, fault frame.Fault) {
	t.Helper()
	f, fault := frame.Open(b)
	if fault != "" {
		return "frame", fault
	}
	got := rebuild(t, f)
	switch {
	case f.Type == frame.TypeARP:
		kind, got, fault = remakeARP(f, got)
	case f.IPv4 != nil && f.Protocol() == frame.ProtoIGMP:
		kind, got, fault = remakeIGMP(f, got)
	case f.IPv6 != nil && f.Protocol() == frame.ProtoHopByHop:
		kind, got, fault = remakeMLD(f, got)
	case f.IPv6 != nil && f.Protocol() == frame.ProtoICMPv6:
		if kind, got, fault = remakeND(f, got); fault == frame.NDType {
			return "other ICMPv6", ""
		}
	case f.IsIP() && f.Protocol() == frame.ProtoUDP:
		kind, got, fault = remakeRoCE(t, f, got)
	default:
		return "other", ""
	}
	want := b[:headLen(f)+len(f.Payload)]
	if f.Type == frame.TypeARP { // the getters do not know its padding
		want = b[:headLen(f)+frame.ARPLen]
	}
	if fault == "" && kind != "other UDP" && !bytes.Equal(got, want) {
		t.Errorf("%s made anew\ngot  %x\nwant %x", kind, got, want)
	}
	return kind, fault
}

func remakeARP(f frame.Frame, head []byte) (string, []byte, frame.Fault) {
	fields, fault := frame.ParseARP(f.Eth.Src(), f.Payload)
	return "ARP", append(head, frame.PutARP(make([]byte, frame.ARPLen), fields)...), fault
}

func remakeND(f frame.Frame, head []byte) (string, []byte, frame.Fault) {
	fields, fault := frame.ParseND(f.Eth.Src(), f.IPv6, f.Payload)
	return "ND", append(head, frame.PutND(make([]byte, fields.Len()), f.Src(), f.Dst(), fields)...), fault
}

func remakeIGMP(f frame.Frame, head []byte) (string, []byte, frame.Fault) {
	m, fault := frame.ParseIGMP(f.IPv4, f.Payload)
	return "IGMP", append(head, frame.PutIGMPv3Report(make([]byte, frame.IGMPv3ReportFullLen(m.Records)), m.Records)...), fault
}

func remakeMLD(f frame.Frame, head []byte) (string, []byte, frame.Fault) {
	m, fault := frame.ParseMLD(f.IPv6, f.Payload)
	head = append(head, frame.PutRouterAlert(make([]byte, frame.HopByHopLen), frame.ProtoICMPv6)...)
	report := make([]byte, frame.MLDv2ReportFullLen(m.Records))
	return "MLD", append(head, frame.PutMLDv2Report(report, f.Src(), f.Dst(), m.Records)...), fault
}

// remakeRoCE builds a RoCEv2 frame again and checks its ICRC.
func remakeRoCE(t *testing.T, f frame.Frame, head []byte) (string, []byte, frame.Fault) {
	t.Helper()
	h, transport, fault := f.UDP()
	if fault != "" || h.DstPort() != frame.PortRoCEv2 {
		return "other UDP", nil, fault
	}
	got := append(head, frame.PutUDP(make([]byte, frame.UDPLen), h.Fields())...)
	got = append(got, remakeMessage(t, transport)...)
	icrc, ok := ib.ICRCField(transport[max(len(transport)-ib.ICRCLen, 0):])
	want := ib.ICRCRoCEv2(got[len(f.Eth)+len(f.Tag):])
	if !ok || icrc != want {
		t.Errorf("ICRC %#08x, want %#08x", icrc, want)
	}
	got = append(got, make([]byte, ib.ICRCLen)...)
	ib.PutICRC(got[len(got)-ib.ICRCLen:], want)
	return "RoCEv2", got, ""
}

// remakeMessage builds a UD message again, from the BTH to the padding. It returns nil for other packets.
func remakeMessage(t *testing.T, transport []byte) []byte {
	t.Helper()
	bth, ok := ib.AsBTH(transport)
	deth, ok2 := ib.AsDETH(transport[min(len(transport), ib.BTHLen):])
	if !ok || !ok2 || (bth.OpCode() != ib.OpUDSendOnly && bth.OpCode() != ib.OpUDSendOnlyImm) {
		t.Errorf("no UD message: %x", transport)
		return nil
	}
	got := make([]byte, ib.BTHLen+ib.DETHLen)
	ib.PutBTH(got, ib.BTHFields{
		OpCode: bth.OpCode(), Solicited: bth.Solicited(), MigReq: transport[1]&0x40 != 0, PadCnt: bth.PadCnt(), PKey: bth.PKey(),
		FECN: bth.FECN(), BECN: bth.BECN(), DestQP: bth.DestQP(), AckReq: transport[8]&0x80 != 0, PSN: bth.PSN(),
	})
	ib.PutDETH(got[ib.BTHLen:], ib.DETHFields{QKey: deth.QKey(), SrcQP: deth.SrcQP()})
	rest := transport[len(got):]
	if imm, ok := ib.AsImmDt(rest); ok && bth.OpCode() == ib.OpUDSendOnlyImm {
		got = append(got, ib.PutImmDt(make([]byte, ib.ImmDtLen), imm.Value())...)
		rest = rest[ib.ImmDtLen:]
	}
	end := len(rest) - ib.ICRCLen
	if end < bth.PadCnt() {
		t.Errorf("no room for %d bytes of pad and the ICRC: %x", bth.PadCnt(), transport)
		return nil
	}
	return append(got, rest[:end]...)
}
