// SPDX-License-Identifier: Apache-2.0

// Package bench measures the packet path in nanoseconds a packet, beside floors measured in the same run.
//
// The workers are the production ones, started on an lcore; ports are rings. Each cell is the median of
// several repetitions, interleaved with the floors', so that what the machine does meanwhile hits all alike.
package bench

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"causeway/lcore"
)

// Cell is what one direction costs at one payload size, in nanoseconds a packet.
type Cell struct {
	Direction lcore.Direction
	Payload   int     // bytes
	Path      float64 // the worker: both doors, ICRC, all checks and counters
	Floor     float64 // receive and send alone
	Touch     float64 // the same, and one read of every byte
}

// Mpps returns millions of packets a second.
func (c Cell) Mpps() float64 { return 1e3 / c.Path }

// Gbps returns gigabits of payload a second.
func (c Cell) Gbps() float64 { return float64(c.Payload) * 8 / c.Path }

// Config says what to measure.
type Config struct {
	Payloads    []int // bytes, multiples of 8
	Repetitions int
	Window      time.Duration // of one reading
	Lcore       uint          // where the loops run
	Progress    func(done, of int)
}

// Default is what "make bench" measures.
var Default = Config{Payloads: []int{64, 256, 1024, 4096}, Repetitions: 9, Window: 40 * time.Millisecond}

// Run measures every cell.
func Run(cfg Config) ([]Cell, error) {
	var cells []Cell
	of := len(cfg.Payloads) * 2
	for _, size := range cfg.Payloads {
		for _, d := range []lcore.Direction{lcore.RoCEToIB, lcore.IBToRoCE} {
			c, err := measure(cfg, d, size)
			if err != nil {
				return nil, err
			}
			cells = append(cells, c)
			if cfg.Progress != nil {
				cfg.Progress(len(cells), of)
			}
		}
	}
	return cells, nil
}

// measure takes the readings of one cell, in turn.
func measure(cfg Config, d lcore.Direction, size int) (Cell, error) {
	r, err := newRig(d, size)
	if err != nil {
		return Cell{}, err
	}
	defer r.close()
	var path, floor, touch []float64
	for range cfg.Repetitions {
		for _, reading := range []struct {
			into *[]float64
			take func() (float64, error)
		}{
			{&floor, func() (float64, error) { return r.floor(cfg, false) }},
			{&touch, func() (float64, error) { return r.floor(cfg, true) }},
			{&path, func() (float64, error) { return r.path(cfg) }},
		} {
			ns, err := reading.take()
			if err != nil {
				return Cell{}, errors.Join(err, r.verify())
			}
			*reading.into = append(*reading.into, ns)
		}
	}
	return Cell{d, size, median(path), median(floor), median(touch)}, r.verify()
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

// nsPerPacket reads a counter twice, a window apart, after the loop has begun to move packets: on a busy
// machine that may take a while.
func nsPerPacket(window time.Duration, packets func() uint64) (float64, error) {
	const patience = 5 * time.Second
	for begin, at := packets(), time.Now(); packets() == begin; time.Sleep(window / 4) {
		if time.Since(at) > patience {
			return 0, fmt.Errorf("bench: no packet moved in %v", patience)
		}
	}
	time.Sleep(window / 4)
	n, t := packets(), time.Now()
	time.Sleep(window)
	n, elapsed := packets()-n, time.Since(t)
	return float64(elapsed.Nanoseconds()) / float64(max(n, 1)), nil
}
