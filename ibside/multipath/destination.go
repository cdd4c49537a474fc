// SPDX-License-Identifier: Apache-2.0

package multipath

import (
	"fmt"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
)

// A destination is a group or a node. state.mu guards it.
type destination struct {
	number uint32
	lid    ib.LID // the Port's own
	view   view
	mtu    [maxPorts]ib.MTU
	pkey   ib.PKey
	looked time.Time // of a node, when it was last looked for where it is not

	rule    Rule
	current int // the active member; -1: none reaches it
	settled bool
	chosen  choice
	changed time.Time // when current last did; zero: never
	opens   time.Time // when messages are taken from current; zero: they are

	// Of a group.
	joins     [maxPorts]join
	want      ibside.Join
	wanted    uint64 // counts Joins
	left      bool
	news      chan struct{} // closed when a join has ended
	listening heard
}

// A choice says by which members messages go, a bit for each.
type choice struct {
	send, take uint8
	tell       Tell
}

func bit(member int) uint8 { return 1 << member }

// has reports whether a member reaches the destination.
func (d *destination) has(member int) bool { return d.view.ways[member].lid != 0 }

// lids gives destinations LIDs of the Port's own: that of the first member if no other has it, so that lists show what
// an operator knows.
type lids struct {
	used           map[ib.LID]bool
	node, nextMLID ib.LID
}

func (l *lids) take(wanted ib.LID, group bool) ib.LID {
	if l.used == nil {
		l.used = map[ib.LID]bool{}
	}
	first, last, next := ib.LID(1), ib.LIDLast, &l.node
	if group {
		first, last, next = ib.MLIDFirst, ib.LID(0xfffe), &l.nextMLID
	}
	lid := wanted
	for range int(last-first) + 1 {
		if lid >= first && lid <= last && !l.used[lid] {
			l.used[lid] = true
			return lid
		}
		if *next = *next + 1; *next < first || *next > last {
			*next = first
		}
		lid = *next
	}
	return 0
}

// add makes a destination, which no member reaches yet. The caller holds the lock.
func (s *state) add(gid ib.GID, group bool, wanted ib.LID) (*destination, error) {
	d := &destination{current: -1, news: make(chan struct{})}
	switch {
	case len(s.unused) > 0:
		d.number, s.unused = s.unused[len(s.unused)-1], s.unused[:len(s.unused)-1]
	case int(s.last) < s.cfg.Groups+s.cfg.Nodes:
		s.last++
		d.number = s.last
	default:
		return nil, fmt.Errorf("multipath: %v: no room for another group or node; raise [workers] groups or nodes", gid)
	}
	d.lid = s.lids.take(wanted, group)
	d.view = view{gid: gid, group: group}
	s.byGID[gid], s.byLID[d.lid] = d, d
	s.tables.choose(d.number, choice{})
	s.tables.put(d.number, &d.view)
	s.tables.putLID(d.lid, d.number)
	return d, nil
}

// remove takes a destination away. The caller holds the lock.
func (s *state) remove(d *destination) {
	s.tables.choose(d.number, choice{})
	s.tables.putLID(d.lid, 0)
	for i := range s.cfg.Members {
		if d.has(i) {
			s.tables.forgetGID(i, d.view.ways[i].dgid)
		}
	}
	delete(s.byGID, d.view.gid)
	delete(s.byLID, d.lid)
	delete(s.lids.used, d.lid)
	s.unused = append(s.unused, d.number)
}

// setWay changes how a member reaches a destination; a zero LID: no more. The caller holds the lock.
func (s *state) setWay(d *destination, member int, w way) error {
	old := d.view.ways[member]
	if old == w {
		return nil
	}
	if w.lid != 0 && !s.tables.nameGID(member, w.dgid, d.number) {
		return fmt.Errorf("multipath: %v: no room for its address", d.view.gid)
	}
	d.view.ways[member] = w
	d.view.sl = 0
	for i := range d.view.ways {
		if d.has(i) {
			d.view.sl = d.view.ways[i].sl
			break
		}
	}
	s.tables.put(d.number, &d.view)
	if old.lid != 0 && (w.lid == 0 || old.dgid != w.dgid) {
		s.tables.forgetGID(member, old.dgid)
	}
	return nil
}

// leastMTU is what all members that reach the destination carry.
func (s *state) leastMTU(d *destination) (least ib.MTU) {
	for i := range s.cfg.Members {
		if m := d.mtu[i]; d.has(i) && m != 0 && (least == 0 || m < least) {
			least = m
		}
	}
	return least
}
