// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"causeway/app/slowtest"
	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/frame/roce"
)

// startsWithin is how long a bridge may take from the start of its process to the first packet that it forwards, when
// there is no group to join.
const startsWithin = time.Second

// pcapMAC is the address of DPDK's first port over capture files.
var pcapMAC = frame.MAC{0x02, 'p', 'c', 'a', 'p', 0}

// message is a message of a host to the node, for which the bridge must first make a proxy QP.
func message() []byte {
	p := roce.Packet{
		Version: 2, Src: frame.MAC{2, 0, 0, 0, 0, 1}, Dst: pcapMAC, SrcIP: netip.MustParseAddr("10.9.0.1"),
		DstIP: netip.MustParseAddr("10.9.0.7"), HopLimit: 64, SrcPort: 0xc123, PKey: ib.PKeyDefault, DestQP: 0x77,
		QKey: ib.QKeyRDMAUDP, SrcQP: 0x55, Payload: []byte("first"),
	}
	return p.AppendTo(nil)
}

// send writes messages to a capture "file", a pipe, until the test ends: a burst of them every millisecond, because the
// driver waits for a whole burst. Unlike other ports that receive frames, it needs no privileges.
func send(t *testing.T, pipe string) {
	t.Helper()
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := os.OpenFile(pipe, os.O_RDWR, 0) // for reading, too: it need not wait for the bridge to open it
	if err != nil {
		t.Fatal(err)
	}
	const magic, version, longest, ethernet, burst = 0xa1b2c3d4, 2 | 4<<16, 65535, 1, 64
	words := func(all ...uint32) (b []byte) {
		for _, w := range all {
			b = binary.LittleEndian.AppendUint32(b, w)
		}
		return b
	}
	m := message()
	record := append(words(0, 0, uint32(len(m)), uint32(len(m))), m...)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, err := w.Write(words(magic, version, 0, 0, longest, ethernet))
		for ; err == nil; time.Sleep(time.Millisecond) {
			_, err = w.Write(bytes.Repeat(record, burst)) // fails when the pipe is closed
		}
	}()
	t.Cleanup(func() {
		w.Close()
		<-ended
	})
}

// TestStart starts a bridge while frames come in, and checks that one of them is forwarded within a second.
func TestStart(t *testing.T) {
	for _, c := range []struct {
		name  string
		edits []string
	}{
		{"as small as can be", nil},
		{"with default sizes", []string{"memory_mib = 64\nmbufs = 2048\nrx_descs = 256\ntx_descs = 1024\n", ""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := slowtest.Factor()
			took, stages := startAndForward(t, c.edits...)
			factor := max(before, slowtest.Factor())
			bound := time.Duration(factor * float64(startsWithin))
			t.Logf("the first packet was forwarded %v after the start; %s; the bound is %v, the machine %.1f times as slow as usual",
				took.Round(time.Millisecond), stages, bound.Round(time.Millisecond), factor)
			if took > bound {
				t.Errorf("the first packet was forwarded after %v, want within %v", took, bound)
			}
		})
	}
}

// startAndForward starts a bridge and returns how long it took to forward the first packet, without the time that the kernel had it
// wait for a CPU, and when it reached each stage.
func startAndForward(t *testing.T, edits ...string) (took time.Duration, stages string) {
	t.Helper()
	address := freeAddress(t)
	group := bridgeFile[strings.Index(bridgeFile, "[[group]]"):strings.Index(bridgeFile, "[metrics]")]
	file := bridgeIn(t, append(edits, "LISTEN", address, group, "", `port = "ring"`, `port = "pcap:DIR/in.pcap"`)...)
	send(t, filepath.Join(filepath.Dir(file), "in.pcap"))
	begun := time.Now()
	p := launch(t, "run", "-c", file)
	p.await("a packet to InfiniBand", func() bool { return forwarded(address) })
	waited := runDelay(t, p.cmd.Process.Pid)
	took = time.Since(begun) - waited
	stages = fmt.Sprintf("waited %v for a CPU, ", waited.Round(time.Millisecond))
	for _, x := range p.lines() {
		at, err := time.Parse(time.RFC3339Nano, x["time"].(string))
		if err != nil {
			t.Fatal(err)
		}
		stages += fmt.Sprintf("%v %v, ", x["msg"], at.Sub(begun).Round(time.Millisecond))
	}
	p.end(syscall.SIGTERM)
	return took, strings.TrimSuffix(stages, ", ")
}

// runDelay returns how long the threads of a process have waited for a CPU, but for the workers, who always want one (proc(5),
// /proc/PID/task/TID/schedstat).
func runDelay(t *testing.T, pid int) (all time.Duration) {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	if err != nil || len(threads) == 0 {
		t.Fatalf("no threads of process %d: %v", pid, err)
	}
	for _, at := range threads {
		name, err := os.ReadFile(filepath.Join(at, "comm"))
		if err != nil || strings.HasPrefix(string(name), "rte-worker") || strings.HasPrefix(string(name), "dpdk-worker") {
			continue // it has ended
		}
		times, err := os.ReadFile(filepath.Join(at, "schedstat"))
		if err != nil {
			t.Fatal(err)
		}
		var ran, waited time.Duration
		if _, err := fmt.Sscan(string(times), &ran, &waited); err != nil {
			t.Fatal(err)
		}
		all += waited
	}
	return all
}

// forwarded asks the bridge whether a packet has gone to InfiniBand.
func forwarded(address string) bool {
	r, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		return false
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	_, count, there := strings.Cut(string(b), "\ncauseway_packets_sent_total{direction=\"roce_to_ib\"} ")
	return err == nil && there && !strings.HasPrefix(count, "0\n")
}
