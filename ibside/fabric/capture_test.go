// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopacket/gopacket/pcapgo"

	"causeway/ibside/ib"
	"causeway/ibside/ib/erftest"
)

// captureExample runs a subnet that captures, and returns the packets that were sent.
func captureExample(t *testing.T, cfg Config) {
	t.Helper()
	f, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ports := rawPorts(t, f, 2, 0)
	ports[0].Send(good(func(p *ib.Packet) { p.SLID, p.DLID, p.SL = 2, 3, 4 }))
	ports[0].Send([]byte("not captured: not a packet"))
	f.sw.setMLID(0xc001, map[ib.LID]bool{2: true, 3: true})
	ports[1].Send(multicast(func(p *ib.Packet) { p.SLID, p.DLID, p.OpCode, p.Imm = 3, 0xc001, ib.OpUDSendOnlyImm, 0x77 }))
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	checkConserved(t, f)
}

func TestCapture(t *testing.T) {
	var out bytes.Buffer
	captureExample(t, Config{Capture: &out})
	r, err := pcapgo.NewReader(&out)
	if err != nil {
		t.Fatal(err)
	}
	if r.LinkType() != ib.LinkTypeERF {
		t.Errorf("link type %d", r.LinkType())
	}
	for i, want := range [][]byte{
		good(func(p *ib.Packet) { p.SLID, p.DLID, p.SL = 2, 3, 4 }),
		multicast(func(p *ib.Packet) { p.SLID, p.DLID, p.OpCode, p.Imm = 3, 0xc001, ib.OpUDSendOnlyImm, 0x77 }),
	} {
		record, info, err := r.ReadPacketData()
		if err != nil {
			t.Fatal(err)
		}
		got, ok := erftest.Parse(record)
		if !ok || !bytes.Equal(got.Packet, want) || got.IsTruncated() {
			t.Errorf("record %d: %+v\nwant % x", i, got, want)
		}
		if d := info.Timestamp.Sub(got.Time); d < -1000 || d > 1000 {
			t.Errorf("record %d: times differ by %v", i, d)
		}
	}
	if _, _, err := r.ReadPacketData(); err == nil {
		t.Error("more than two records")
	}
}

// TestCaptureWithTshark has tshark decode the capture.
func TestCaptureWithTshark(t *testing.T) {
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("tshark is not installed")
		}
		t.Skip("tshark is not installed")
	}
	path := filepath.Join(t.TempDir(), "c.pcap")
	captureExample(t, Config{CaptureFile: path})
	args := []string{"-r", path, "-T", "fields"}
	for _, field := range strings.Fields("lrh.slid lrh.dlid lrh.sl lrh.lnh grh.dgid bth.opcode bth.destqp deth.srcqp immdt") {
		args = append(args, "-e", "infiniband."+field)
	}
	out, err := exec.Command(tshark, args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	want := "2\t3\t4\t0x02\t\t100\t0x000777\t0x00000048\n" +
		"3\t49153\t0\t0x03\tff12:4001:ffff::f01:203\t101\t0xffffff\t0x00000048\t00000077\n"
	once := strings.NewReplacer("\t\n", "\n", "00000077,00000077", "00000077") // tshark 4.0 shows an immediate twice
	if got := once.Replace(string(out)); got != want {
		t.Errorf("tshark reads\n%s\nwant\n%s", got, want)
	}
}

// full is a writer that fails like a full disk.
type full struct{}

func (full) Write(b []byte) (int, error) { return 0, errors.New("disk full") }

func TestCaptureThatFails(t *testing.T) {
	f, err := New(Config{Capture: full{}})
	if err != nil {
		t.Fatal(err)
	}
	ports := rawPorts(t, f, 1, 0)
	for range 100 {
		if ports[0].Send(good(func(p *ib.Packet) { p.SLID, p.DLID = 2, 2 })) != 1 {
			t.Fatal("the capture stops the subnet")
		}
	}
	if err := f.Close(); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("Close = %v; want the capture's error", err)
	}
	if s, _ := f.Stats(); s.Out != 100 {
		t.Errorf("stats %+v", s)
	}
	checkConserved(t, f)
}
