// SPDX-License-Identifier: Apache-2.0

package pktgen_test

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"causeway/dpdk"
	"causeway/lcore/frame/roce"
	"causeway/perf/pktgen"
)

// receiver is the other end of a net_memif.
type receiver struct {
	port   *dpdk.Port
	done   chan struct{}
	wait   sync.WaitGroup
	frames uint64
	bad    error // the error of the first frame that could not be parsed
}

func (r *receiver) run() {
	burst := make([]dpdk.Mbuf, 64)
	for {
		n := r.port.Rx(0, burst)
		for _, m := range burst[:n] {
			r.frames++
			if _, err := roce.Parse(m.Bytes()); err != nil && r.bad == nil {
				r.bad = err
			}
			m.Free()
		}
		if n > 0 {
			continue
		}
		select {
		case <-r.done:
			return
		default:
			time.Sleep(100 * time.Microsecond)
		}
	}
}

func receive(t *testing.T, socket string) *receiver {
	t.Helper()
	eal, err := dpdk.Init(dpdk.EALConfig{Name: "pktgentest", MemoryMiB: 128, ForceNoHuge: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeOf(t, eal.Close) })
	pool, err := dpdk.NewMempool("pktgentest", 4095, 8448, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeOf(t, pool.Free) })
	port, err := dpdk.OpenPort("memif:"+socket+",role=server", dpdk.PortConfig{Pool: pool, MTU: 4200})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeOf(t, port.Close) })
	if err := port.Start(); err != nil {
		t.Fatal(err)
	}
	r := &receiver{port: port, done: make(chan struct{})}
	r.wait.Go(r.run)
	return r
}

func closeOf(t *testing.T, f func() error) {
	if err := f(); err != nil {
		t.Error(err)
	}
}

// Pktgen itself, if installed, sends a capture over net_memif, fast and slowly: each frame that it counts arrives and
// is valid, and there are as many as were asked for, unless it is told that there are not.
func TestPktgen(t *testing.T) {
	if _, err := exec.LookPath("pktgen"); err != nil {
		t.Skip("no pktgen in PATH: Pktgen-DPDK 23.03 was not tried. The other tests check captures and script without")
	}
	if runtime.NumCPU() < 2 {
		t.Skip("one CPU: pktgen needs two")
	}
	dir := t.TempDir()
	socket := filepath.Join(dir, "memif.sock")
	r := receive(t, socket)
	p, err := pktgen.Find("mix")
	if err != nil {
		t.Fatal(err)
	}
	sent := uint64(0)
	for _, pps := range []float64{5000, 200} {
		const seconds = 4
		f, err := p.Write(dir, pktgen.Script{Rate: 100, PPS: pps, Seconds: seconds}, "null")
		if err != nil {
			t.Fatal(err)
		}
		run := pktgen.Runner{Port: "memif:" + socket, CPUs: []int{0, runtime.NumCPU() - 1}}
		got, err := run.Run(t.Context(), f.Capture, f.Script, seconds)
		if err != nil {
			t.Fatalf("%g packets a second: %v", pps, err)
		}
		if got.Loss != 1 { // there are no echoes
			t.Errorf("%g packets a second: %+v", pps, got)
		}
		t.Logf("%g packets a second: %d sent; %v", pps, got.Sent, got.Kept(pps))
		if most := 2*pps*seconds + pps; float64(got.Sent) > most && got.Kept(pps) == nil {
			t.Errorf("%d frames were sent, at %g a second, and that is not reported", got.Sent, pps)
		}
		sent += got.Sent
	}
	close(r.done)
	r.wait.Wait()
	if r.bad != nil {
		t.Errorf("an invalid frame came: %v", r.bad)
	}
	if sent == 0 || sent != r.frames {
		t.Errorf("%d frames came of %d", r.frames, sent)
	}
}
