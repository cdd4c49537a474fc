// SPDX-License-Identifier: Apache-2.0

package assignment

import (
	"net/netip"
	"time"

	"causeway/ibside/ib"
)

// Aliases are the RoCE hosts' GUIDs that are the port's, or are to be. NewAliases makes them.
type Aliases struct {
	of      map[ib.GUID]*alias
	set     int
	asking  int
	dropped int       // how many were
	lookAt  time.Time // when Next is due
	full    time.Time // until when none is set
}

// A Wanted is a GUID that the port is to have.
type Wanted struct {
	GUID ib.GUID
	Host netip.Addr // the first that is seen with it
}

type alias struct {
	host   netip.Addr
	set    bool
	asking bool
	at     time.Time // when it is asked for next
	before int       // how many were dropped when it was asked for
	wait   time.Duration
}

const (
	aliasEvery  = time.Second
	aliasAtOnce = 4           // questions about aliases at a time
	aliasLast   = time.Minute // between two tries for one that is rejected, and before there may be room again
)

// NewAliases makes the Aliases of a port that has none.
func NewAliases() *Aliases { return &Aliases{of: map[ib.GUID]*alias{}} }

// Len returns how many GUIDs the port has.
func (a *Aliases) Len() int { return a.set }

// Has reports whether a GUID is the port's, or is to be.
func (a *Aliases) Has(guid ib.GUID) bool { return a.of[guid] != nil }

// Host returns the host that a GUID was first seen with.
func (a *Aliases) Host(guid ib.GUID) netip.Addr { return a.of[guid].host }

// IsDue reports whether it is time for Next.
func (a *Aliases) IsDue(now time.Time) bool { return !now.Before(a.lookAt) }

// Next returns the aliases to set on the port now, in this order, and those to drop. The caller calls Set, Full or
// Failed for each of the former, and Dropped for each of the latter. wanted has no GUID twice.
func (a *Aliases) Next(wanted []Wanted, now time.Time) (set, drop []ib.GUID) {
	a.lookAt = now.Add(aliasEvery)
	in := make(map[ib.GUID]bool, len(wanted))
	for _, w := range wanted {
		in[w.GUID] = true
	}
	for guid, x := range a.of {
		switch {
		case in[guid] || x.asking:
		case !x.set:
			delete(a.of, guid)
		case a.asking < aliasAtOnce:
			a.ask(x)
			drop = append(drop, guid)
		}
	}
	for _, w := range wanted {
		x := a.of[w.GUID]
		if x == nil {
			x = &alias{host: w.Host, wait: aliasEvery}
			a.of[w.GUID] = x
		}
		if !x.set && !x.asking && a.asking < aliasAtOnce && !now.Before(x.at) && !now.Before(a.full) {
			a.ask(x)
			set = append(set, w.GUID)
		}
	}
	return set, drop
}

func (a *Aliases) ask(x *alias) {
	x.asking, x.before = true, a.dropped
	a.asking++
}

// answered ends a request. Next is due at once.
func (a *Aliases) answered(guid ib.GUID) *alias {
	x := a.of[guid]
	x.asking = false
	a.asking--
	a.lookAt = time.Time{}
	return x
}

// Set notes that the port has a GUID.
func (a *Aliases) Set(guid ib.GUID) {
	a.answered(guid).set = true
	a.set++
}

// Full notes that the port has no room for a GUID: for a while, or until it gives one back, none is asked for. One that it
// has given back meanwhile may have been too late for this.
func (a *Aliases) Full(guid ib.GUID, now time.Time) {
	if a.answered(guid).before == a.dropped {
		a.full = now.Add(aliasLast)
	}
}

// Failed notes that the port was not given a GUID. It is asked for again later.
func (a *Aliases) Failed(guid ib.GUID, now time.Time) {
	x := a.answered(guid)
	x.at, x.wait = now.Add(x.wait), min(2*x.wait, aliasLast)
}

// Dropped notes that the port does not have a GUID any more, or could not drop it.
func (a *Aliases) Dropped(guid ib.GUID) {
	a.answered(guid)
	delete(a.of, guid)
	a.set--
	a.dropped++
	a.full = time.Time{}
}
