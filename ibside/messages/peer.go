// SPDX-License-Identifier: Apache-2.0

package messages

import (
	"errors"
	"fmt"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
)

// A peer is another bridge's port.
type peer struct {
	path  ibside.Path
	known bool
	why   error // that it is not
	none  uint  // how often in turn there was no path; then questions become rarer, up to noPathDoublings

	asking bool
	asked  time.Time // last; zero: never
	news   uint64    // of the subnet, then
	heard  time.Time // when something has come from the path's LIDs last
	used   time.Time
}

const (
	// askEvery is how often a path is asked for at most, so that 15 silent bridges cost a subnet administrator no more
	// than 15 questions a second of each bridge.
	askEvery = time.Second
	// silence is how long nothing may come from a bridge, which sends 20 messages a second or more, until its LID is in doubt.
	silence = time.Second
	// pathAge is when a path is asked for again without a reason.
	pathAge = time.Minute
	// noPathDoublings: a GID that the subnet does not have is asked for after 1, 2, 4, 8 and then each 16 s, unless the subnet
	// tells of a change: a bridge with ports on two fabrics asks both for each GID.
	noPathDoublings = 4

	// mostPeers bounds the paths that are kept: 16 bridges in a fleet have fewer ports. One that is not used for peerIdle
	// makes room.
	mostPeers = 64
	peerIdle  = time.Minute
)

// peer returns the peer that has a GID; nil: there are too many. The caller holds the lock.
func (m *Messenger) peer(gid ib.GID, now time.Time) *peer {
	p := m.peers[gid]
	if p == nil && len(m.peers) >= mostPeers {
		for k, x := range m.peers {
			if now.Sub(x.used) >= peerIdle {
				delete(m.peers, k)
			}
		}
		if len(m.peers) >= mostPeers {
			return nil
		}
	}
	if p == nil {
		p = &peer{why: ibside.ErrPathUnknown}
		m.peers[gid] = p
	}
	p.used = now
	return p
}

// due reports whether the path is to be asked for.
func (p *peer) due(now time.Time, news uint64) bool {
	switch age := now.Sub(p.asked); {
	case p.asked.IsZero():
		return true
	case p.asking || age < askEvery:
		return false
	case p.news != news:
		return true
	case !p.known:
		return age >= askEvery<<min(max(p.none, 1)-1, noPathDoublings)
	default:
		return age >= pathAge || now.Sub(p.heard) >= silence
	}
}

// answered takes the answer to a question.
func (p *peer) answered(path ibside.Path, err error) {
	p.asking = false
	switch {
	case err == nil:
		p.path, p.known, p.none = path, true, 0
	case errors.Is(err, ibside.ErrNoPath):
		p.known = false
		p.none++
		p.why = err
	default: // an old path stays
		p.why = fmt.Errorf("%w: %w", ibside.ErrPathUnknown, err)
	}
}
