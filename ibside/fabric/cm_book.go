// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"container/list"
	"time"

	"causeway/ibside/ib"
)

// cmKey is what a repetition has in common with its request: all of it. A request ID alone may be chosen by two hosts
// behind one port, or by one host again after it has been started anew.
type cmKey struct {
	lid ib.LID
	gid ib.GID
	mad [ib.MADLen]byte
}

// cmEntry is a request that is kept.
type cmEntry struct {
	key      cmKey
	source   *cmSource
	timer    *time.Timer // while it waits: refuses it
	reply    []byte      // nil: it waits
	until    time.Time   // then the reply is forgotten
	all, own *list.Element
}

// cmSource is a port of the subnet that has asked.
type cmSource struct {
	lid      ib.LID
	kept     int
	answered list.List // of *cmEntry, the oldest first
}

// cmBook keeps requests, as many as its limits allow. An answer gives way to a new request, its source's own first: a
// port that floods us loses its own answers, and only then is refused. The caller locks.
type cmBook struct {
	limit, perSource int
	entries          map[cmKey]*cmEntry
	sources          map[ib.LID]*cmSource
	answered         *list.List // of *cmEntry, of all sources, the oldest first
	waiting          int
}

func newCMBook(c *CMConfig) cmBook {
	return cmBook{
		limit: c.Requests, perSource: c.PerSource, entries: map[cmKey]*cmEntry{}, sources: map[ib.LID]*cmSource{},
		answered: list.New(),
	}
}

// open enters a new request, or returns why that cannot be.
func (b *cmBook) open(key *cmKey) (*cmEntry, string) {
	s := b.sources[key.lid]
	if s == nil {
		s = &cmSource{lid: key.lid}
	}
	if s.kept >= b.perSource && !b.forgetOldest(&s.answered) {
		return nil, CMFullSource
	}
	if len(b.entries) >= b.limit && !b.forgetOldest(b.answered) {
		return nil, CMFull
	}
	e := &cmEntry{key: *key, source: s}
	s.kept++
	b.waiting++
	b.entries[e.key], b.sources[s.lid] = e, s
	return e, ""
}

// answer keeps the reply of a request that waits; false when it does not.
func (b *cmBook) answer(e *cmEntry, reply []byte, until time.Time) bool {
	if e.reply != nil || b.entries[e.key] != e {
		return false
	}
	e.reply, e.until = reply, until
	e.timer.Stop()
	b.waiting--
	e.all, e.own = b.answered.PushBack(e), e.source.answered.PushBack(e)
	return true
}

// expire forgets the answers whose time is over.
func (b *cmBook) expire(now time.Time) {
	for front := b.answered.Front(); front != nil && now.After(front.Value.(*cmEntry).until); front = b.answered.Front() {
		b.forget(front.Value.(*cmEntry))
	}
}

func (b *cmBook) forgetOldest(answered *list.List) bool {
	front := answered.Front()
	if front == nil {
		return false
	}
	b.forget(front.Value.(*cmEntry))
	return true
}

// forget takes an answered request out.
func (b *cmBook) forget(e *cmEntry) {
	b.answered.Remove(e.all)
	e.source.answered.Remove(e.own)
	delete(b.entries, e.key)
	if e.source.kept--; e.source.kept == 0 {
		delete(b.sources, e.source.lid)
	}
}

// forgetAll empties the book and returns how many have had no answer.
func (b *cmBook) forgetAll() int {
	left := b.waiting
	for _, e := range b.entries {
		e.timer.Stop()
	}
	clear(b.entries)
	clear(b.sources)
	b.answered.Init()
	b.waiting = 0
	return left
}
