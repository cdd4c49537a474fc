// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"context"
	"time"

	"causeway/lcore"
)

// A Watcher shows packets: the house.
type Watcher interface {
	Watch(ctx context.Context, f lcore.Filter, snap int, see func(lcore.Sight) bool) (missed uint64, err error)
}

const (
	mostOpen = 1024            // packets followed at once; then the oldest is explained as it stands
	patience = 2 * time.Second // without a further sight a packet is explained as it stands
)

// Follow explains packets that f passes, one after the other as their ways end, until tell returns false or ctx ends.
// With a reason or a point in f it explains what was seen there alone: a packet that died is whole when it dies. missed
// is how many sights there was no room for: what is explained may then lack steps.
func Follow(ctx context.Context, w Watcher, s Shelves, f lcore.Filter, tell func(Explanation) bool) (missed uint64, err error) {
	single := f.Drop != 0 || f.AnyDrop || f.Point != 0
	if !single {
		f = bothDoors(f)
	}
	o := &open{packets: map[uint64][]lcore.Sight{}}
	missed, err = w.Watch(ctx, f, 0, func(x lcore.Sight) bool {
		if single {
			return tell(Explain([]lcore.Sight{x}, s))
		}
		for _, ended := range o.take(x) {
			if !tell(Explain(ended, s)) {
				return false
			}
		}
		return true
	})
	if err == nil && ctx.Err() != nil {
		for _, rest := range o.all() {
			if !tell(Explain(rest, s)) {
				break
			}
		}
	}
	return missed, err
}

// bothDoors has a filter pass what follows of the packets that come in by its door.
func bothDoors(f lcore.Filter) lcore.Filter {
	if f.Door != lcore.AnyDoor && f.Direction == lcore.BothWays {
		f.Direction = lcore.OnlyRoCEToIB
		if f.Door == lcore.IBDoor {
			f.Direction = lcore.OnlyIBToRoCE
		}
	}
	f.Door = lcore.AnyDoor
	return f
}

// open is the packets whose end has not been seen.
type open struct {
	packets map[uint64][]lcore.Sight
	order   []uint64 // by their first sights; some may have ended
}

// take adds a sight, and returns the packets that have ended, or been waited for long enough.
func (o *open) take(s lcore.Sight) (ended [][]lcore.Sight) {
	if s.Point == lcore.Own {
		return nil
	}
	for len(o.order) > 0 {
		oldest, there := o.packets[o.order[0]]
		if there && len(o.packets) < mostOpen && s.Time.Sub(oldest[len(oldest)-1].Time) < patience {
			break
		}
		if there {
			ended = append(ended, oldest)
			delete(o.packets, o.order[0])
		}
		o.order = o.order[1:]
	}
	sights, there := o.packets[s.Packet]
	if sights = append(sights, s); s.Point == lcore.Sent || s.Point == lcore.Dropped || s.Point == lcore.ToManagement {
		delete(o.packets, s.Packet)
		return append(ended, sights)
	}
	if o.packets[s.Packet] = sights; !there {
		o.order = append(o.order, s.Packet)
	}
	return ended
}

// all returns what is open, in order.
func (o *open) all() (rest [][]lcore.Sight) {
	for _, id := range o.order {
		if sights, there := o.packets[id]; there {
			rest = append(rest, sights)
			delete(o.packets, id)
		}
	}
	return rest
}
