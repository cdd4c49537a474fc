// SPDX-License-Identifier: Apache-2.0

package ib_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"causeway/ibside/ib"
)

// needTshark fails the test without tshark in CI, and skips it elsewhere.
func needTshark(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("tshark")
	if err == nil {
		return path
	}
	const missing = "tshark is not installed: no second decoder to compare with (apt-get install tshark)"
	if os.Getenv("CI") != "" {
		t.Fatal(missing)
	}
	t.Skip(missing)
	return ""
}

var captureStart = time.Unix(1700000000, 123456789)

// decode writes packets, LRH to VCRC, as ERF records into a pcap file, and returns the fields tshark finds in each.
func decode(t *testing.T, packets [][]byte, fields ...string) [][]string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "ib.pcap")
	if err := os.WriteFile(name, erfCapture(t, packets), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"-n", "-r", name, "-T", "fields", "-E", "occurrence=f"}
	for _, f := range fields {
		args = append(args, "-e", f)
	}
	var stderr bytes.Buffer
	cmd := exec.Command(needTshark(t), args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("tshark: %v\n%s", err, stderr.String())
	}
	var rows [][]string
	for line := range strings.Lines(string(out)) {
		rows = append(rows, strings.Split(strings.TrimSuffix(line, "\n"), "\t"))
	}
	if len(rows) != len(packets) {
		t.Fatalf("tshark read %d of %d packets\n%s", len(rows), len(packets), stderr.String())
	}
	return rows
}

// erfCapture writes a pcap file. Every second record is without pad: tshark finds the same in both.
func erfCapture(t *testing.T, packets [][]byte) []byte {
	var file bytes.Buffer
	w := pcapgo.NewWriterNanos(&file)
	if err := w.WriteFileHeader(65535, layers.LinkType(ib.LinkTypeERF)); err != nil {
		t.Fatal(err)
	}
	for i, p := range packets {
		at := captureStart.Add(time.Duration(i) * time.Second)
		rec := ib.AppendERF(nil, at, p)
		if i%2 == 1 {
			rec = unpadded(rec)
		}
		ci := gopacket.CaptureInfo{Timestamp: at, CaptureLength: len(rec), Length: len(rec)}
		if err := w.WritePacket(ci, rec); err != nil {
			t.Fatal(err)
		}
	}
	return file.Bytes()
}

var routeFields = []string{
	"infiniband.lrh.vl", "infiniband.lrh.lver", "infiniband.lrh.sl", "infiniband.lrh.lnh", "infiniband.lrh.dlid",
	"infiniband.lrh.pktlen", "infiniband.lrh.slid", "infiniband.grh.ipver", "infiniband.grh.tclass",
	"infiniband.grh.flowlabel", "infiniband.grh.paylen", "infiniband.grh.nxthdr", "infiniband.grh.hoplmt",
	"infiniband.grh.sgid", "infiniband.grh.dgid", "infiniband.bth.opcode", "infiniband.bth.se", "infiniband.bth.m",
	"infiniband.bth.padcnt", "infiniband.bth.tver", "infiniband.bth.p_key", "infiniband.bth.destqp", "infiniband.bth.a",
	"infiniband.bth.psn", "infiniband.deth.q_key", "infiniband.deth.srcqp", "infiniband.immdt",
}

// ours returns what tshark should find in a packet, in the order of routeFields, from our views of it.
func ours(b []byte) []any {
	lrh, _ := ib.AsLRH(b)
	grhFields := []any{"", "", "", "", "", "", "", ""}
	rest := b[ib.LRHLen:]
	if lrh.LNH() == ib.LNHGlobal {
		g, _ := ib.AsGRH(rest)
		grhFields = []any{
			g.IPVer(), g.TClass(), g.FlowLabel(), g.PayLen(), g.NxtHdr(), g.HopLimit(), g.SGID(), g.DGID(),
		}
		rest = rest[ib.GRHLen:]
	}
	bth, _ := ib.AsBTH(rest)
	deth, _ := ib.AsDETH(rest[ib.BTHLen:])
	imm := any("")
	if bth.OpCode() == ib.OpUDSendOnlyImm {
		h, _ := ib.AsImmDt(rest[ib.BTHLen+ib.DETHLen:])
		imm = fmt.Sprintf("%08x", h.Value())
	}
	row := []any{
		lrh.VL(), lrh.LVer(), uint8(lrh.SL()), lrh.LNH(), uint16(lrh.DLID()), lrh.PktLenWords(), uint16(lrh.SLID()),
	}
	row = append(row, grhFields...)
	return append(row, bth.OpCode(), bth.Solicited(), bth.MigReq(), bth.PadCnt(), bth.TVer(), uint16(bth.PKey()),
		uint32(bth.DestQP()), bth.AckReq(), bth.PSN(), uint32(deth.QKey()), uint32(deth.SrcQP()), imm)
}

// compare compares tshark's output with our values.
func compare(t *testing.T, what string, fields, theirs []string, ours []any) {
	t.Helper()
	for i, want := range ours {
		if !same(theirs[i], want) {
			t.Errorf("%s: %s: tshark says %q, we say %v", what, fields[i], theirs[i], want)
		}
	}
}

