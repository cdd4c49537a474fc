// SPDX-License-Identifier: Apache-2.0

package frame_test

import (
	"encoding/json"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"causeway/lcore/frame"
)

// builtUDP are UDP frames and what another decoder must find in them. A checksum's status 1 is good, 3 is none.
func builtUDP() []builtFrame {
	from4, to4 := netip.AddrPortFrom(host1, 49152), netip.AddrPortFrom(host2, 5555)
	from6, to6 := netip.AddrPortFrom(six1, 49152), netip.AddrPortFrom(six2, 5555)
	punted := []byte("seventeen letters")
	return []builtFrame{
		{
			name: "UDP over IPv4", summary: "ip.dsfield=0x62 ip.ttl=9 ip.checksum.status=1 udp.length=25 udp.checksum.status=1",
			frame: frame.AppendUDP(nil, port1, mac2, frame.Datagram{Src: from4, Dst: to4, TOS: 0x62, TTL: 9, Checksum: true}, punted),
		},
		{
			name: "UDP over IPv4 without a checksum, tagged", summary: "vlan.id=100 ip.checksum.status=1 ip.flags.df=1 udp.checksum.status=3",
			frame: frame.AppendUDP(nil, tagged, mac2, frame.Datagram{Src: from4, Dst: to4, TTL: 64}, nil),
		},
		{
			name: "UDP over IPv6", summary: "ipv6.tclass=0x00000062 ipv6.flow=0x012345 ipv6.hlim=9 udp.length=25 udp.checksum.status=1",
			frame: frame.AppendUDP(nil, port1, mac2, frame.Datagram{
				Src: from6, Dst: to6, TOS: 0x62, TTL: 9, FlowLabel: 0x12345, Checksum: true,
			}, punted),
		},
	}
}

// findTshark returns the program. Without it the test is skipped, but in CI it fails.
func findTshark(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("tshark")
	if err == nil {
		return path
	}
	if os.Getenv("CI") != "" {
		t.Fatal("tshark is missing: CI must have it")
	}
	t.Skip("tshark is missing: the frames were not compared with another decoder")
	return ""
}

// writePcap writes frames to a capture file.
func writePcap(t *testing.T, frames []builtFrame) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "frames.pcap")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := pcapgo.NewWriter(file)
	if err := w.WriteFileHeader(65536, layers.LinkTypeEthernet); err != nil {
		t.Fatal(err)
	}
	for i, f := range frames {
		ci := gopacket.CaptureInfo{Timestamp: time.Unix(int64(i), 0), CaptureLength: len(f.frame), Length: len(f.frame)}
		if err := w.WritePacket(ci, f.frame); err != nil {
			t.Fatal(err)
		}
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// decode has tshark read a capture and returns, a packet each, the values of the fields by name.
func decode(t *testing.T, path string, fields []string) []map[string][]string {
	t.Helper()
	args := []string{"-n", "-r", path, "-T", "json", "-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE"}
	for _, f := range fields {
		args = append(args, "-e", f)
	}
	out, err := exec.Command(findTshark(t), args...).Output()
	if err != nil {
		t.Fatalf("tshark: %v: %s", err, out)
	}
	var packets []struct {
		Source struct {
			Layers map[string][]string `json:"layers"`
		} `json:"_source"`
	}
	if err := json.Unmarshal(out, &packets); err != nil {
		t.Fatalf("tshark: %v in %s", err, out)
	}
	var list []map[string][]string
	for _, p := range packets {
		list = append(list, p.Source.Layers)
	}
	return list
}

// TestTshark has tshark decode all frames that this package builds: the fields must be the wanted ones, the checksums
// good, and nothing malformed.
func TestTshark(t *testing.T) {
	frames := slices.Concat(builtFrames(), builtUDP())
	fields := []string{"_ws.malformed", "_ws.expert.message"}
	for _, f := range frames {
		for want := range strings.FieldsSeq(f.summary) {
			name, _, _ := strings.Cut(want, "=")
			if !slices.Contains(fields, name) {
				fields = append(fields, name)
			}
		}
	}
	packets := decode(t, writePcap(t, frames), fields)
	if len(packets) != len(frames) {
		t.Fatalf("tshark saw %d frames of %d", len(packets), len(frames))
	}
	for i, f := range frames {
		t.Run(f.name, func(t *testing.T) {
			got := packets[i]
			if got["_ws.malformed"] != nil {
				t.Errorf("malformed: %v", got["_ws.expert.message"])
			}
			for want := range strings.FieldsSeq(f.summary) {
				name, value, _ := strings.Cut(want, "=")
				if g := strings.Join(got[name], ","); g != value {
					t.Errorf("%s: got %q, want %q", name, g, value)
				}
			}
		})
	}
}
