// SPDX-License-Identifier: Apache-2.0

// Package pktgen has another generator, Pktgen-DPDK, send our traffic: it writes captures of frames that our own
// generator made, so that each is valid to the ICRC, a Lua script that sends them and counts, and runs pktgen with both.
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
	Frames  int // in the capture, which pktgen sends again and again; 0: one of each flow
}

// flows are the hosts, and nodes: a whole bridge's software subnet has as many.
const flows = 64

// Profiles are the shipped ones: a payload each, IPv4, and a mix of everything that a bridge carries.
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

// Find returns the shipped profile of a name.
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

// Script is what the Lua script is told.
type Script struct {
	Rate    float64 // per cent of what the port says is its speed
	PPS     float64 // instead of Rate, if it is not 0
	Seconds int
}

//go:embed script.lua.tmpl
var scriptText string

var script = template.Must(template.New("script").Parse(scriptText))

// Lua writes the script.
func (s Script) Lua() ([]byte, error) {
	if s.Rate <= 0 || s.Rate > 100 || s.PPS < 0 || s.Seconds < 1 {
		return nil, fmt.Errorf("pktgen: %g per cent, or %g packets a second, for %d seconds; use more than 0 to 100, no less than 0, and at least a second",
			s.Rate, s.PPS, s.Seconds)
	}
	var b bytes.Buffer
	err := script.Execute(&b, s)
	return b.Bytes(), err
}

// Write puts a profile's capture and script into a folder, which it makes, and a configuration of a bridge at a port that
// is named as in a configuration.
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

// Files are what Write wrote.
type Files struct {
	Capture, Script string
	Bridge          string  // a configuration for "causeway run"; its subnet's lies beside it
	FrameBytes      float64 // mean
	Longest         int     // bytes of the longest frame
}

// MetricsAddress is where the bridge of a profile's configuration serves its counters.
const MetricsAddress = "127.0.0.1:9432"

// writeBridge writes a configuration of a bridge, at a port, that knows this traffic, and one of its subnet.
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

// writeCapture returns the mean of the frames' lengths, and the longest.
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