// same compares values as tshark writes them: numbers in decimal or hexadecimal, bits as 1 and 0, bytes as hexadecimal.
func same(theirs string, want any) bool {
	switch want := want.(type) {
	case string:
		return theirs == want
	case bool:
		n, err := strconv.ParseUint(theirs, 0, 1)
		return err == nil && (n == 1) == want
	case ib.GID:
		g, err := ib.ParseGID(theirs)
		return err == nil && g == want
	default:
		n, err := strconv.ParseUint(theirs, 0, 64)
		return err == nil && strconv.FormatUint(n, 10) == fmt.Sprintf("%d", want)
	}
}

// TestTsharkExamples also compares the ERF header and both CRCs, which tshark shows and does not check.
func TestTsharkExamples(t *testing.T) {
	t.Parallel()
	var names []string
	var wire [][]byte
	for _, x := range examples(t) {
		if x.link == "ib" && x.name != "ib-ibta-sample" {
			names, wire = append(names, x.name), append(wire, x.frame)
		}
	}
	more := []string{"erf.types.type", "erf.wlen", "frame.time_epoch", "infiniband.invariant.crc", "infiniband.variant.crc"}
	fields := append(append([]string{}, routeFields...), more...)
	for i, row := range decode(t, wire, fields...) {
		b := wire[i]
		want := append(ours(b), 21, len(b), fmt.Sprintf("%d.123456789", 1700000000+i))
		// tshark 4.0 stops before the CRCs when it can dissect the record, and when there is no payload.
		if names[i] != "ib-group-join" && names[i] != "ib-empty" {
			want = append(want, binary.BigEndian.Uint32(b[len(b)-6:]), binary.BigEndian.Uint16(b[len(b)-2:]))
		}
		compare(t, names[i], fields, row, want)
	}
}

// TestTsharkRandom compares random packets.
func TestTsharkRandom(t *testing.T) {
	t.Parallel()
	const n = 300
	var wire [][]byte
	gen := packets()
	for i := range n {
		p := gen.Example(i + 1)
		if len(p.Payload) == 0 {
			p.Payload = []byte{1} // tshark 4.0 wrongly calls an empty datagram malformed
		}
		wire = append(wire, p.AppendTo(nil))
	}
	for i, row := range decode(t, wire, routeFields...) {
		compare(t, fmt.Sprintf("packet %d (% x)", i, wire[i][:min(72, len(wire[i]))]), routeFields, row, ours(wire[i]))
	}
}

func TestTsharkSIDR(t *testing.T) {
	t.Parallel()
	fields := []string{
		"infiniband.mad.baseversion", "infiniband.mad.mgmtclass", "infiniband.mad.classversion", "infiniband.mad.method",
		"infiniband.mad.status", "infiniband.mad.classspecific", "infiniband.mad.transactionid",
		"infiniband.mad.attributeid", "infiniband.mad.attributemodifier",
	}
	row := decode(t, [][]byte{frame(t, "ib-sidr-req")}, fields...)[0]
	h, _ := ib.AsMAD(madOf(t, "ib-sidr-req"))
	compare(t, "SIDR_REQ", fields, row, []any{
		h.BaseVersion(), h.Class(), h.ClassVersion(), h.Method(), h.Status(), h.ClassSpecific(), h.TID(), h.AttrID(), h.AttrMod(),
	})
}

// saPacket wraps one SA record into a packet.
func saPacket(attr uint16, f ib.SAFields, putRecord func(b []byte)) []byte {
	mad := make([]byte, ib.MADLen)
	ib.PutMAD(mad, ib.MADFields{
		Class: ib.ClassSA, ClassVersion: 2, Method: ib.MethodGetResp, TID: 0x0123456789abcdef, AttrID: attr,
	})
	ib.PutSAHeader(mad[ib.MADHdrLen:], f)
	putRecord(mad[ib.MADHdrLen+ib.SAHdrLen:])
	p := ib.Packet{
		SLID: 1, DLID: 4, OpCode: ib.OpUDSendOnly, PKey: 0xffff, DestQP: ib.QP1, QKey: ib.QKeyGSI, SrcQP: ib.QP1, Payload: mad,
	}
	return p.AppendTo(nil)
}

