// SPDX-License-Identifier: Apache-2.0

package pktgen_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"causeway/perf/pktgen"
)

func TestArguments(t *testing.T) {
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct{ port, want string }{
		{"memif:/run/x.sock,role=client", "--no-pci --vdev net_memif0,socket=/run/x.sock,socket-abstract=no,bsize=8192,role=client -- "},
		{"memif:x.sock", "socket=" + wd + "/x.sock,"},
		{"af_packet:eth1", "--no-pci --vdev net_af_packet0,iface=eth1,"},
		{"0000:3b:00.0", "-a 0000:3b:00.0 -- "},
	} {
		args, err := pktgen.Runner{Port: x.port, CPUs: []int{2, 3}}.Arguments("a.pcap", "a.lua")
		line := strings.Join(args, " ")
		if err != nil || !strings.Contains(line, x.want) || !strings.HasSuffix(line, "-m 3.0 -s 0:a.pcap -f a.lua") || !strings.HasPrefix(line, "-l 2,3 ") {
			t.Errorf("%s: %v: %s", x.port, err, line)
		}
	}
	args, err := pktgen.Runner{Port: "0000:3b:00.0", CPUs: []int{1}}.Arguments("a.pcap", "a.lua")
	if line := strings.Join(args, " "); err != nil || !strings.HasPrefix(line, "--lcores 1@1,2@1 --main-lcore 1 ") || !strings.Contains(line, "-m 2.0 ") {
		t.Errorf("one CPU: %v: %s", err, line)
	}
	for _, bad := range []pktgen.Runner{{Port: "eth1", CPUs: []int{2, 3}}, {Port: "memif:", CPUs: []int{2, 3}}, {Port: "af_packet:lo", CPUs: []int{2, 2}}} {
		if _, err := bad.Arguments("", ""); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
}

// fake makes a program of that name with output like pktgen's.
func fake(t *testing.T, shell string) pktgen.Runner {
	t.Helper()
	name := filepath.Join(t.TempDir(), "pktgen")
	const draws = "#!/bin/sh\nprintf '\\033[2J\\033[1;1H| Ports | Pktgen 23.03.0 (DPDK 22.11.11)\\r\\n'\n"
	if err := os.WriteFile(name, []byte(draws+shell), 0o700); err != nil {
		t.Fatal(err)
	}
	return pktgen.Runner{Program: name, Port: "af_packet:lo", CPUs: []int{0, 1}}
}

const counting = "for s in 0 1 2 3 4; do printf '\\nCAUSEWAY second=%d tx=%d rx=%d tx_errors=2 rx_missed=3\\n\\033[3;4H' " +
	"$s $((s*1000+10)) $((s*900)); sleep 0.05; done\n"

// A fake pktgen writes to the terminal as pktgen does, and prints counts as the script does.
func TestRun(t *testing.T) {
	r := fake(t, counting+"exit 1\n")
	var pids []int
	r.Sending = func(pid int) { pids = append(pids, pid) }
	got, err := r.Run(t.Context(), "a.pcap", filepath.Join(t.TempDir(), "a.lua"), 3)
	if err != nil {
		t.Fatal(err)
	}
	if len(pids) != 1 || pids[0] <= 0 {
		t.Errorf("the beginning was told with %v", pids)
	}
	if len(got.Seconds) != 5 || got.Sent != 4000 || got.Received != 3600 || got.Loss != 0.1 || got.SendErrors != 0 || got.Missed != 0 {
		t.Errorf("%+v", got)
	}
	if got.SentPPS < 2000 || got.SentPPS > 25000 || got.ReceivedPPS >= got.SentPPS { // 20000, if time is what it should be
		t.Errorf("%g sent and %g received a second", got.SentPPS, got.ReceivedPPS)
	}
	got.Profile, got.Port, got.FrameBytes = "ipv4-64", r.Port, 126
	got.DUT = &pktgen.DUT{Received: 4000, Sent: 3990, Drops: map[string]uint64{"ib_full": 7, "acl": 3}}
	var text strings.Builder
	if err := got.Write(&text); err != nil {
		t.Fatal(err)
	}
	got.DUT.MissedUnknown = true
	if err := got.Write(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"received 4000 of 4000, missed not known; ", "Pktgen 23.03.0, DPDK 22.11.11, ipv4-64, af_packet:lo\n", "10.0000 %", " 4000\n", " 3600\n", " 400\n",
		"the bridge: received 4000 of 4000, missed 0; sent on 3990, dropped 10 (acl 3, ib_full 7)\n",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("there is no %q in\n%s", want, text.String())
		}
	}
	b, err := json.Marshal(got)
	if err != nil || !strings.Contains(string(b), `"sent":4000,"received":3600,`) || !strings.Contains(string(b), `"ib_full":7`) {
		t.Errorf("%v: %s", err, b)
	}
}

