// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"cmp"
	"slices"
	"time"

	"causeway/ibside/ib"
)

// Source is a GID that messages can be sent from, by its number (struct ib_ah). The number stays the GID's as long as the
// port has it, and comes back with it; the index in the port's table does not.
type Source struct {
	Number uint8
	GID    ib.GID
}

// Own is what the port goes by.
type Own struct {
	LID     ib.LID
	GIDs    []ib.GID // that it can be known by: each once, sorted
	Sources []Source // by number; 0 is the bridge's own
	Beyond  int      // GIDs that cannot be sent from: their index is above what verbs can name
}

// sources numbers the GIDs of a port.
type sources struct {
	gid    [maxGIDIndex + 1]ib.GID
	lostAt [maxGIDIndex + 1]time.Time // when the port was seen to have lost it; zero: it has it
}

// keepNumber is how long a lost GID's number is nobody else's: whoever has it learns of the loss before.
const keepNumber = 5 * time.Second

// number follows the port's table. own is number 0.
func (s *sources) number(own ib.GID, there []ib.GID, now time.Time) {
	s.gid[0] = own
	for i := 1; i < len(s.gid); i++ {
		switch {
		case slices.Contains(there, s.gid[i]):
			s.lostAt[i] = time.Time{}
		case s.lostAt[i].IsZero():
			s.lostAt[i] = now
		}
	}
	for _, g := range there {
		if !slices.Contains(s.gid[:], g) {
			s.take(g, now)
		}
	}
}

// take gives a GID a number, if there is one.
func (s *sources) take(g ib.GID, now time.Time) {
	for i := 1; i < len(s.gid); i++ {
		if s.gid[i].IsZero() || !s.lostAt[i].IsZero() && now.Sub(s.lostAt[i]) > keepNumber {
			s.gid[i], s.lostAt[i] = g, time.Time{}
			return
		}
	}
}

// of returns the GID of a number, and whether the port has it.
func (s *sources) of(n uint8) (g ib.GID, ok bool) {
	return s.gid[n], !s.gid[n].IsZero() && s.lostAt[n].IsZero()
}

func (s *sources) list() (out []Source) {
	for n := range s.gid {
		if g, ok := s.of(uint8(n)); ok {
			out = append(out, Source{uint8(n), g})
		}
	}
	return out
}

// gidsOf returns the GIDs of a table's entries, each once and in order.
func gidsOf(entries []GIDEntry) (out []ib.GID) {
	for _, e := range entries {
		out = append(out, e.GID)
	}
	slices.SortFunc(out, func(a, b ib.GID) int { return slices.Compare(a[:], b[:]) })
	return slices.Compact(out)
}

// Own tells what the port goes by at the moment.
func (d *Door) Own() Own {
	d.portMu.RLock()
	defer d.portMu.RUnlock()
	o := Own{LID: d.port.LID, GIDs: gidsOf(usable(d.port.GIDs, d.port.Ethernet)), Sources: d.sources.list()}
	for _, e := range d.port.GIDs {
		if e.Index > maxGIDIndex {
			o.Beyond++
		}
	}
	return o
}

// sourceGID is the GID to send from for a number: the bridge's own where the port has that number's no more.
func (d *Door) sourceGID(number uint8) ib.GID {
	d.portMu.RLock()
	defer d.portMu.RUnlock()
	g, ok := d.sources.of(number)
	if !ok {
		g = d.sources.gid[0]
	}
	return cmp.Or(g, d.port.GID)
}
