// SPDX-License-Identifier: Apache-2.0

package learner

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/lcore/manage/ask"
	"causeway/lcore/manage/learner/bounds"
)

// A Learner learns nodes. New makes it; nil learns none.
type Learner struct {
	Deps
	cfg       Config
	lids      bounds.Questions[ib.LID]
	gids      bounds.Questions[ib.GID]
	paths     bounds.Questions[ib.GID]
	ips       bounds.Questions[netip.Addr]
	ages      bounds.Ages[ib.GID]
	contested map[netip.Addr]*contest // addresses of learned nodes
	slots     ask.Slots               // requests to the subnet administrator
	count     Counters
}

// atOnce bounds the requests to the subnet administrator: others need it, too.
const atOnce = 8

// New makes a Learner.
func New(c Config, d Deps) *Learner {
	l := &Learner{Deps: d, cfg: c, contested: map[netip.Addr]*contest{}, slots: make(ask.Slots, atOnce)}
	l.ages.Idle = c.Idle
	return l
}

// Follow takes the changes of addresses until the loop ends.
func (l *Learner) Follow() {
	if l == nil {
		return
	}
	running := l.Ask.Running()
	l.Ask.Go(func() {
		for {
			select {
			case c, open := <-l.Resolver.Changes():
				if !open || !l.Ask.Later(running, func() { l.changed(c, time.Now()) }) {
					return
				}
			case <-running.Done():
				return
			}
		}
	})
}

// Learned returns how many nodes are learned.
func (l *Learner) Learned() int {
	if l == nil {
		return 0
	}
	return l.ages.Len()
}

// Counters returns a copy of the counters.
func (l *Learner) Counters() Counters {
	if l == nil {
		return Counters{}
	}
	return l.count
}

// begin reports whether to ask, and counts it.
func (l *Learner) begin(begin, full bool) bool {
	if full {
		l.reject("questions", "note", "too many at a time")
	} else if begin {
		l.count.NodesAsked++
	}
	return begin
}

// reject counts what is not learned.
func (l *Learner) reject(why string, args ...any) {
	l.count.NodesRejected++
	if l.Log.Allow("node_not_learned", 1) {
		l.Log.Warn("node_not_learned", append([]any{"why", why}, args...)...)
	}
}

// Unknown asks who has sent a message, by its SGID, or if that is zero by its SLID.
func (l *Learner) Unknown(lid ib.LID, gid ib.GID, now time.Time) {
	switch {
	case l == nil:
	case !gid.IsZero():
		l.byGID(gid, now)
	case lid.IsUnicast() && l.begin(l.lids.Begin(lid, bounds.Most, now)):
		l.request(func(ctx context.Context) func() {
			holder, err := l.Port.Holder(ctx, lid)
			if err != nil {
				return func() { l.Log.Debug("lid_unknown", "lid", lid, "error", err) }
			}
			return func() { l.byGID(holder, time.Now()) }
		})
	}
}

// Wanted asks who has an address that a RoCE host asks for, or sends to, or that asks for a service; stranger: a host that has
// never answered. It reports false when the address cannot be that of a node to be learned.
func (l *Learner) Wanted(ip netip.Addr, stranger bool, now time.Time) bool {
	if l == nil || !l.Nodes.GID(ip).IsZero() || !l.mayLearn(ip) {
		return false
	}
	there, ok := l.cfg.Translate.ToIB(ip)
	if !ok || !contains(l.Resolver.Subnets(), there) {
		return false
	}
	if gid, known := l.Resolver.GID(there); known && l.ages.Has(gid) {
		l.another(ip, gid, now)
	} else if known {
		l.byGID(gid, now)
	}
	most := bounds.Most
	if stranger {
		most = bounds.MostForStrangers
	}
	if l.begin(l.ips.Begin(ip, most, now)) {
		l.tell(l.Resolver.Ask, there)
	}
	return true
}

// request makes a request to the subnet administrator, once, and runs what it returns in the loop.
func (l *Learner) request(request func(context.Context) func()) {
	l.Ask.Go(func() {
		ctx, cancel := context.WithTimeout(l.Ask.Running(), ask.Timeout)
		defer cancel()
		select {
		case l.slots <- struct{}{}:
			defer func() { <-l.slots }()
			l.Ask.Tell(request(ctx))
		case <-ctx.Done():
		}
	})
}

// tell has the kernel do something about an address.
func (l *Learner) tell(what func(netip.Addr) error, there netip.Addr) {
	l.Ask.Go(func() {
		if err := what(there); err != nil {
			l.Ask.Tell(func() {
				if l.Log.Allow("node_not_asked", 1) {
					l.Log.Warn("node_not_asked", "ip", there, "error", err)
				}
			})
		}
	})
}

// byGID learns the node with a GID, if it has an address.
func (l *Learner) byGID(gid ib.GID, now time.Time) {
	if slices.Contains(l.Port.Own().GIDs, gid) {
		return
	}
	if begin, _ := l.gids.Begin(gid, bounds.Most, now); begin {
		l.learn(gid, now)
	}
}

// learn asks for the path to a GID, or, if it is a learned node, follows its addresses.
func (l *Learner) learn(gid ib.GID, now time.Time) {
	old, known := l.Nodes.Find(gid)
	x := l.nodeOf(gid, old)
	switch {
	case known && !old.Learned:
	case known && len(x.Addrs()) == 0:
		l.remove(gid, lost)
	case known && x != old:
		l.put(x, ibside.Path{}, now)
	case !known && len(x.Addrs()) == 0:
		if has := l.Resolver.Addrs(gid); len(has) > 0 {
			l.reject("address", "gid", gid, "ipoib", has, "note", "outside of [policy] allow or [roce] addresses, or another's")
		}
	case !known && l.begin(l.paths.Begin(gid, bounds.Most, now)):
		l.request(func(ctx context.Context) func() {
			path, err := l.Port.Path(ctx, gid, 0)
			if err != nil {
				return func() { l.Log.Debug("gid_unknown", "gid", gid, "error", err) }
			}
			return func() {
				if _, known := l.Nodes.Find(gid); !known {
					l.put(l.nodeOf(gid, x), path, time.Now())
				}
			}
		})
	}
}
