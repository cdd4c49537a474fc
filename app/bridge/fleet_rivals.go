// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync/atomic"
	"time"

	"causeway/ibside"
	"causeway/lcore/manage/bridges"
)

// rivals finds other fleets of the name of the bridge's own, each with its assignment in another etcd: they would forward
// the same shares, with the same MAC addresses. Only the one that was founded first does anything. Members say of which
// fleet they are only after its etcd has told them when that was, so that none is taken for another's whose etcd is away.
type rivals struct {
	fleet   string
	own     func() ibside.Fleet // Founded is 0 until etcd has told
	bridges func() []bridges.Bridge
	lasting time.Duration // after which one counts: what the subnet administrator lists may have ended
	bar     func(on bool) // has the bridge forward nothing of the fleet's, whatever its shares
	log     *slog.Logger

	since time.Time // when those that are there now came; zero: there are none
	found atomic.Pointer[rival]
}

// rival is what was found; nil: nothing.
type rival struct {
	earlier bool // it was founded before the bridge's own fleet
	text    string
}

// rivalsEvery is how often the list of bridges is looked at, which management reads each two seconds.
const rivalsEvery = 200 * time.Millisecond

// run looks until ctx ends.
func (r *rivals) run(ctx context.Context) {
	tick := time.NewTicker(rivalsEvery)
	defer tick.Stop()
	for {
		r.look(time.Now())
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// look looks once.
func (r *rivals) look(now time.Time) {
	x := rivalOf(r.fleet, r.own(), r.bridges())
	switch {
	case x == nil:
		r.since = time.Time{}
	case r.since.IsZero():
		r.since = now
	}
	if x != nil && now.Sub(r.since) < r.lasting {
		x = nil
	}
	was := r.found.Swap(x)
	if x != nil && was == nil {
		r.log.Warn("fleet_twice", "fleet", r.fleet, "withdraws", x.earlier, "note", x.text)
	}
	if before := was != nil && was.earlier; before != (x != nil && x.earlier) {
		r.bar(!before)
	}
}

// why says why the bridge can do no part because of another fleet; "": it can.
func (r *rivals) why() string {
	if x := r.found.Load(); x != nil && x.earlier {
		return x.text
	}
	return ""
}

// other says which fleet does no part because of the bridge's; "": none.
func (r *rivals) other() string {
	if x := r.found.Load(); x != nil && !x.earlier {
		return x.text
	}
	return ""
}

// rivalOf returns the other fleets of a fleet's name that bridges are of; nil: there are none.
func rivalOf(name string, own ibside.Fleet, others []bridges.Bridge) *rival {
	const named = 3
	var theirs []string
	first := uint64(math.MaxUint64)
	for _, b := range others {
		if own.Founded == 0 || b.Fleet.Founded == 0 || b.Fleet.Name != own.Name || b.Fleet.Founded == own.Founded {
			continue
		}
		first = min(first, b.Fleet.Founded)
		if theirs = append(theirs, b.GIDs[0].String()); len(b.MACs) > 0 {
			theirs[len(theirs)-1] += fmt.Sprintf(" (%v)", b.MACs[0])
		}
	}
	if len(theirs) == 0 {
		return nil
	}
	if more := len(theirs) - named; more > 0 {
		theirs = append(theirs[:named], fmt.Sprintf("%d more", more))
	}
	x := &rival{earlier: first < own.Founded}
	order := "after this one, and does nothing while this one is there"
	if x.earlier {
		order = "before this one"
	}
	x.text = fmt.Sprintf("another fleet is called %s, with another etcd, and was founded %s; its bridges are %s", name, order, strings.Join(theirs, ", "))
	return x
}

// fleetOf is what a member tells other bridges of its fleet.
func fleetOf(name string, founded uint64) ibside.Fleet {
	if founded == 0 {
		return ibside.Fleet{}
	}
	sum := sha256.Sum256([]byte(name))
	return ibside.Fleet{Name: binary.BigEndian.Uint64(sum[:]), Founded: founded}
}
