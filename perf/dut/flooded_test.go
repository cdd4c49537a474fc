// SPDX-License-Identifier: Apache-2.0

package dut_test

import (
	"path/filepath"
	"sync"
	"testing"
	"time"

	"causeway/perf/dut"
	"causeway/perf/trial"
)

// connect connects a generator of some traffic to a device with the hosts and nodes of another, whose worker runs.
func connect(t *testing.T, known, sent dut.Traffic) (*dut.Flooded, *dut.Loopback) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "m.sock")
	f, err := dut.NewFlooded(lcores[0], socket, known)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	g, err := dut.NewEchoed(lcores[1], socket, sent)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		f.Stop()
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := f.Start(); err != nil {
		t.Fatal(err)
	}
	if err := g.AwaitLink(t.Context()); err != nil {
		t.Fatal(err)
	}
	return f, g
}

// flood sends some messages, and returns how many, when the device has stopped.
func flood(t *testing.T, known, sent dut.Traffic) (packets uint64, f *dut.Flooded) {
	t.Helper()
	f, g := connect(t, known, sent)
	l := trial.At(both[:1], 50000, 0)
	l.Packets = 800
	o, err := g.Run(t.Context(), l)
	if err == nil {
		err = f.AwaitSilence(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	f.Stop()
	c := o.Counts[trial.RoCEToIB]
	return c.Offered - c.Rejected, f
}

// Another process's messages are forwarded, all that came.
func TestFlooded(t *testing.T) {
	for _, x := range everything[:3] {
		t.Run(x.name, func(t *testing.T) {
			n, f := flood(t, x.traffic, x.traffic)
			if c := f.Counters(); n == 0 || c.Received != n || c.Sent != n || len(c.Drops) != 0 {
				t.Errorf("%d were sent: %+v", n, c)
			}
		})
	}
}

// Hosts and nodes that the tables do not have: without management, their packets are dropped by name or wait for a
// proxy QP, and the device can be closed.
func TestFloodedByStrangers(t *testing.T) {
	known := everything[0].traffic
	for _, flows := range []int{130, 400} {
		sent := known
		sent.Flows = flows
		n, f := flood(t, known, sent)
		c := f.Counters()
		t.Logf("%d hosts and nodes, %d known: %d sent, %+v", flows, known.Flows, n, c)
		if n == 0 || c.Received != n || c.Received != c.Sent+c.Dropped()+c.ProxyQPWaits {
			t.Errorf("%d hosts and nodes: %d were sent: %+v", flows, n, c)
		}
	}
}

// A test or measurement that ends early closes the device while its worker runs: the worker is stopped first, for it reads
// what is freed then.
func TestFloodedClosesWhileItRuns(t *testing.T) {
	f, g := connect(t, everything[0].traffic, everything[0].traffic)
	if _, err := g.Run(t.Context(), light()); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// The rate is that of the clean slices: one that a wait began or ended in is none.
func TestFloodOf(t *testing.T) {
	const stall = dut.FloodStall + time.Microsecond
	for name, x := range map[string]struct {
		pps    []float64
		waited []time.Duration
		clean  int
		want   float64
	}{
		"calm":     {[]float64{5, 6, 7, 1}, []time.Duration{0, dut.FloodStall, 0, 0}, 3, 6},
		"one wait": {[]float64{5, 0, 1, 7, 8}, []time.Duration{0, 0, stall, 0, 0}, 2, 7},
		"busy":     {[]float64{5, 6, 7}, []time.Duration{stall, stall, stall}, 0, 0},
		"nothing":  {nil, nil, 0, 0},
	} {
		if f := dut.FloodOf(x.pps, x.waited); f.Clean != x.clean || f.PPS != x.want || f.Received != 2*x.want || f.Slices != len(x.pps) {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// A flood is measured while it is going on.
func TestWatch(t *testing.T) {
	known := everything[0].traffic
	f, g := connect(t, known, known)
	var sent trial.Outcome
	var sending sync.WaitGroup
	sending.Go(func() {
		var err error
		if sent, err = g.Run(t.Context(), trial.At(both[:1], trial.Flood, 1500*time.Millisecond)); err != nil {
			t.Error(err)
		}
	})
	if err := f.AwaitFrames(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := f.Watch(t.Context(), 600*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	sending.Wait()
	if err := f.AwaitSilence(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.Stop()
	c, n := f.Counters(), sent.Counts[trial.RoCEToIB]
	if c.Received != n.Offered-n.Rejected || !c.Conserved() || len(c.Drops) != 0 {
		t.Errorf("%+v were sent: %+v", n, c)
	}
	// The worker counts a burst's messages before its turn: the readings at both ends may have one turn too few. In a slice in which the
	// generator had no CPU nothing has come: it says nothing of the others.
	calm := got.Clean > got.Slices/2
	if got.Slices < 5 || got.PerBurst < 1 || got.PerBurst > 64.5 || calm && got.PPS < 1e4 || got.PPS > 1e8 || got.Clean == 0 && got.PPS != 0 {
		t.Errorf("%+v", got)
	}
	t.Logf("%+v", got)
}
