// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"io"

	"causeway/lcore"
	"causeway/tables"
)

// Scaling compares several workers together with one alone, and a floor that only reads in the same way.
type Scaling struct {
	Direction string  `json:"direction"`
	Payload   int     `json:"payload_bytes"`
	AloneNS   float64 `json:"alone_ns"`    // a packet
	EachNS    float64 `json:"together_ns"` // a packet of one worker while the others run
	Scale     float64 `json:"scale"`       // packets together over packets alone, in the same time
	Floor     float64 `json:"floor_scale"` // Scale of the floor: what the machine allows
}

// Workers measures one worker alone and one on each of cfg.Lcores together. Each has its own hosts and proxy QPs, so
// that no packet is handed off.
func Workers(cfg Config) ([]Scaling, error) {
	s := square(Medium)
	s.lanes = len(cfg.Lcores)
	cfg.progress("filling tables for %d workers", s.lanes)
	t, err := s.newTables()
	if err != nil {
		return nil, err
	}
	defer t.Close()
	var out []Scaling
	for _, size := range []int{64, 1024} {
		for _, d := range []lcore.Direction{lcore.RoCEToIB, lcore.IBToRoCE} {
			cfg.progress("%s, %d B, 1 and %d workers", directions[d], size, s.lanes)
			x, err := scaling(&cfg, s, t, d, size)
			if err != nil {
				return nil, err
			}
			out = append(out, x)
		}
	}
	return out, nil
}

func scaling(cfg *Config, s shape, t *tables.Tables, d lcore.Direction, size int) (Scaling, error) {
	r, err := newRig(s, t, d, size)
	if err != nil {
		return Scaling{}, err
	}
	defer r.close()
	var workers, floors []loop
	for _, l := range r.lanes {
		f, err := l.floor(readWords)
		if err != nil {
			return Scaling{}, err
		}
		workers, floors = append(workers, l.worker()), append(floors, f)
	}
	var alone, each, alone0, each0 readings
	for range cfg.Repetitions {
		for _, x := range []struct {
			loops       []loop
			alone, each *readings
		}{{workers, &alone, &each}, {floors, &alone0, &each0}} {
			one, err := cfg.read(cfg.Lcores[0], x.loops[0])
			if err != nil {
				return Scaling{}, err
			}
			all, err := cfg.together(x.loops)
			if err != nil {
				return Scaling{}, err
			}
			*x.alone, *x.each = append(*x.alone, one), append(*x.each, all)
		}
	}
	n := float64(len(r.lanes))
	return Scaling{
		Direction: directions[d], Payload: size, AloneNS: alone.median(), EachNS: each.median(),
		Scale: n * alone.over(each), Floor: n * alone0.over(each0),
	}, r.verify()
}

// together runs each loop on its own lcore, and returns the harmonic mean of the cost of a packet.
func (c *Config) together(loops []loop) (float64, error) {
	for i, l := range loops {
		if err := l.start(c.Lcores[i].id); err != nil {
			return 0, err
		}
		defer l.stop()
	}
	var before, after []point
	for i, l := range loops {
		if _, _, err := c.wait(c.Lcores[i], l, c.Window/4); err != nil {
			return 0, err
		}
	}
	for i, l := range loops {
		before = append(before, c.point(i, l))
	}
	if _, _, err := c.wait(c.Lcores[0], loops[0], c.Window); err != nil {
		return 0, err
	}
	rate := 0.0
	for i, l := range loops {
		after = append(after, c.point(i, l))
		rate += float64(after[i].done-before[i].done) / float64(max(after[i].ns-before[i].ns, 1))
	}
	return float64(len(loops)) / rate, nil
}

// point is what a loop had done when it had used that much CPU time.
type point struct{ done, ns uint64 }

func (c *Config) point(i int, l loop) point {
	done, ns := sample(c.Lcores[i], l, c.Window)
	return point{done, ns}
}

// PrintWorkers writes a table of how workers scale.
func PrintWorkers(w io.Writer, workers int, all []Scaling) error {
	cells := [][]string{{fmt.Sprintf("%s entries", count(Medium)), "payload", "1 worker ns", fmt.Sprintf("each of %d ns", workers), "scale", rxReadTx + " scale"}}
	for _, s := range all {
		cells = append(cells, []string{
			s.Direction, fmt.Sprintf("%d B", s.Payload), fmt.Sprintf("%.1f", s.AloneNS), fmt.Sprintf("%.1f", s.EachNS),
			fmt.Sprintf("%.2f", s.Scale), fmt.Sprintf("%.2f", s.Floor),
		})
	}
	return printTable(w, cells, []int{0})
}