func TestTsharkMCMemberRecord(t *testing.T) {
	t.Parallel()
	const pre = "infiniband.mcmemberrecord."
	fields := []string{
		"infiniband.sa.smkey", "infiniband.sa.attributeoffset", "infiniband.sa.componentmask",
		pre + "mgid", pre + "portgid", pre + "q_key", pre + "mlid", pre + "mtuselector", pre + "mtu", pre + "tclass",
		pre + "p_key", pre + "rateselector", pre + "rate", pre + "packetlifetimeselector", pre + "packetlifetime",
		pre + "sl", pre + "flowlabel", pre + "hoplimit", pre + "scope", pre + "joinstate", pre + "proxyjoin",
	}
	sa := ib.SAFields{SMKey: 0xfedcba9876543210, AttrOffsetWords: 7, Components: 0x3ffff}
	f := ib.MCMemberFields{
		MGID: gid("ff12:401b:ffff::f01:203"), PortGID: gid("fe80::2:c903:0:1"), QKey: 0x80000b1b, MLID: 0xc005,
		MTUSelector: 2, MTU: 4, TClass: 0x62, PKey: 0x8001, RateSelector: 1, Rate: 3, LifeSelector: 3, Life: 0x12,
		SL: 10, FlowLabel: 0x12345, HopLimit: 64, Scope: 2, JoinState: 5, ProxyJoin: true,
	}
	wire := saPacket(ib.AttrMCMemberRecord, sa, func(b []byte) { ib.PutMCMemberRecord(b, f) })
	compare(t, "MCMemberRecord", fields, decode(t, [][]byte{wire}, fields...)[0], []any{
		sa.SMKey, sa.AttrOffsetWords, sa.Components, f.MGID, f.PortGID, uint32(f.QKey), uint16(f.MLID),
		uint8(f.MTUSelector), uint8(f.MTU), f.TClass, uint16(f.PKey), uint8(f.RateSelector), uint8(f.Rate),
		uint8(f.LifeSelector), f.Life, uint8(f.SL), f.FlowLabel, f.HopLimit, f.Scope, f.JoinState, f.ProxyJoin,
	})
}

func TestTsharkPathRecord(t *testing.T) {
	t.Parallel()
	const pre = "infiniband.pathrecord."
	fields := []string{
		pre + "dgid", pre + "sgid", pre + "dlid", pre + "slid", pre + "rawtraffic", pre + "flowlabel", pre + "hoplimit",
		pre + "tclass", pre + "reversible", pre + "numbpath", pre + "p_key", pre + "sl", pre + "mtuselector", pre + "mtu",
		pre + "rateselector", pre + "rate", pre + "packetlifetimeselector", pre + "packetlifetime", pre + "preference",
	}
	f := ib.PathFields{
		DGID: gid("fe80::2:c903:0:2"), SGID: gid("fe80::2:c903:0:1"), DLID: 7, SLID: 4, RawTraffic: true,
		FlowLabel: 0x12345, HopLimit: 64, TClass: 0x62, Reversible: true, NumbPath: 127, PKey: 0x8001, SL: 5,
		MTUSelector: 2, MTU: 4, RateSelector: 3, Rate: 3, LifeSelector: 1, Life: 0x12, Preference: 7,
	}
	wire := saPacket(ib.AttrPathRecord, ib.SAFields{}, func(b []byte) { ib.PutPathRecord(b, f) })
	compare(t, "PathRecord", fields, decode(t, [][]byte{wire}, fields...)[0], []any{
		f.DGID, f.SGID, uint16(f.DLID), uint16(f.SLID), f.RawTraffic, f.FlowLabel, f.HopLimit, f.TClass, f.Reversible,
		f.NumbPath, uint16(f.PKey), uint16(f.SL), uint8(f.MTUSelector), uint8(f.MTU), uint8(f.RateSelector), uint8(f.Rate),
		uint8(f.LifeSelector), f.Life, f.Preference,
	})
}

func TestTsharkNotice(t *testing.T) {
	t.Parallel()
	const pre = "infiniband.notice."
	fields := []string{
		pre + "isgeneric", pre + "type", pre + "producertypevendorid", pre + "trapnumberdeviceid", pre + "issuerlid",
		pre + "noticetoggle", pre + "noticecount", pre + "datadetails",
	}
	f := ib.NoticeFields{
		IsGeneric: true, Type: 3, Producer: ib.ProducerSM, Trap: ib.TrapGroupCreated, IssuerLID: 0x1234, Toggle: true, Count: 0x2345,
		Data: [ib.NoticeDataLen]byte{0: 1, 53: 2}, IssuerGID: gid("fe80::2:c903:0:1"),
	}
	wire := saPacket(ib.AttrNotice, ib.SAFields{}, func(b []byte) { ib.PutNotice(b, f) })
	compare(t, "Notice", fields, decode(t, [][]byte{wire}, fields...)[0], []any{
		f.IsGeneric, f.Type, f.Producer, f.Trap, uint16(f.IssuerLID), f.Toggle, f.Count, fmt.Sprintf("%x", f.Data),
	})
}

// TestTsharkRMPP leaves out the response time, of whose five bits tshark gives one to the flags.
func TestTsharkRMPP(t *testing.T) {
	t.Parallel()
	const pre = "infiniband.rmpp."
	fields := []string{
		pre + "rmpptype", pre + "rmppflags", pre + "rmppstatus", pre + "segmentnumber", pre + "payloadlength",
	}
	f := ib.SAFields{
		RMPPVersion: ib.RMPPVersion, RMPPType: ib.RMPPTypeData, RMPPFlags: ib.RMPPFlagActive | ib.RMPPFlagLast,
		RMPPData1: 7, RMPPData2: 220,
	}
	wire := saPacket(ib.AttrPathRecord, f, func([]byte) {})
	compare(t, "RMPP", fields, decode(t, [][]byte{wire}, fields...)[0], []any{
		f.RMPPType, f.RMPPFlags, f.RMPPStatus, f.RMPPData1, f.RMPPData2,
	})
}
