// SPDX-License-Identifier: Apache-2.0

package pktgen_test

import (
	"errors"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopacket/gopacket/pcapgo"

	"causeway/config"
	"causeway/ibside/fabric"
	"causeway/lcore/frame/roce"
	"causeway/perf/pktgen"
)

// Every frame of every capture is valid, including its ICRC, for a codec other than the generator's.
func TestCaptures(t *testing.T) {
	for _, p := range pktgen.Profiles() {
		t.Run(p.Name, func(t *testing.T) {
			f, err := p.Write(t.TempDir(), pktgen.Script{Rate: 100, Seconds: 1}, "memif:/run/x.sock,role=server")
			if err != nil {
				t.Fatal(err)
			}
			lengths, groups, n := map[int]bool{}, 0, 0
			bytes := 0
			frames(t, f.Capture, func(b []byte) {
				packet, err := roce.Parse(b)
				if err != nil {
					t.Fatalf("frame %d: %v", n, err)
				}
				if (packet.Tag != nil) != (p.Traffic.VLAN != 0) {
					t.Errorf("frame %d: tag %+v", n, packet.Tag)
				}
				if packet.IsMulticast() {
					groups++
				}
				lengths[len(packet.Payload)] = true
				bytes += len(b)
				n++
			})
			if math.Abs(f.FrameBytes*float64(n)-float64(bytes)) > 0.01 {
				t.Errorf("a mean of %g bytes, of %d in %d frames", f.FrameBytes, bytes, n)
			}
			knownToBridge(t, p, f.Bridge)
			if n != p.Traffic.Flows || len(lengths) != len(p.Traffic.Payloads) || groups != int(float64(n)*p.Traffic.Share) {
				t.Errorf("%d frames, %d to groups, lengths %v", n, groups, lengths)
			}
		})
	}
}

// knownToBridge checks that the configuration is valid, and has these hosts, nodes and groups.
func knownToBridge(t *testing.T, p pktgen.Profile, name string) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Parse(name, text)
	if err != nil {
		t.Fatal(err)
	}
	if len(cfg.Hosts) != 2*p.Traffic.Flows || len(cfg.Groups) != p.Traffic.Groups || cfg.RoCE.VLAN != p.Traffic.VLAN {
		t.Errorf("%d hosts and nodes, %d groups, VLAN %d", len(cfg.Hosts), len(cfg.Groups), cfg.RoCE.VLAN)
	}
	if _, err := fabric.Load(strings.TrimSuffix(name, ".toml") + "-subnet.toml"); err != nil {
		t.Error(err)
	}
}

func frames(t *testing.T, name string, f func(b []byte)) {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }() // it was only read
	r, err := pcapgo.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	for {
		b, _, err := r.ReadPacketData()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		f(b)
	}
}

// luaCheck is a program that parses Lua without running it. Pktgen 23.03 has Lua 5.3; the script uses only what both
// versions have.
func luaCheck(t *testing.T) []string {
	t.Helper()
	for _, args := range [][]string{{"luac5.4", "-p"}, {"luac5.3", "-p"}, {"luac", "-p"}} {
		if _, err := exec.LookPath(args[0]); err == nil {
			return args
		}
	}
	t.Skip("no luac: the package lua5.4 has it. TestScriptShape checks what can be checked without")
	return nil
}

// The script is valid Lua.
func TestScriptSyntax(t *testing.T) {
	check := luaCheck(t)
	f, err := pktgen.Profiles()[0].Write(t.TempDir(), pktgen.Script{Rate: 12.5, Seconds: 3}, "null")
	if err != nil {
		t.Fatal(err)
	}
	lua := f.Script
	if out, err := exec.Command(check[0], append(check[1:], lua)...).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	broken := filepath.Join(t.TempDir(), "broken.lua")
	b, err := os.ReadFile(lua)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(broken, []byte(strings.Replace(string(b), "\nend\n", "\n", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := exec.Command(check[0], append(check[1:], broken)...).Run(); err == nil {
		t.Error("a script without an end was not noticed: this test sees nothing")
	}
}

// Without a Lua compiler: blocks and parentheses are balanced, and the parameters are there.
func TestScriptShape(t *testing.T) {
	b, err := pktgen.Script{Rate: 12.5, Seconds: 3}.Lua()
	if err != nil {
		t.Fatal(err)
	}
	opened, closed := 0, 0
	var code strings.Builder
	for line := range strings.Lines(string(b)) {
		line, _, _ = strings.Cut(line, "--")
		code.WriteString(line)
		for _, word := range strings.FieldsFunc(line, func(c rune) bool { return c != '_' && (c < 'a' || c > 'z') }) {
			switch word {
			case "function", "do", "then":
				opened++
			case "end":
				closed++
			}
		}
	}
	text := code.String()
	if opened == 0 || opened != closed || strings.Count(text, "(") != strings.Count(text, ")") || strings.Contains(text, "{{") {
		t.Errorf("%d blocks opened, %d closed:\n%s", opened, closed, text)
	}
	for _, want := range []string{"local rate = 12.5 ", "local seconds = 3\n", "local pps = 0 "} {
		if !strings.Contains(string(b), want) {
			t.Errorf("there is no %q", want)
		}
	}
	for _, bad := range []pktgen.Script{{Rate: 0, Seconds: 1}, {Rate: 101, Seconds: 1}, {Rate: 1, Seconds: 0}, {Rate: 1, PPS: -1, Seconds: 1}} {
		if _, err := bad.Lua(); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
}
