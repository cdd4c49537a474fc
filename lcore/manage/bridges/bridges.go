// SPDX-License-Identifier: Apache-2.0

// Package bridges finds the other bridges on the subnet, and is found by them. What bears another's GID, LID or MAC
// address has crossed a bridge, and crosses no second one:
//
//	MAC addresses of the Ethernet ports ─ Tick ─▶ ibside.Announcer ─▶ subnet administrator
//	tables, workers: loop_bridge ◀── changes ──── the list of all ◀──┘
//
// The subnet is believed: who may write to the subnet administrator may also send in another's name.
package bridges

import (
	"cmp"
	"context"
	"slices"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/manage/ask"
	"causeway/lcore/manage/ratelog"
	"causeway/tables"
)

// Every is how often the list is read; while a port of the subnet has come lately, which may be a bridge's, more often. For
// so long, what a new bridge sends may be taken for a node's.
const (
	Every       = 2 * time.Second
	everyAtNews = 200 * time.Millisecond
	lately      = 5 * time.Second
)

// Keep is how long a bridge still counts that is on the list no more: a subnet manager that restarts has an empty list, and
// what the others send comes all the same.
const Keep = time.Minute

// timeout bounds one reading, and one announcement.
const timeout = 5 * time.Second

// Tables drop what comes from other bridges on InfiniBand.
type Tables interface {
	SetBridges([]tables.Bridge) error
}

// Deps are what a List works with.
type Deps struct {
	Port     ibside.Announcer
	Own      func() ibside.Own
	Instance uint64              // of this bridge
	MACs     func() []frame.MAC  // by which it sends on Ethernet
	Fleet    func() ibside.Fleet // nil: it is in none
	Tables   Tables
	SetMACs  func([][6]byte) error // has workers drop what comes from other bridges on Ethernet; nil: there are none
	Ask      *ask.Asker
	Log      *ratelog.Logger
}

// A Bridge is another bridge, with the ports that are on the subnet.
type Bridge struct {
	Instance uint64
	GIDs     []ib.GID
	MACs     []frame.MAC
	Fleet    ibside.Fleet // Founded is 0: it is in none, or does not say so
	Since    time.Time
}

// A List is the other bridges. Its methods belong to the loop's goroutine. nil lists none.
type List struct {
	Deps
	asking    bool
	read      time.Time
	news      time.Time // when a port came last
	announced *ibside.Bridge
	known     []ibside.Bridge // as the subnet has them, in the order of their GIDs
	since     map[ib.GID]time.Time
	listed    map[ib.GID]time.Time // when last
	failed    bool
	whole     bool // the list has been read
}

// New makes a List; nil where the port has no such list.
func New(d Deps) *List {
	if d.Port == nil {
		return nil
	}
	return &List{Deps: d, since: map[ib.GID]time.Time{}, listed: map[ib.GID]time.Time{}}
}

// PortsCame says that ports of the subnet have come or gone.
func (l *List) PortsCame(now time.Time) {
	if l != nil {
		l.news = now
	}
}

func (l *List) every(now time.Time) time.Duration {
	if now.Sub(l.news) < lately {
		return everyAtNews
	}
	return Every
}

// Tick reads the list when it is time to, after announcing what is new of this bridge.
func (l *List) Tick(now time.Time) {
	if l != nil && l.news.IsZero() {
		l.news = now // the bridge's own has come
	}
	if l == nil || l.asking || now.Sub(l.read) < l.every(now) {
		return
	}
	l.asking, l.read = true, now
	own := l.announcement()
	announce := l.announced == nil || !same(own, *l.announced)
	l.Ask.Go(func() {
		var failed error
		if announce {
			ctx, cancel := context.WithTimeout(l.Ask.Running(), timeout)
			failed = l.Port.Announce(ctx, own)
			cancel()
		}
		ctx, cancel := context.WithTimeout(l.Ask.Running(), timeout)
		defer cancel()
		all, err := l.Port.Bridges(ctx)
		l.Ask.Tell(func() {
			l.asking = false
			if announce && failed == nil {
				l.announced = &own
			}
			l.tell(failed, err)
			l.take(all, err == nil, now)
		})
	})
}

// announcement is what the bridge says of itself.
func (l *List) announcement() ibside.Bridge {
	b := ibside.Bridge{Instance: l.Instance}
	for _, m := range l.MACs() {
		b.MACs = append(b.MACs, m)
	}
	if l.Fleet != nil {
		b.Fleet = l.Fleet()
	}
	return b
}

// tell logs the first of several failures.
func (l *List) tell(announce, list error) {
	failed := announce != nil || list != nil
	if failed && !l.failed && l.Ask.Running().Err() == nil {
		l.Log.Warn("bridges_unknown", "announce", announce, "list", list,
			"note", "other bridges on the subnet are not told from nodes: give each a [[host]] with bridge = true")
	}
	l.failed = failed
}

