// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"container/list"
	"time"

	"causeway/ibside/ib"
)

// cmKey identifies a request and its retries by the whole MAD. A request ID is not enough: two hosts behind one port
// may choose the same, as may one host before and after a restart.
type cmKey struct {
	lid ib.LID
	gid ib.GID
	mad [ib.MADLen]byte
}

// cmEntry is a request.
type cmEntry struct {
	key      cmKey
	source   *cmSource
	timer    *time.Timer // rejects it if it is not answered in time
	reply    []byte      // nil: not answered yet
	until    time.Time   // when the reply is dropped
	all, own *list.Element
}

// cmSource is a port that sent requests.
type cmSource struct {
	lid      ib.LID
	kept     int
	answered list.List // of *cmEntry, the oldest first
}

// cmState holds requests up to its limits. A new request evicts the oldest answered one, first of its own source: a
// port that floods the CM first loses its own answers, then its requests are rejected. The caller holds the lock.
type cmState struct {
	limit, perSource int
	entries          map[cmKey]*cmEntry
	sources          map[ib.LID]*cmSource
	answered         *list.List // of *cmEntry, of all sources, the oldest first
	waiting          int
}

func newCMState(c *CMConfig) cmState {
	return cmState{
		limit: c.Requests, perSource: c.PerSource, entries: map[cmKey]*cmEntry{}, sources: map[ib.LID]*cmSource{},
		answered: list.New(),
	}
}

// open adds a new request, or returns why it cannot.
func (s *cmState) open(key *cmKey) (*cmEntry, string) {
	source := s.sources[key.lid]
	if source == nil {
		source = &cmSource{lid: key.lid}
	}
	if source.kept >= s.perSource && !s.dropOldest(&source.answered) {
		return nil, CMFullSource
	}
	if len(s.entries) >= s.limit && !s.dropOldest(s.answered) {
		return nil, CMFull
	}
	e := &cmEntry{key: *key, source: source}
	source.kept++
	s.waiting++
	s.entries[e.key], s.sources[source.lid] = e, source
	return e, ""
}

// answer stores the reply to a request; false when it is already answered or gone.
func (s *cmState) answer(e *cmEntry, reply []byte, until time.Time) bool {
	if e.reply != nil || s.entries[e.key] != e {
		return false
	}
	e.reply, e.until = reply, until
	e.timer.Stop()
	s.waiting--
	e.all, e.own = s.answered.PushBack(e), e.source.answered.PushBack(e)
	return true
}

// expire removes expired answers.
func (s *cmState) expire(now time.Time) {
	for front := s.answered.Front(); front != nil && now.After(front.Value.(*cmEntry).until); front = s.answered.Front() {
		s.remove(front.Value.(*cmEntry))
	}
}

func (s *cmState) dropOldest(answered *list.List) bool {
	front := answered.Front()
	if front == nil {
		return false
	}
	s.remove(front.Value.(*cmEntry))
	return true
}

// remove removes an answered request.
func (s *cmState) remove(e *cmEntry) {
	s.answered.Remove(e.all)
	e.source.answered.Remove(e.own)
	delete(s.entries, e.key)
	if e.source.kept--; e.source.kept == 0 {
		delete(s.sources, e.source.lid)
	}
}

// clear removes all requests and returns how many were not answered.
func (s *cmState) clear() int {
	left := s.waiting
	for _, e := range s.entries {
		e.timer.Stop()
	}
	clear(s.entries)
	clear(s.sources)
	s.answered.Init()
	s.waiting = 0
	return left
}
