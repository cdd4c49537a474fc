// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"math"
	"slices"
	"time"

	"causeway/perf/trial"
)

// Config says how to measure.
type Config struct {
	Lcores      []Lcore  // where the loops run: one, several for Workers, two for Handoffs
	Kinds       []string // of rows, of Gates; none: all
	Payload     int      // of the whole way, bytes; 0: all
	Entries     int      // proxy QPs of the whole way; 0: all
	Repetitions int
	Window      time.Duration // of one reading
	Progress    func(what string)
}

// progress shows what is being measured.
func (c *Config) progress(format string, args ...any) {
	if c.Progress != nil {
		c.Progress(fmt.Sprintf(format, args...))
	}
}

// readings are repeated measurements of one loop, in nanoseconds a packet.
type readings []float64

func (r readings) median() float64 {
	v := slices.Sorted(slices.Values(r))
	return v[len(v)/2]
}

// spread is what the machine made of a loop that does the same work each time.
func (r readings) spread() float64 { return trial.Spread(r) }

// ratiosTo returns the ratios of readings that were taken one after the other, sorted: what slows the machine down for
// longer than that affects both.
func (r readings) ratiosTo(o readings) readings {
	ratios := make(readings, len(r))
	for i := range r {
		ratios[i] = r[i] / o[i]
	}
	slices.Sort(ratios)
	return ratios
}

// over returns the median of the ratios.
func (r readings) over(o readings) float64 { return r.ratiosTo(o).median() }

// atLeast returns what the median of more and more ratios would reach, but about one time in fifty: so many of a binomial
// distribution are below. Where there are less than nine, it is the lowest.
func (r readings) atLeast(o readings) float64 {
	n, ratios := len(r), r.ratiosTo(o)
	if n < 9 {
		return ratios[0]
	}
	return ratios[int(float64(n/2)-math.Sqrt(float64(n)))]
}

// mostSpread is the largest spread of a loop with which ratios to readings beside it tell the truth.
const mostSpread = 0.10

// noise is the largest spread of some of the loops, by their places.
func noise(all []readings, judges ...int) (most float64) {
	for _, i := range judges {
		most = max(most, all[i].spread())
	}
	return most
}

// patience is how many times as many rounds as are wanted may be taken until the machine is calm.
const patience = 6

// calmest takes rounds, each a reading of every loop in turn, so that disturbances affect all of them. It stops when the
// last Repetitions of them are calm: the readings of judges, which always do the same, are not spread too far. When
// patience is at its end, it returns those that were calmest. Only rounds in a row count, and none is left out.
func (c *Config) calmest(judges []int, round func() ([]float64, error)) (best []readings, err error) {
	var last []readings
	for range patience * c.Repetitions {
		r, err := round()
		if err != nil {
			return nil, err
		}
		if last == nil {
			last = make([]readings, len(r))
		}
		for i, ns := range r {
			last[i] = append(last[i], ns)[max(0, len(last[i])+1-c.Repetitions):]
		}
		if len(last[0]) < c.Repetitions {
			continue
		}
		if best == nil || noise(last, judges...) < noise(best, judges...) {
			best = clone(last)
		}
		if noise(best, judges...) <= mostSpread {
			break
		}
	}
	return best, nil
}

// clone copies readings of several loops.
func clone(all []readings) []readings {
	c := make([]readings, len(all))
	for i, r := range all {
		c[i] = slices.Clone(r)
	}
	return c
}

// calm takes readings of loops, of which those of judges must not be spread too far.
func (c *Config) calm(judges []int, loops ...loop) ([]readings, error) {
	return c.calmest(judges, func() ([]float64, error) {
		var all []float64
		for _, l := range loops {
			ns, err := c.read(c.Lcores[0], l)
			if err != nil {
				return nil, err
			}
			all = append(all, ns)
		}
		return all, nil
	})
}

// read runs a loop alone for a while.
func (c *Config) read(at Lcore, l loop) (float64, error) {
	if err := l.start(at.id); err != nil {
		return 0, err
	}
	defer l.stop()
	return c.nsPerPacket(at, l)
}

// nsPerPacket measures a running loop for a window of its CPU time: time that other threads had the CPU is not counted.
func (c *Config) nsPerPacket(at Lcore, l loop) (float64, error) {
	if _, _, err := c.wait(at, l, c.Window/4); err != nil { // caches fill
		return 0, err
	}
	n, ns, err := c.wait(at, l, c.Window)
	return ns / float64(max(n, 1)), err
}

// wait lets a loop run until it has used that much CPU time, and returns what it has done and the nanoseconds it used.
// On a busy machine that takes longer.
func (c *Config) wait(at Lcore, l loop, while time.Duration) (n uint64, ns float64, err error) {
	const timeout = 20 * time.Second
	begin, from := sample(at, l, while)
	for start := time.Now(); ; {
		time.Sleep(while - time.Duration(ns))
		end, now := sample(at, l, while)
		n, ns = end-begin, float64(now-from)
		switch {
		case n > 0 && ns >= 0.9*float64(while):
			return n, ns, nil
		case time.Since(start) > timeout:
			return 0, 0, fmt.Errorf("bench: no packet moved in %v", timeout)
		}
	}
}

// sample reads the counter and the CPU clock at nearly the same moment.
func sample(at Lcore, l loop, window time.Duration) (done, ns uint64) {
	const tries = 1000
	for range tries {
		before := at.cpuTime()
		done = l.done()
		ns = at.cpuTime()
		if ns-before < uint64(window.Nanoseconds())/500 {
			break
		}
	}
	return done, ns
}
