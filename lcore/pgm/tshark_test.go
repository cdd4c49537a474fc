// SPDX-License-Identifier: Apache-2.0

package pgm

import (
	"encoding/hex"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"causeway/lcore/frame"
	"causeway/lcore/pgm/pgmtest"
)

// dissected are packets and what another decoder must find in them; a checksum's status 1 is good.
var dissected = []struct {
	packet pgmtest.Packet
	want   string // name=value
}{
	{pgmtest.Packet{Type: pgmtest.SPM, SQN: 7, Trail: 3, Lead: 9, NLA: nla4}, "hdr.type=0x00 spm.sqn=0x00000007 spm.trail=0x00000003 spm.lead=0x00000009 spm.path.ipv4=10.10.0.1"},
	{pgmtest.Packet{Type: pgmtest.SPM, NLA: nla6, Options: []pgmtest.Option{{Type: fin}}}, "spm.path.ipv6=2001:db8::1 opts.tlen=8"},
	{pgmtest.Packet{Type: pgmtest.ODATA, SQN: 7, Trail: 3, Data: []byte("some data")}, "hdr.type=0x04 hdr.tsdulen=9 spm.sqn=0x00000007 spm.trail=0x00000003"},
	{pgmtest.Packet{Type: pgmtest.RDATA, Parity: true, Data: []byte("odd"), Options: []pgmtest.Option{{Type: pgmtest.OptJoin, Data: []byte{0, 0, 0, 0, 0, 9}}, {Type: syn}}},
		"hdr.type=0x05 hdr.opts=0x81 genopts.type=0x03 opts.join.min_join=0x00000009 opts.tlen=16"},
	{pgmtest.Packet{Type: pgmtest.NAK, SQN: 7, NLA: nla4, Group: group4, Options: []pgmtest.Option{pgmtest.NAKList(8, 9)}},
		"hdr.type=0x08 hdr.sport=2000 hdr.dport=1000 nak.sqn=0x00000007 nak.src.ipv4=10.10.0.1 nak.grp.ipv4=239.1.2.3 opts.tlen=16"},
	{pgmtest.Packet{Type: pgmtest.NNAK, NLA: nla6, Group: group4}, "hdr.type=0x09 nak.src.ipv6=2001:db8::1 nak.grp.ipv4=239.1.2.3"},
	{pgmtest.Packet{Type: pgmtest.NCF, SQN: 7, NLA: nla4, Group: group4}, "hdr.type=0x0a hdr.sport=1000 nak.sqn=0x00000007"},
	{pgmtest.Packet{Type: pgmtest.POLL, SQN: 7, Round: 2, NLA: nla4}, "hdr.type=0x01 poll.sqn=0x00000007 poll.round=2 poll.path.ipv4=10.10.0.1"},
	{pgmtest.Packet{Type: pgmtest.POLR, SQN: 7, Round: 2}, "hdr.type=0x02 polr.sqn=0x00000007 polr.round=2"},
	{pgmtest.Packet{Type: pgmtest.ACK, SQN: 7}, "hdr.type=0x0d ack.maxsqn=0x00000007"},
}

// tsharkPath returns the program. Without it the test is skipped, but in CI it fails.
func tsharkPath(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("tshark")
	if err == nil {
		return path
	}
	if os.Getenv("CI") != "" {
		t.Fatal("tshark is missing: CI must have it")
	}
	t.Skip("tshark is missing: the packets were not compared with another decoder")
	return ""
}

// writeIP writes PGM packets, each in an IPv4 packet, to a capture file.
func writeIP(t *testing.T, packets [][]byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pgm.pcap")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	w := pcapgo.NewWriter(file)
	if err := w.WriteFileHeader(65535, layers.LinkTypeIPv4); err != nil {
		t.Fatal(err)
	}
	for _, b := range packets {
		ip := make([]byte, frame.IPv4Len, frame.IPv4Len+len(b))
		frame.PutIPv4(ip, frame.IPv4Fields{Protocol: 113, TTL: 9, Src: netip.MustParseAddr("10.0.0.1"), Dst: group4, TotalLen: frame.IPv4Len + len(b)})
		ip = append(ip, b...)
		if err := w.WritePacket(gopacket.CaptureInfo{Timestamp: time.Unix(1, 0), CaptureLength: len(ip), Length: len(ip)}, ip); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// fields are the fields that tshark prints. Its complaints come as expert messages.
var fields = strings.Fields(`hdr.type hdr.sport hdr.dport hdr.gsi hdr.opts hdr.tsdulen spm.sqn spm.trail spm.lead spm.path.ipv4
	spm.path.ipv6 nak.sqn nak.src.ipv4 nak.src.ipv6 nak.grp.ipv4 poll.sqn poll.round poll.path.ipv4 polr.sqn polr.round ack.maxsqn
	opts.tlen genopts.type opts.join.min_join hdr.cksum.status`)

func TestTshark(t *testing.T) {
	path := tsharkPath(t)
	var packets [][]byte
	for _, c := range dissected {
		c.packet.GSI, c.packet.SrcPort, c.packet.DstPort = [6]byte{1, 2, 3, 4, 5, 6}, 1000, 2000
		packets = append(packets, c.packet.AppendTo(nil))
	}
	args := []string{"-r", writeIP(t, packets), "-o", "pgm.check_checksum:TRUE", "-T", "fields", "-E", "separator=|", "-e", "_ws.expert.message", "-e", "frame.protocols"}
	for _, f := range fields {
		args = append(args, "-e", "pgm."+f)
	}
	out, err := exec.Command(path, args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(lines) != len(dissected) {
		t.Fatalf("tshark saw %d packets of %d:\n%s", len(lines), len(dissected), out)
	}
	for i, line := range lines {
		values := strings.Split(line, "|")
		got := map[string]string{}
		for j, f := range fields {
			got[f] = values[2+j]
		}
		if values[0] != "" || !strings.HasPrefix(values[1]+":", "ip:pgm:") || strings.Contains(values[1], "malformed") || got["hdr.gsi"] != hex.EncodeToString([]byte{1, 2, 3, 4, 5, 6}) {
			t.Errorf("%s: tshark says: %s", hex.EncodeToString(packets[i]), line)
		}
		for _, w := range strings.Fields(dissected[i].want + " hdr.cksum.status=1") {
			name, value, _ := strings.Cut(w, "=")
			if name == "hdr.cksum.status" { // tshark 4.0 gives a byte of the checksum by the same name first
				got[name] = got[name][strings.LastIndex(got[name], ",")+1:]
			}
			if got[name] != value {
				t.Errorf("packet %d: tshark says %s=%q, want %q", i, name, got[name], value)
			}
		}
	}
}
