// SPDX-License-Identifier: Apache-2.0

package pktgen_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"causeway/perf/pktgen"
)

// fakePktgen has fakes of the functions of pktgen 23.03 that the script calls: it counts by time, and fails for
// functions that 23.03 does not have.
const fakePktgen = `
local now, sending, rate, state, quit = 0, false, 0, "LINK", false
local sent, least, factor = 0, LEAST, FACTOR -- the least rate that it knows, and how many times too much it sends
pktgen = setmetatable({
	screen = function(on) assert(on == "off") end,
	stop = function(port) assert(port == "0"); sending = false end,
	start = function(port) assert(port == "0"); sending = true end,
	clear = function(port) assert(port == "0"); sent = 0 end,
	pcap = function(port, on) assert(port == "0" and on == "on") end,
	set = function(port, what, value)
		assert(port == "0" and (what == "count" or what == "rate"))
		if what == "rate" then rate = math.max(value, least) end
	end,
	linkState = function(port) return { [0] = state, n = 1 } end,
	delay = function(ms) now = now + ms; if sending then sent = sent + math.floor(ms * rate * factor) end end,
	portStats = function(port, kind)
		assert(port == "0" and kind == "port")
		return { [0] = { opackets = sent, ipackets = sent // 2, oerrors = 1, imissed = 2, rx_nombuf = 3 }, n = 1 }
	end,
	portInfo = function(port) return { [0] = { info = { tx_debug = { tx_pps = 1000 * rate } } }, n = 1 } end,
	info = { Pktgen_Version = "Pktgen 23.03.0", DPDK_Version = "DPDK 22.11.11" },
	quit = function() quit = true end,
}, { __index = function(_, name) error("pktgen has no " .. name) end })
dofile(arg[1])
assert(quit, "it does not quit")
`

// up is the state of a link.
const up = "<UP-100000-FD>"

// scriptRuns are scripts, and what each prints.
var scriptRuns = []struct {
	name, link string
	script     pktgen.Script
	want       []string
}{
	{"rate", up, pktgen.Script{Rate: 12.5, Seconds: 2}, []string{
		"CAUSEWAY version=Pktgen 23.03.0 dpdk=DPDK 22.11.11",
		"CAUSEWAY second=0 tx=0 rx=0 tx_errors=1 rx_missed=5", "CAUSEWAY second=1 tx=12500 rx=6250", "CAUSEWAY second=2 tx=25000 rx=12500",
		"CAUSEWAY second=3 tx=25000 rx=12500",
	}},
	{"packets a second", up, pktgen.Script{Rate: 100, PPS: 50000, Seconds: 1}, []string{"CAUSEWAY second=1 tx=50000 "}}, // 50 %
	{"packets a second, and a rate", up, pktgen.Script{Rate: 30, PPS: 50000, Seconds: 1}, []string{"CAUSEWAY second=1 tx=50000 "}},
	{"more than it can", up, pktgen.Script{Rate: 100, PPS: 5e6, Seconds: 1}, []string{
		"CAUSEWAY error=-pps 5e+06 cannot be kept: pktgen would send 100000 packets a second, and can send 100000 at most"}},
	{"less than it can", up, pktgen.Script{Rate: 100, PPS: 200, Seconds: 1}, []string{
		"CAUSEWAY error=-pps 200 cannot be kept: pktgen would send 1000 packets a second, and can send 100000 at most"}},
	{"not what it says", "overdone", pktgen.Script{Rate: 100, PPS: 2000, Seconds: 9}, []string{
		"CAUSEWAY error=-pps 2000 was not kept: 200000 packets were sent in 1 s"}},
	{"no link", "<--Down-->", pktgen.Script{Rate: 100, Seconds: 1}, []string{"CAUSEWAY error=the port has no link"}},
}

// The script works with the fake pktgen, if there is a Lua interpreter.
func TestScriptRuns(t *testing.T) {
	program := ""
	for _, name := range []string{"lua5.3", "lua5.4", "lua"} {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		t.Skip("no lua: the package lua5.4 has it")
	}
	for _, x := range scriptRuns {
		t.Run(x.name, func(t *testing.T) {
			dir := t.TempDir()
			text, err := x.script.Lua()
			if err != nil {
				t.Fatal(err)
			}
			script, played := filepath.Join(dir, "x.lua"), filepath.Join(dir, "played.lua")
			link, factor := x.link, "1"
			if link == "overdone" {
				link, factor = up, "100"
			}
			fake := strings.NewReplacer("LINK", link, "LEAST", "1", "FACTOR", factor).Replace(fakePktgen)
			for name, text := range map[string]string{script: string(text), played: fake} {
				if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			out, err := exec.Command(program, played, script).CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if strings.Count(string(out), "CAUSEWAY") < len(x.want) {
				t.Errorf("%s", out)
			}
			for _, want := range x.want {
				if !strings.Contains(string(out), want) {
					t.Errorf("there is no %q in:\n%s", want, out)
				}
			}
		})
	}
}
