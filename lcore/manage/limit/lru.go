// SPDX-License-Identifier: Apache-2.0

// Package limit decides who gets what there is not enough of: Rate bounds how often, LRU says which entry of a full
// table makes room for another. Neither knows a table nor a clock.
package limit

import "container/list"

// An LRU has the entries of a table in classes, and those of a class in the order in which they were last seen to be
// in use. Entries are looked at only when one has to go, so that their class and their use may have changed meanwhile
// (second chance, as in a clock of pages).
type LRU[K comparable] struct {
	classes []*list.List // of K, the one that was in use first at the front
	at      map[K]place
}

type place struct {
	class int
	in    *list.Element
}

// NewLRU makes an LRU with so many classes. Entries of lower ones go first.
func NewLRU[K comparable](classes int) *LRU[K] {
	l := &LRU[K]{at: map[K]place{}}
	for range classes {
		l.classes = append(l.classes, list.New())
	}
	return l
}

// Put adds an entry that is in use now, or notes that one is, and its class.
func (l *LRU[K]) Put(k K, class int) {
	if old, there := l.at[k]; there && old.class == class {
		l.classes[class].MoveToBack(old.in)
		return
	}
	l.Remove(k)
	l.at[k] = place{class, l.classes[class].PushBack(k)}
}

// Remove removes an entry, if it is there.
func (l *LRU[K]) Remove(k K) {
	if old, there := l.at[k]; there {
		l.classes[old.class].Remove(old.in)
		delete(l.at, k)
	}
}

// A Verdict is what Oldest is told of an entry.
type Verdict int

// The verdicts.
const (
	Idle  Verdict = iota // it may go
	Used                 // it was in use since it was put or looked at last
	Young                // it was not, but has not been idle for long enough; nor have those behind it
)

// Oldest finds the entry to go: the one of the lowest class that has been idle for longest. look says what an entry's
// class is now, and whether it may go; it is called at most so many times. The entry that is found stays.
func (l *LRU[K]) Oldest(looks int, look func(K) (class int, v Verdict)) (oldest K, found bool) {
	for class, of := range l.classes {
		for range of.Len() {
			if looks--; looks < 0 {
				return oldest, false
			}
			k := of.Front().Value.(K)
			now, v := look(k)
			if v == Idle && now == class {
				return k, true
			}
			if v == Young && now == class {
				break
			}
			l.Put(k, now)
		}
	}
	return oldest, false
}
