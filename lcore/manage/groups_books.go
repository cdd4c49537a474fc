// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"net/netip"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore/manage/inverse"
)

// groupBooks is what the loop knows of groups.
type groupBooks struct {
	groups map[ib.GID]*membership
	opened map[netip.Addr][]*membership // of groups, those on the shelves

	configured   []Group
	configuredAt map[netip.Addr]int // how many of them an address has
	unfit        int                // groups of the configuration that cannot be

	learnedAt       map[netip.Addr]*membership // of groups
	inRange         []int                      // learnt groups by range
	inverses        []inverse.Prefix           // of ranges
	groupsAged      time.Time                  // when learnt groups were looked at last
	togetherLearned chan struct{}              // as together, for learnt groups, so that they keep nobody else waiting

	hearing                          []netip.Addr // what the Ethernet port was told to receive
	hearAgain, heardOnce, hearFailed bool

	joinedAs []JoinedGroup // what Status shows
	changed  bool          // something of that is not as it was
}

// learnedMost bounds how many questions the subnet administrator gets at a time about learnt groups.
const learnedMost = 4

func newGroupBooks(cfg *Config) groupBooks {
	b := groupBooks{
		togetherLearned: make(chan struct{}, learnedMost),
		groups:          map[ib.GID]*membership{},
		opened:          map[netip.Addr][]*membership{},
		configuredAt:    map[netip.Addr]int{},
		learnedAt:       map[netip.Addr]*membership{},
		inRange:         make([]int, len(cfg.Ranges)),
	}
	for _, r := range cfg.Ranges {
		b.inverses = append(b.inverses, inverse.Of(r.Prefix, r.MGID))
	}
	return b
}
