// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"math/rand/v2"
	"slices"
	"time"
)

// wordFaults are those of a machine's ways to the others. They end at times.
type wordFaults struct {
	wordsLost time.Time
	wordsLate time.Time
}

// say tells a word to all other machines' processes: mostly soon, sometimes late, twice or not at all.
func (p *simProcess) say(r *rand.Rand, text []byte) {
	p.stand(r)
	text = slices.Clone(text)
	for _, m := range p.sim.machines {
		if m == p.machine {
			continue
		}
		for range 1 + r.IntN(2) {
			after := 50*time.Microsecond + time.Duration(r.ExpFloat64()*float64(300*time.Microsecond))
			late := time.Duration(r.Int64N(int64(4 * time.Second)))
			now := time.Now()
			if now.Before(p.machine.wordsLost) || now.Before(m.wordsLost) || r.IntN(50) == 0 && !p.sim.quiet {
				continue
			}
			if now.Before(p.machine.wordsLate) || now.Before(m.wordsLate) || r.IntN(100) == 0 {
				after += late
			}
			time.AfterFunc(after, func() { // to all that were ever started there
				for _, to := range p.sim.processes {
					if to.machine == m && !to.dead {
						to.member.Heard(p.machine.name, p.number, text)
					}
				}
			})
		}
	}
}

// gone reports whether the process of a number was killed.
func (s *simulation) gone(number string) bool {
	for _, p := range s.processes {
		if p.where() == number {
			return p.dead
		}
	}
	return false
}
