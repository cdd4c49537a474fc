// SPDX-License-Identifier: Apache-2.0

// Package pktgen has another generator, Pktgen-DPDK, send our traffic. It writes captures of frames of our own
// generator, which have a valid ICRC, and a Lua script that sends them and prints counts, and runs pktgen with both.
package pktgen

import (
	"bufio"
	"bytes"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"causeway/perf/dut"
)

// Profile is traffic for pktgen.
type Profile struct {
	Name    string
	Traffic dut.Traffic
	Frames  int // in the capture, which pktgen sends repeatedly; 0: one of each flow
}

// flows is the number of hosts, and of nodes in the bridge's software subnet.
const flows = 64

// Profiles are the built-in profiles: IPv4 with each payload, variants, and a mix of everything that a bridge forwards.
func Profiles() []Profile {
	var out []Profile
	for _, payload := range []int{64, 256, 1024, 4096} {
		out = append(out, Profile{
			Name: fmt.Sprintf("ipv4-%d", payload), Traffic: dut.Traffic{Payloads: []int{payload}, Flows: flows, IP: []int{4}},
		})
	}
	return append(out,
		Profile{Name: "ipv6-64", Traffic: dut.Traffic{Payloads: []int{64}, Flows: flows, IP: []int{6}}},
		Profile{Name: "vlan-64", Traffic: dut.Traffic{Payloads: []int{64}, Flows: flows, IP: []int{4}, VLAN: 300}},
		Profile{Name: "multicast-64", Traffic: dut.Traffic{Payloads: []int{64}, Flows: flows, IP: []int{4}, Groups: 16, Share: 1}},
		Profile{Name: "mix", Traffic: dut.Traffic{Payloads: []int{64, 1024, 256, 4096}, Flows: flows, IP: []int{4, 6}, Groups: 16, Share: 0.2}})
}

// Find returns a built-in profile by name.
func Find(name string) (Profile, error) {
	var names []string
	for _, p := range Profiles() {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return Profile{}, fmt.Errorf("pktgen: there is no profile %q; use %s", name, strings.Join(names, ", "))
}

// Script has the parameters of the Lua script.
type Script struct {
	Rate    float64 // per cent of the port's speed
	PPS     float64 // packets a second; 0: Rate
	Seconds int
}

//go:embed script.lua.tmpl
var scriptText string

var script = template.Must(template.New("script").Parse(scriptText))

// Lua writes the script.
func (s Script) Lua() ([]byte, error) {
	if s.Rate <= 0 || s.Rate > 100 || s.PPS < 0 || s.Seconds < 1 {
		return nil, fmt.Errorf("pktgen: rate %g, pps %g, %d seconds; use a rate above 0 up to 100, a pps of 0 or more, and at least one second",
			s.Rate, s.PPS, s.Seconds)
	}
	var b bytes.Buffer
	err := script.Execute(&b, s)
	return b.Bytes(), err
}

// Write writes the profile's capture and script, and configurations of a bridge and its subnet, into a folder, which it
// makes. BridgePort is written as in a configuration.
func (p Profile) Write(dir string, s Script, bridgePort string) (f Files, err error) {
	text, err := s.Lua()
	if err != nil {
		return f, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return f, fmt.Errorf("pktgen: %w", err)
	}
	base := filepath.Join(dir, p.Name)
	f = Files{Capture: base + ".pcap", Script: base + ".lua", Bridge: base + ".toml"}
	if f.FrameBytes, f.Longest, err = p.writeCapture(f.Capture); err != nil {
		return f, err
	}
	if err := os.WriteFile(f.Script, text, 0o644); err != nil {
		return f, fmt.Errorf("pktgen: %w", err)
	}
	return f, p.writeBridge(f.Bridge, bridgePort)
}

// Files are the files that Write wrote.
type Files struct {
	Capture, Script string
	Bridge          string  // a configuration for "causeway run"; the subnet's is in the same folder
	FrameBytes      float64 // mean length
	Longest         int     // bytes of the longest frame
}

// MetricsAddress is where a bridge with such a configuration serves its metrics.
const MetricsAddress = "127.0.0.1:9432"

// writeBridge writes configurations of a bridge and its subnet with the hosts and nodes of the traffic.
func (p Profile) writeBridge(name, port string) error {
	subnetFile, err := filepath.Abs(strings.TrimSuffix(name, ".toml") + "-subnet.toml")
	if err != nil {
		return fmt.Errorf("pktgen: %w", err)
	}
	bridge, subnet, err := p.Traffic.ConfigAt(port, subnetFile, 0)
	if err != nil {
		return err
	}
	bridge += fmt.Sprintf("[metrics]\nlisten = %q\n", MetricsAddress)
	for name, text := range map[string]string{name: bridge, subnetFile: subnet} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			return fmt.Errorf("pktgen: %w", err)
		}
	}
	return nil
}

// writeCapture returns the mean and the largest length of the frames.
func (p Profile) writeCapture(name string) (mean float64, longest int, err error) {
	n := p.Frames
	if n == 0 {
		n = max(p.Traffic.Flows, p.Traffic.Groups)
	}
	frames, err := p.Traffic.Frames(n)
	if err != nil {
		return 0, 0, err
	}
	f, err := os.Create(name)
	if err != nil {
		return 0, 0, fmt.Errorf("pktgen: %w", err)
	}
	defer func() {
		if closing := f.Close(); err == nil && closing != nil {
			err = fmt.Errorf("pktgen: %w", closing)
		}
	}()
	buffered := bufio.NewWriter(f)
	w := pcapgo.NewWriter(buffered)
	const snap = 65535
	if err := w.WriteFileHeader(snap, layers.LinkTypeEthernet); err != nil {
		return 0, 0, fmt.Errorf("pktgen: %s: %w", name, err)
	}
	at := time.Unix(0, 0)
	for _, b := range frames {
		mean += float64(len(b)) / float64(len(frames))
		longest = max(longest, len(b))
		at = at.Add(time.Microsecond)
		if err := w.WritePacket(gopacket.CaptureInfo{Timestamp: at, CaptureLength: len(b), Length: len(b)}, b); err != nil {
			return 0, 0, fmt.Errorf("pktgen: %s: %w", name, err)
		}
	}
	return mean, longest, buffered.Flush()
}