// Failures are explained in one line, with advice.
func TestFailures(t *testing.T) {
	const panicked = "echo 'PANIC in main():'; echo 'Cannot %s'; echo '0: librte_eal.so (rte_dump_stack+0x3d) [7f]'; exit 134\n"
	dir := t.TempDir()
	stale := filepath.Join(dir, "stale.sock")
	if err := os.WriteFile(stale, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct{ name, shell, port, want string }{
		{"it ends too soon", strings.Replace(counting, "2 3 4", "2", 1) + "echo 'the end'; exit 7\n", "", "ended after 2 of 9 seconds: exit status 7; its last line: the end"},
		{"it says nothing", "exit 0\n", "", "ended after 0 of 9 seconds: exit status 0"},
		{"memory", fmt.Sprintf(panicked, "create mbuf pool (x): Cannot allocate memory"), "", "Cannot create mbuf pool (x): Cannot allocate memory; it needs 1792 MiB"},
		{"EAL", "echo 'EAL: Error - exiting with code: 1'\nexit 1\n", "", "Error - exiting with code: 1"},
		{"it crashes", "kill -SEGV $$\n", "", "ended after 0 of 9 seconds: signal: segmentation fault"},
		{"no interface", "", "af_packet:none9", "pktgen: af_packet:none9: there is no interface none9 here; ip link lists those that there are"},
		{"no socket", "", "memif:" + dir + "/none.sock", "there is no such socket; first start a bridge whose port is memif:" + dir + "/none.sock,role=server"},
		{"nothing connected", "echo 'CAUSEWAY error=the port has no link'\n", "memif:" + stale, "nothing is connected to the other end; is the bridge running?"},
		{"MTU", fmt.Sprintf(panicked, "set MTU 9216 on port 0, (95)x"), "memif:" + stale, "pktgen must be linked to DPDK's shared libraries"},
		{"jumbo frames", fmt.Sprintf(panicked, "set MTU 9216 on port 0, (22)x"), "0000:3b:00.0", "the port must take jumbo frames"},
	} {
		t.Run(x.name, func(t *testing.T) {
			r := fake(t, x.shell)
			if x.port != "" {
				r.Port = x.port
			}
			_, err := r.Run(t.Context(), "a.pcap", filepath.Join(dir, "a.lua"), 9)
			if err == nil || !strings.Contains(err.Error(), x.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v", err)
			}
		})
	}
	t.Run("a small MTU", func(t *testing.T) {
		r := fake(t, "exit 0\n")
		r.Longest = 70000
		if _, err := r.Run(t.Context(), "", filepath.Join(dir, "a.lua"), 1); err == nil || !strings.Contains(err.Error(), "the longest frame needs 69986") {
			t.Errorf("%v", err)
		}
	})
	t.Run("no pktgen", func(t *testing.T) {
		t.Setenv("PATH", dir)
		_, err := pktgen.Runner{Port: "af_packet:lo", CPUs: []int{0, 1}}.Run(t.Context(), "", "", 1)
		if err == nil || !strings.Contains(err.Error(), "there is no pktgen in PATH; build Pktgen-DPDK 23.03") {
			t.Errorf("%v", err)
		}
	})
	t.Run("interrupted", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := fake(t, "sleep 20\n").Run(ctx, "", filepath.Join(dir, "a.lua"), 1); err == nil {
			t.Error("it ran")
		}
	})
}

