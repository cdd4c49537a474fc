// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/lcore/frame"
	"causeway/lcore/frame/roce"
)

// A script is a fake bridge that mirrors a fixed list of packets, over and over if again is set.
type script struct {
	mirrors []lcore.MirroredPacket
	again   bool
	missed  uint64
}

func (s script) Mirror(ctx context.Context, _ lcore.Filter, snap int, see func(lcore.MirroredPacket) bool) (uint64, error) {
	for first := true; first || s.again; first = false {
		for _, x := range s.mirrors {
			if snap > 0 {
				x.Data = x.Data[:min(snap, len(x.Data))]
			}
			if ctx.Err() != nil || !see(x) {
				return s.missed, nil
			}
		}
	}
	<-ctx.Done()
	return s.missed, nil
}

var (
	start  = time.Unix(1700000000, 123456789)
	icrc   = drop("icrc")
	icrcAt = "dropped, icrc: the ICRC is wrong"
)

func drop(name string) lcore.Drop {
	d, _ := lcore.DropNamed(name)
	return d
}

func udp(payload string) []byte {
	return (&roce.Packet{
		Version: 2, Dst: frame.MAC{2, 0, 0, 0, 0, 2}, Src: frame.MAC{2, 0, 0, 0, 0, 1}, SrcIP: netip.MustParseAddr("10.9.0.1"),
		DstIP: netip.MustParseAddr("10.9.0.7"), HopLimit: 64, SrcPort: 0xc123, PKey: ib.PKeyDefault, DestQP: 0x77, QKey: ib.QKeyRDMAUDP,
		SrcQP: 0x55, Payload: []byte(payload),
	}).AppendTo(nil)
}

func gid(s string) ib.GID {
	g, err := ib.ParseGID(s)
	if err != nil {
		panic(err)
	}
	return g
}

// traffic is one packet each way, and one that is dropped.
func traffic() []lcore.MirroredPacket {
	f, bad, long := udp("Hello"), udp("bad"), strings.Repeat("there", 100)
	sent := &lcore.MirroredIB{Known: true, QPN: 0x700, Peer: 0x77, QKey: 0x01234567, DGID: gid("fe80::7"), SGID: gid("fe80::1"), SLID: 4, DLID: 7, SL: 2,
		PKey: 0xffff, GRH: true, TClass: 0x60, HopLimit: 63}
	came := &lcore.MirroredIB{Known: true, QPN: 0x700, Peer: 0x77, DGID: gid("fe80::1"), SGID: gid("fe80::7"), SLID: 7, DLID: 4, PKey: 0xffff, GRH: true,
		HasImm: true, Imm: 0xabcd}
	all := []lcore.MirroredPacket{
		{Packet: 1, Point: lcore.Received, Side: lcore.RoCESide, Len: len(f), Data: f},
		{Packet: 1, Point: lcore.Sent, Side: lcore.IBSide, IB: sent, Len: 5, Data: []byte("Hello")},
		{Packet: 2, Point: lcore.Received, Side: lcore.RoCESide, Len: len(bad), Data: bad},
		{Packet: 2, Point: lcore.Dropped, Drop: icrc, Side: lcore.RoCESide, Len: len(bad), Data: bad},
		{Packet: 3, Direction: lcore.IBToRoCE, Point: lcore.Received, Side: lcore.IBSide, IB: came, Len: 500, Data: []byte(long)},
		{Packet: 3, Direction: lcore.IBToRoCE, Point: lcore.Waiting, Side: lcore.RoCESide, Len: len(f), Data: f},
		{Packet: 3, Direction: lcore.IBToRoCE, Point: lcore.Sent, Side: lcore.RoCESide, Len: len(f), Data: f},
	}
	for i := range all {
		all[i].Time = start.Add(time.Duration(i) * time.Millisecond)
	}
	return all
}

// decoded returns the fields that tshark finds.
func decoded(t *testing.T, file string, fields ...string) [][]string {
	t.Helper()
	path, err := exec.LookPath("tshark")
	if err != nil {
		const missing = "tshark is not installed: no other program checks what was written (apt-get install tshark)"
		if os.Getenv("CI") != "" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	args := []string{"-n", "-r", file, "-T", "fields", "-E", "occurrence=f"}
	for _, f := range fields {
		args = append(args, "-e", f)
	}
	cmd := exec.Command(path, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("tshark: %v\n%s", err, &stderr)
	}
	var rows [][]string
	for line := range strings.Lines(string(out)) {
		rows = append(rows, strings.Split(strings.TrimSuffix(line, "\n"), "\t"))
	}
	return rows
}

// captured writes a file and returns it with its result.
func captured(t *testing.T, s script, filter string, l Limits) (string, Result) {
	t.Helper()
	f, err := lcore.ParseFilter(strings.Fields(filter))
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "capture.pcapng")
	if l.Duration == 0 {
		l.Duration = 50 * time.Millisecond
	}
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r, err := Write(t.Context(), s, f, file, l)
	if err != nil {
		t.Fatal(err)
	}
	return name, r
}

var shown = []string{"frame.interface_name", "frame.protocols", "infiniband.bth.destqp", "infiniband.deth.srcqp", "infiniband.lrh.dlid", "frame.comment", "frame.time_epoch"}

