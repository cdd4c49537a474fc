// SPDX-License-Identifier: Apache-2.0

package neighbour

import "time"

const (
	// refreshUsed is for how long a host that has stand-ins in use is believed without being asked. Linux believes a
	// neighbour for half a minute on average (net/core/neighbour.c, base_reachable_time); a bridge that sends to a MAC
	// address that is gone loses messages without a sign, so it does not wait much longer.
	refreshUsed = time.Minute
	// refreshIdle is the same for a host that nothing goes to: it costs an entry, not messages.
	refreshIdle = 10 * time.Minute
	// probesMost questions go to the host's own MAC address, one each probeEvery (RFC 4861 §10, MAX_UNICAST_SOLICIT and
	// RETRANS_TIMER). After that it may have another MAC address, or be gone.
	probesMost = 3
	probeEvery = time.Second
	// silentEvery is between questions to all for a host that is silent, and whose stand-ins are in use.
	silentEvery = time.Minute
)

// Use says what a host is used for.
type Use struct {
	StandIns bool
	At       time.Time // when something last crossed by any of them; zero: never, or none
	OnLink   bool      // its MAC address is its own and not a router's
}

// A Step is what is to be done about a host that is due.
type Step int

// The steps. After those that ask, Asked or Postpone is to be called; after Forget, Drop or Keep.
const (
	Rest     Step = iota // nothing, for now
	AskAlone             // ask it, at the MAC address that it is known by
	AskAll               // ask all for it: it may have a new MAC address
	Silent               // the same, for the first time since it was heard
	Forget
)

// Age says what a host's silence asks for. The host must be due, and nobody may claim its address.
func (b *Book) Age(n *Host, use Use, now time.Time) Step {
	inUse := now.Sub(use.At) < refreshUsed
	believed := refreshIdle
	if inUse {
		believed = refreshUsed
	}
	fresh := n.Heard.Add(believed)
	switch {
	case n.Asked == 0 && fresh.After(now):
		if soon := now.Add(refreshUsed); fresh.After(soon) { // it may come to be in use before
			fresh = soon
		}
		b.lookAt(n, fresh)
		return Rest
	case !use.StandIns && (!use.OnLink || n.Asked >= probesMost):
		return Forget
	case !use.OnLink: // nobody but its router would answer for it
		b.lookAt(n, now.Add(refreshUsed))
		return Rest
	case n.Asked < probesMost:
		n.wait = probeEvery
		return AskAlone
	}
	n.wait = silentEvery
	if !inUse {
		n.wait = refreshIdle
	}
	if n.Asked == probesMost {
		return Silent
	}
	return AskAll
}

// IsSilent reports whether a host has answered none of the questions to itself, and all have been asked for it.
func (n *Host) IsSilent() bool { return n.Asked > probesMost }