// The bridge's counters are read from its metrics, and reduced to those of the run.
func TestDUT(t *testing.T) {
	served := 0
	const metrics = `# HELP causeway_packets_received_total Packets.
causeway_packets_received_total{direction="roce_to_ib"} %d
causeway_packets_received_total{direction="ib_to_roce"} 999
causeway_packets_sent_total{direction="roce_to_ib"} %d
causeway_packets_dropped_total{direction="roce_to_ib",reason="ib_full"} %d
causeway_packets_dropped_total{direction="roce_to_ib",reason="l2_short"} 4
causeway_packets_dropped_total{direction="ib_to_roce",reason="ib_full"} 77
causeway_port_rx_no_mbuf_total 0
`
	missed := "causeway_port_rx_missed_total %d\n"
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			return
		}
		served++
		_, _ = fmt.Fprintf(w, metrics, served*100, served*90, served*10)
		if missed != "" {
			_, _ = fmt.Fprintf(w, missed, served)
		}
	}))
	defer s.Close()
	before, err := pktgen.ReadDUT(t.Context(), s.URL+"/metrics")
	if err != nil {
		t.Fatal(err)
	}
	after, err := pktgen.ReadDUT(t.Context(), s.URL+"/metrics")
	if err != nil {
		t.Fatal(err)
	}
	b := after.Since(before)
	if b.Received != 100 || b.Sent != 90 || b.Missed != 1 || b.MissedUnknown || b.Dropped() != 10 || len(b.Drops) != 1 || b.Drops["ib_full"] != 10 {
		t.Errorf("%+v", b)
	}
	missed = ""
	if d, err := pktgen.ReadDUT(t.Context(), s.URL+"/metrics"); err != nil || !d.Since(after).MissedUnknown {
		t.Errorf("%+v, %v; nobody knows what was missed", d, err)
	}
	if _, err := pktgen.ReadDUT(t.Context(), s.URL+"/other"); err == nil || !strings.Contains(err.Error(), "none in its reply") {
		t.Errorf("%v", err)
	}
	s.Close()
	if _, err := pktgen.ReadDUT(t.Context(), s.URL+"/metrics"); err == nil {
		t.Error("an absent bridge was read")
	}
}

// TestKept checks that a rate that pktgen did not keep is an error: more than asked for, and less.
func TestKept(t *testing.T) {
	for _, c := range []struct {
		pps  float64
		sent uint64
		want string
	}{
		{0, 316288, ""}, {200, 2000, ""}, {200, 2190, ""}, {200, 1810, ""},
		{200, 316288, "-pps 200 was not kept: 316288 frames were sent in 10.0 s, and 2000 were asked for"}, {200, 1000, "1000 frames were sent"},
	} {
		var r pktgen.Result
		for i := range 12 {
			r.Seconds = append(r.Seconds, pktgen.Second{Second: i, At: time.Duration(i) * time.Second})
		}
		r.Sent = c.sent
		if err := r.Kept(c.pps); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%g pps, %d sent: %v", c.pps, c.sent, err)
		}
	}
}

// TestVersion checks that the version is known by the script's line alone: with its screen off pktgen does not draw it.
func TestVersion(t *testing.T) {
	r := fake(t, "printf '\\033[2J\\nCAUSEWAY version=Pktgen 23.03.1 dpdk=DPDK 22.11.4\\n'\n"+counting)
	r.Program = undrawn(t, r.Program)
	if got, err := r.Run(t.Context(), "a.pcap", filepath.Join(t.TempDir(), "a.lua"), 3); err != nil || got.Pktgen != "Pktgen 23.03.1, DPDK 22.11.4" {
		t.Errorf("%q, %v", got.Pktgen, err)
	}
}

// undrawn removes what a fake draws at its start.
func undrawn(t *testing.T, program string) string {
	t.Helper()
	text, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	text = []byte(strings.Replace(string(text), "Pktgen 23.03.0 (DPDK 22.11.11)", "", 1))
	if err := os.WriteFile(program, text, 0o700); err != nil {
		t.Fatal(err)
	}
	return program
}