// tshark reads both ports' packets with their own link type and in order, and a dropped packet's comment says why.
func TestTshark(t *testing.T) {
	name, r := captured(t, script{mirrors: traffic(), missed: 9}, "", Limits{})
	rows := decoded(t, name, shown...)
	want := []struct{ ibPort, protocols, dst, src, dlid, comment string }{
		{"roce", "eth:ethertype:ip:udp:infiniband", "0x000077", "0x00000055", "", ""},
		{"ib", "erf:infiniband", "0x000077", "0x00000700", "7", ""},
		{"roce", "eth:ethertype:ip:udp:infiniband", "0x000077", "0x00000055", "", icrcAt},
		{"ib", "erf:infiniband", "0x000700", "0x00000077", "4", ""},
		{"roce", "eth:ethertype:ip:udp:infiniband", "0x000077", "0x00000055", "", ""},
	}
	if len(rows) != len(want) {
		t.Fatalf("%d packets: %q", len(rows), rows)
	}
	for i, w := range want {
		g := rows[i]
		if g[0] != w.ibPort || !strings.HasPrefix(g[1], w.protocols) || g[2] != w.dst || g[3] != w.src || g[4] != w.dlid || g[5] != w.comment {
			t.Errorf("packet %d: %q, want %q", i, g, w)
		}
	}
	if rows[0][6] != "1700000000.123456789" {
		t.Errorf("the first at %s", rows[0][6])
	}
	if r.Packets != [2]uint64{3, 2} || r.Dropped[icrc] != 1 || r.Missed != 9 || r.Bytes == 0 {
		t.Errorf("result %+v", r)
	}
	info, err := os.Stat(name)
	if err != nil || info.Size() != r.Bytes {
		t.Errorf("the file: %v, %v; %d bytes counted", info, err, r.Bytes)
	}
}

// A capture of drops contains only dropped packets.
func TestDropsOnly(t *testing.T) {
	dropped := traffic()[3:4] // what a filter for drops lets pass
	name, r := captured(t, script{mirrors: dropped}, "drop any", Limits{})
	rows := decoded(t, name, shown...)
	if len(rows) != 1 || rows[0][5] != icrcAt || r.Packets != [2]uint64{1, 0} {
		t.Errorf("%q, %+v", rows, r)
	}
}

// A packet that is cut to the snap length keeps its original length in its record, and its headers are unchanged.
func TestSnap(t *testing.T) {
	name, _ := captured(t, script{mirrors: traffic()}, "", Limits{Snap: 60})
	const eth, ibHeaders, trailer = 14 + 20 + 8 + 20, 8 + 40 + 20, 4 + 2
	want := [][]int{{eth + 8 + 4, 60}, {ibHeaders + 8 + trailer, ibHeaders + 8 + trailer}, {eth + 4 + 4, 60},
		{ibHeaders + 4 + 500 + trailer, ibHeaders + 4 + 60}, {eth + 8 + 4, 60}}
	for i, row := range decoded(t, name, "frame.len", "frame.cap_len", "infiniband.lrh.pktlen") {
		if row[0] != fmt.Sprint(want[i][0]) || row[1] != fmt.Sprint(want[i][1]) || i == 3 && row[2] != "144" {
			t.Errorf("packet %d: %q, want %v", i, row, want[i])
		}
	}
}

func TestLimits(t *testing.T) {
	endless := script{mirrors: traffic(), again: true}
	if _, r := captured(t, endless, "", Limits{Packets: 7, Duration: time.Minute}); r.Packets[0]+r.Packets[1] != 7 {
		t.Errorf("packets: %+v", r)
	}
	if _, r := captured(t, endless, "", Limits{Bytes: 100000, Duration: time.Minute}); r.Bytes < 100000 || r.Bytes > 110000 {
		t.Errorf("bytes: %+v", r)
	}
	if _, r := captured(t, script{}, "", Limits{Duration: 30 * time.Millisecond}); r.Duration < 30*time.Millisecond || r.Duration > time.Minute {
		t.Errorf("duration: %+v", r)
	}
}

// Captured packets are written to the file soon even while no more come: somebody may follow the file.
func TestReadAlong(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	mirrors := traffic()
	for i := range mirrors {
		mirrors[i].Time = time.Now()
	}
	out := &watched{wanted: []byte("Hello"), came: make(chan struct{})}
	ended := make(chan error)
	go func() {
		_, err := Write(ctx, script{mirrors: mirrors[:2]}, lcore.Filter{}, out, Limits{})
		ended <- err
	}()
	select {
	case <-out.came:
	case <-time.After(time.Minute):
		t.Error("nothing is written before the end")
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

type watched struct {
	wanted []byte
	came   chan struct{}
	done   bool
}

func (w *watched) Write(b []byte) (int, error) {
	if !w.done && bytes.Contains(b, w.wanted) {
		w.done = true
		close(w.came)
	}
	return len(b), nil
}

// A writer that fails ends the capture, and says so.
func TestWriteFails(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	if _, err := Write(t.Context(), script{mirrors: traffic(), again: true}, lcore.Filter{}, full, Limits{}); err == nil {
		t.Error("nothing was said")
	}
}

// TestSeveralPorts has packets of several ports of each kind: each port has an interface, and the counts are of sides.
func TestSeveralPorts(t *testing.T) {
	all := traffic()
	all[0].PortName, all[2].PortName, all[3].PortName, all[6].PortName = "af_packet:eth1", "af_packet:eth2", "af_packet:eth2", "af_packet:eth1"
	all[1].IB.Ports, all[4].IB.Ports = "a+b", "b"
	name, r := captured(t, script{mirrors: all}, "", Limits{})
	var got []string
	for _, row := range decoded(t, name, "frame.interface_name", "frame.protocols") {
		link, _, _ := strings.Cut(row[1], ":")
		got = append(got, row[0]+" "+link)
	}
	want := "roce af_packet:eth1 eth, ib a+b erf, roce af_packet:eth2 eth, ib b erf, roce af_packet:eth1 eth"
	if strings.Join(got, ", ") != want || r.Packets != [2]uint64{3, 2} {
		t.Errorf("%q, %+v, want %s", got, r.Packets, want)
	}
}
