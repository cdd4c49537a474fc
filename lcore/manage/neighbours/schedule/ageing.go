// SPDX-License-Identifier: Apache-2.0

package schedule

import "time"

const (
	// refreshUsed is how long a host whose proxy QPs are in use counts as reachable without a probe. Linux takes
	// half a minute on average (net/core/neighbour.c, base_reachable_time); a bridge that sends to a MAC address
	// that is gone loses messages unnoticed, so it does not wait much longer.
	refreshUsed = time.Minute
	// refreshIdle is the same for a host that nothing is sent to: it costs an entry, not messages.
	refreshIdle = 10 * time.Minute
	// probesMost probes go to the host's own MAC address, one each probeEvery (RFC 4861 §10, MAX_UNICAST_SOLICIT
	// and RETRANS_TIMER). After that it may have another MAC address, or be gone.
	probesMost = 3
	probeEvery = time.Second
	// silentEvery is between broadcasts for a host that is silent, and whose proxy QPs are in use.
	silentEvery = time.Minute
)

// Use says what a host is used for.
type Use struct {
	ProxyQPs bool
	At       time.Time // when something last crossed by any of them; zero: never, or none
	OnLink   bool      // its MAC address is its own and not a router's
}

// A Step is what to do about a host that is due.
type Step int

// The steps. The caller calls Asked or Postpone after Probe, Find and Silent, and Drop or Keep after Remove.
const (
	Rest   Step = iota // nothing, for now
	Probe              // ask it, at the MAC address that it is known by
	Find               // ask for it by broadcast: it may have a new MAC address
	Silent             // the same, for the first time since its last frame
	Remove
)

// Age says what to do about a host that is due. It must not be contested.
func (hs *Hosts) Age(n *Host, use Use, now time.Time) Step {
	inUse := now.Sub(use.At) < refreshUsed
	reachable := refreshIdle
	if inUse {
		reachable = refreshUsed
	}
	fresh := n.Heard.Add(reachable)
	switch {
	case n.Asked == 0 && fresh.After(now):
		if soon := now.Add(refreshUsed); fresh.After(soon) { // it may come into use before
			fresh = soon
		}
		hs.lookAt(n, fresh)
		return Rest
	case !use.ProxyQPs && (!use.OnLink || n.Asked >= probesMost):
		return Remove
	case !use.OnLink: // only its router would answer
		hs.lookAt(n, now.Add(refreshUsed))
		return Rest
	case n.Asked < probesMost:
		n.wait = probeEvery
		return Probe
	}
	n.wait = silentEvery
	if !inUse {
		n.wait = refreshIdle
	}
	if n.Asked == probesMost {
		return Silent
	}
	return Find
}

// IsSilent reports whether a host has answered no probe, and was asked for by broadcast.
func (n *Host) IsSilent() bool { return n.Asked > probesMost }