// take takes the list. If it may lack some, those that were known stay; else they stay for a while, without their LIDs,
// which may be others' by now.
func (l *List) take(all []ibside.Bridge, whole bool, now time.Time) {
	own := l.Own().GIDs
	all = slices.DeleteFunc(all, func(b ibside.Bridge) bool { return b.Instance == l.Instance || slices.Contains(own, b.GID) })
	for _, b := range all {
		l.listed[b.GID] = now
	}
	for _, b := range l.known {
		if whole {
			b.LID, b.LMC = 0, 0
		}
		if !has(all, b.GID) && (!whole || now.Sub(l.listed[b.GID]) < Keep) {
			all = append(all, b)
		}
	}
	all = merged(all)
	if slices.EqualFunc(all, l.known, same) {
		l.whole = l.whole || whole
		return
	}
	if err := l.set(all); err != nil {
		if l.Log.Allow("bridges_rejected", 1) {
			l.Log.Error("bridges_rejected", "error", err)
		}
		return
	}
	l.report(all, now)
	l.known, l.whole = all, l.whole || whole
}

// merged sorts by GID, and makes one of several records of a process at a port. A record of another process stays: whoever writes one in a
// bridge's name does not hide the bridge.
func merged(all []ibside.Bridge) (out []ibside.Bridge) {
	slices.SortStableFunc(all, func(a, b ibside.Bridge) int {
		return cmp.Or(slices.Compare(a.GID[:], b.GID[:]), cmp.Compare(a.Instance, b.Instance))
	})
	for _, b := range all {
		if n := len(out); n == 0 || out[n-1].GID != b.GID || out[n-1].Instance != b.Instance {
			b.MACs = slices.Clone(b.MACs)
			out = append(out, b)
			continue
		}
		last := &out[len(out)-1]
		for _, m := range b.MACs {
			if !slices.Contains(last.MACs, m) {
				last.MACs = append(last.MACs, m)
			}
		}
	}
	return out
}

func same(a, b ibside.Bridge) bool {
	return a.Instance == b.Instance && a.GID == b.GID && a.LID == b.LID && a.LMC == b.LMC && a.Fleet == b.Fleet && slices.Equal(a.MACs, b.MACs)
}

// set has tables and workers drop what comes from these.
func (l *List) set(all []ibside.Bridge) error {
	own := l.MACs()
	var macs [][6]byte
	var ports []tables.Bridge
	for i, b := range all {
		if i == 0 || all[i-1].GID != b.GID {
			ports = append(ports, tables.Bridge{GID: b.GID, LID: b.LID, LMC: b.LMC})
		}
		for _, m := range b.MACs {
			if mac := frame.MAC(m); mac != (frame.MAC{}) && mac[0]&1 == 0 && !slices.Contains(own, mac) && !slices.Contains(macs, m) {
				macs = append(macs, m)
			}
		}
	}
	if err := l.Tables.SetBridges(ports); err != nil {
		return err
	}
	if l.SetMACs == nil {
		return nil
	}
	return l.SetMACs(macs)
}

func has(list []ibside.Bridge, gid ib.GID) bool {
	return slices.ContainsFunc(list, func(b ibside.Bridge) bool { return b.GID == gid })
}

func (l *List) report(all []ibside.Bridge, now time.Time) {
	for _, b := range l.known {
		if !has(all, b.GID) {
			l.Log.Info("bridge_gone", "gid", b.GID)
			delete(l.since, b.GID)
			delete(l.listed, b.GID)
		}
	}
	for _, b := range all {
		if !has(l.known, b.GID) {
			l.since[b.GID] = now
			l.Log.Info("bridge_found", "gid", b.GID, "lid", b.LID, "macs", macsOf(b.MACs))
		}
	}
}

func macsOf(all [][6]byte) (out []frame.MAC) {
	for _, m := range all {
		out = append(out, frame.MAC(m))
	}
	return out
}

// Listed reports whether the list has been read whole once, or cannot be read.
func (l *List) Listed() bool { return l == nil || l.whole || l.failed }

// HasMAC reports whether another bridge sends by a MAC address.
func (l *List) HasMAC(mac frame.MAC) bool {
	return l != nil && slices.ContainsFunc(l.known, func(b ibside.Bridge) bool { return slices.Contains(b.MACs, [6]byte(mac)) })
}

// All returns the other bridges, those with the same instance as one.
func (l *List) All() (out []Bridge) {
	if l == nil {
		return nil
	}
	for _, b := range l.known {
		i := slices.IndexFunc(out, func(o Bridge) bool { return o.Instance != 0 && o.Instance == b.Instance })
		if i < 0 {
			out = append(out, Bridge{Instance: b.Instance, GIDs: []ib.GID{b.GID}, MACs: macsOf(b.MACs), Fleet: b.Fleet, Since: l.since[b.GID]})
			continue
		}
		out[i].GIDs = append(out[i].GIDs, b.GID)
	}
	return out
}
