// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"context"
	"time"

	"causeway/lcore"
)

// A Mirror copies packets at the points of their way through the bridge. A *bridge.Bridge is one.
type Mirror interface {
	Mirror(ctx context.Context, f lcore.Filter, snap int, see func(lcore.MirroredPacket) bool) (missed uint64, err error)
}

const (
	openMost    = 1024            // packets followed at once; beyond that the oldest is explained as far as it is known
	openTimeout = 2 * time.Second // after this time without another copy a packet is explained as far as it is known
)

// Follow explains packets that f passes, each when it has left the bridge, until tell returns false or ctx ends. With a
// drop reason or a point in f it explains each copy by itself: a copy of a dropped packet is complete. missed is how
// many copies found no room; then explanations may lack steps.
func Follow(ctx context.Context, m Mirror, t Tables, f lcore.Filter, tell func(Explanation) bool) (missed uint64, err error) {
	single := f.Drop != 0 || f.AnyDrop || f.Point != 0
	if !single {
		f = bothSides(f)
	}
	o := &open{packets: map[uint64][]lcore.MirroredPacket{}}
	missed, err = m.Mirror(ctx, f, 0, func(x lcore.MirroredPacket) bool {
		if single {
			return tell(explain([]lcore.MirroredPacket{x}, t))
		}
		for _, ended := range o.take(x) {
			if !tell(explain(ended, t)) {
				return false
			}
		}
		return true
	})
	if err == nil && ctx.Err() != nil {
		for _, rest := range o.all() {
			if !tell(explain(rest, t)) {
				break
			}
		}
	}
	return missed, err
}

// bothSides returns f with its side replaced by the direction of packets received there, so that their later copies
// pass, too.
func bothSides(f lcore.Filter) lcore.Filter {
	if f.Side != lcore.AnySide && f.Direction == lcore.BothWays {
		f.Direction = lcore.OnlyRoCEToIB
		if f.Side == lcore.IBSide {
			f.Direction = lcore.OnlyIBToRoCE
		}
	}
	f.Side = lcore.AnySide
	return f
}

// open is the packets that have not left the bridge yet.
type open struct {
	packets map[uint64][]lcore.MirroredPacket
	order   []uint64 // by their first copies; some may have ended
}

// take adds a copy, and returns the packets that have left the bridge or timed out.
func (o *open) take(m lcore.MirroredPacket) (ended [][]lcore.MirroredPacket) {
	if m.Point == lcore.Own {
		return nil
	}
	for len(o.order) > 0 {
		oldest, there := o.packets[o.order[0]]
		if there && len(o.packets) < openMost && m.Time.Sub(oldest[len(oldest)-1].Time) < openTimeout {
			break
		}
		if there {
			ended = append(ended, oldest)
			delete(o.packets, o.order[0])
		}
		o.order = o.order[1:]
	}
	mirrors, there := o.packets[m.Packet]
	if mirrors = append(mirrors, m); m.Point == lcore.Sent || m.Point == lcore.Dropped || m.Point == lcore.ToManagement {
		delete(o.packets, m.Packet)
		return append(ended, mirrors)
	}
	if o.packets[m.Packet] = mirrors; !there {
		o.order = append(o.order, m.Packet)
	}
	return ended
}

// all removes and returns all packets, in order.
func (o *open) all() (rest [][]lcore.MirroredPacket) {
	for _, id := range o.order {
		if mirrors, there := o.packets[id]; there {
			rest = append(rest, mirrors)
			delete(o.packets, id)
		}
	}
	return rest
}
