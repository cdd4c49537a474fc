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

// Profiles are the shipped ones: a payload each, IPv4, and a mix of everything that a bridge carries.
func Profiles() []Profile {
	var out []Profile
	for _, payload := range []int{64, 256, 1024, 4096} {
		out = append(out, Profile{
			Name: fmt.Sprintf("ipv4-%d", payload), Traffic: dut.Traffic{Payloads: []int{payload}, Flows: 256, IP: []int{4}},
		})
	}
	return append(out,
		Profile{Name: "ipv6-64", Traffic: dut.Traffic{Payloads: []int{64}, Flows: 256, IP: []int{6}}},
		Profile{Name: "vlan-64", Traffic: dut.Traffic{Payloads: []int{64}, Flows: 256, IP: []int{4}, VLAN: 300}},
		Profile{Name: "multicast-64", Traffic: dut.Traffic{Payloads: []int{64}, Flows: 64, IP: []int{4}, Groups: 16, Share: 1}},
		Profile{Name: "mix", Traffic: dut.Traffic{Payloads: []int{64, 1024, 256, 4096}, Flows: 256, IP: []int{4, 6}, Groups: 16, Share: 0.2}})
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
	Seconds int
}

//go:embed script.lua.tmpl
var scriptText string

var script = template.Must(template.New("script").Parse(scriptText))

// Lua writes the script.
func (s Script) Lua() ([]byte, error) {
	if s.Rate <= 0 || s.Rate > 100 || s.Seconds < 1 {
		return nil, fmt.Errorf("pktgen: %g per cent for %d seconds; use more than 0 to 100, and at least a second", s.Rate, s.Seconds)
	}
	var b bytes.Buffer
	err := script.Execute(&b, s)
	return b.Bytes(), err
}

// Write puts a profile's capture and script into a folder, which it makes, and returns their names.
func (p Profile) Write(dir string, s Script) (capture, lua string, err error) {
	text, err := s.Lua()
	if err != nil {
		return "", "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", "", fmt.Errorf("pktgen: %w", err)
	}
	capture, lua = filepath.Join(dir, p.Name+".pcap"), filepath.Join(dir, p.Name+".lua")
	if err := p.writeCapture(capture); err != nil {
		return "", "", err
	}
	if err := os.WriteFile(lua, text, 0o644); err != nil {
		return "", "", fmt.Errorf("pktgen: %w", err)
	}
	return capture, lua, nil
}

func (p Profile) writeCapture(name string) (err error) {
	n := p.Frames
	if n == 0 {
		n = max(p.Traffic.Flows, p.Traffic.Groups)
	}
	frames, err := p.Traffic.Frames(n)
	if err != nil {
		return err
	}
	f, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("pktgen: %w", err)
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
		return fmt.Errorf("pktgen: %s: %w", name, err)
	}
	at := time.Unix(0, 0)
	for _, b := range frames {
		at = at.Add(time.Microsecond)
		if err := w.WritePacket(gopacket.CaptureInfo{Timestamp: at, CaptureLength: len(b), Length: len(b)}, b); err != nil {
			return fmt.Errorf("pktgen: %s: %w", name, err)
		}
	}
	return buffered.Flush()
}
