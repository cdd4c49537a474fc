// SPDX-License-Identifier: Apache-2.0

package pktgen_test

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/gopacket/gopacket/pcapgo"

	"causeway/lcore/frame/roce"
	"causeway/perf/pktgen"
)

// Every frame of every capture is a valid one, ICRC included: the codec that reads them is not the one that made them.
func TestCaptures(t *testing.T) {
	for _, p := range pktgen.Profiles() {
		t.Run(p.Name, func(t *testing.T) {
			capture, _, err := p.Write(t.TempDir(), pktgen.Script{Rate: 100, Seconds: 1})
			if err != nil {
				t.Fatal(err)
			}
			lengths, groups, n := map[int]bool{}, 0, 0
			frames(t, capture, func(b []byte) {
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
				n++
			})
			if n != p.Traffic.Flows || len(lengths) != len(p.Traffic.Payloads) || groups != int(float64(n)*p.Traffic.Share) {
				t.Errorf("%d frames, %d to groups, lengths %v", n, groups, lengths)
			}
		})
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

// luaCheck is a program that parses Lua without running it.
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

// The script is Lua.
func TestScriptSyntax(t *testing.T) {
	check := luaCheck(t)
	_, lua, err := pktgen.Profiles()[0].Write(t.TempDir(), pktgen.Script{Rate: 12.5, Seconds: 3})
	if err != nil {
		t.Fatal(err)
	}
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

// Without a Lua compiler: blocks and parentheses are closed, and the numbers are there.
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
	for _, want := range []string{"local rate = 12.5\n", "local seconds = 3\n"} {
		if !strings.Contains(string(b), want) {
			t.Errorf("there is no %q", want)
		}
	}
	for _, bad := range []pktgen.Script{{Rate: 0, Seconds: 1}, {Rate: 101, Seconds: 1}, {Rate: 1, Seconds: 0}} {
		if _, err := bad.Lua(); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
}

func TestArguments(t *testing.T) {
	for _, x := range []struct{ port, want string }{
		{"memif:/run/x.sock,role=client", "--no-pci --vdev net_memif0,socket=/run/x.sock,socket-abstract=no,bsize=8192,role=client -- "},
		{"af_packet:eth1", "--no-pci --vdev net_af_packet0,iface=eth1,"},
		{"0000:3b:00.0", "-a 0000:3b:00.0 -- "},
	} {
		args, err := pktgen.Runner{Port: x.port, CPUs: []int{2, 3}}.Arguments("a.pcap", "a.lua")
		line := strings.Join(args, " ")
		if err != nil || !strings.Contains(line, x.want) || !strings.HasSuffix(line, "-m 3.0 -s 0:a.pcap -f a.lua") || !strings.HasPrefix(line, "-l 2,3 ") {
			t.Errorf("%s: %v: %s", x.port, err, line)
		}
	}
	for _, bad := range []pktgen.Runner{{Port: "eth1", CPUs: []int{2, 3}}, {Port: "memif:", CPUs: []int{2, 3}}, {Port: "af_packet:eth1", CPUs: []int{2, 2}}} {
		if _, err := bad.Arguments("", ""); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
}

// A stand-in for pktgen draws as it does, and counts as the script prints.
func TestRun(t *testing.T) {
	fake := filepath.Join(t.TempDir(), "pktgen")
	const draws = "#!/bin/sh\nprintf '\\033[2J\\033[1;1H| Ports |\\r\\n'\n" +
		"for s in 0 1 2 3 4; do printf '\\nCAUSEWAY second=%d tx=%d rx=%d tx_errors=0 rx_missed=0\\n\\033[3;4H' $s $((s*1000)) $((s*900)); done\nexit 1\n"
	if err := os.WriteFile(fake, []byte(draws), 0o700); err != nil {
		t.Fatal(err)
	}
	r := pktgen.Runner{Program: fake, Port: "af_packet:eth1", CPUs: []int{0, 1}}
	got, err := r.Run(t.Context(), "a.pcap", "a.lua", 3)
	if err != nil {
		t.Fatal(err)
	}
	if got.TxPPS() != 1000 || got.RxPPS() != 900 || !reflect.DeepEqual(got.Seconds[4], pktgen.Second{Second: 4, Tx: 4000, Rx: 3600}) {
		t.Errorf("%+v", got)
	}
	if _, err := r.Run(t.Context(), "a.pcap", "a.lua", 30); err == nil || !strings.Contains(err.Error(), "5 seconds counted of 30: exit status 1; it said:") {
		t.Errorf("it ended too soon: %v", err)
	}
	r.Program = filepath.Join(t.TempDir(), "absent")
	if _, err := r.Run(t.Context(), "", "", 1); err == nil {
		t.Error("an absent program ran")
	}
}
