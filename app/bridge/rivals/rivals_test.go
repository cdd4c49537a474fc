// SPDX-License-Identifier: Apache-2.0

package rivals

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/manage/bridges"
)

// TestOneOfTwo: the one that came later carries nothing, until the first one ends; then it begins.
func TestOneOfTwo(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		one := w.come(t, parsed(t, "one", nil, []int{1}, []int{7}), "", 0)
		w.after(t, 200*time.Millisecond, 1, "alone", 1)
		two := w.come(t, parsed(t, "two", nil, []int{1}, []int{7}), "", 0)
		w.after(t, 10*time.Second, 1, "both", 1)
		why := two.r.Why()
		for _, part := range []string{`bridge "one" (fe80::1)`, "came before this one", "every message would arrive twice", `beside = ["one"] here, and ["two"] there`} {
			if !strings.Contains(why, part) {
				t.Errorf("%q is not in %q", part, why)
			}
		}
		if !strings.Contains(one.r.Yields(), `bridge "two" is between the same two fabrics`) || strings.Count(one.log.String(), "msg=rival_yields") != 1 || strings.Count(two.log.String(), "msg=rival_first") != 1 {
			t.Errorf("%q\n%s%s", one.r.Yields(), &one.log, &two.log)
		}
		one.end()
		one.change(func() { one.dead = true })
		w.after(t, lasting+time.Second, 1, "one has ended", 2)
		if two.r.Why() != "" || !strings.Contains(two.log.String(), "msg=rival_gone") {
			t.Errorf("%q\n%s", two.r.Why(), &two.log)
		}
	})
}

// TestListedLate: a bridge that comes waits until those that are there have read of it, and answer.
func TestListedLate(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.lag = bridges.Every
		w.come(t, parsed(t, "one", nil, []int{1}, nil), "", 0)
		w.after(t, time.Second, 1, "alone", 1)
		w.come(t, parsed(t, "two", nil, []int{1}, nil), "", 0)
		w.after(t, 10*time.Second, 1, "both", 1)
	})
}

// TestAtOnce: of several that come at the same instant, one carries.
func TestAtOnce(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		for i := range 4 {
			w.come(t, parsed(t, fmt.Sprint("b", i), nil, []int{1}, nil), "", 0)
		}
		w.after(t, 5*time.Second, 1, "four", 1)
	})
}

// TestEarlierByItsClock: who finds another one that carries has come later, whatever the clocks say.
func TestEarlierByItsClock(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		one := w.come(t, parsed(t, "one", nil, []int{1}, nil), "", 0)
		w.after(t, time.Second, 1, "alone", 1)
		synctest.Wait()
		one.r.came = uint64(time.Now().Add(time.Hour).UnixNano()) // its clock is an hour ahead
		w.come(t, parsed(t, "two", nil, []int{1}, nil), "", 0)
		w.after(t, 10*time.Second, 1, "both", 1)
	})
}

// TestDrained: a drained bridge is in nobody's way, and one that comes back finds who took over.
func TestDrained(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		one := w.come(t, parsed(t, "one", nil, []int{1}, nil), "", 0)
		w.after(t, time.Second, 1, "alone", 1)
		w.come(t, parsed(t, "two", nil, []int{1}, nil), "", 0)
		w.after(t, time.Second, 1, "both", 1)
		one.change(func() { one.away = true })
		w.after(t, time.Second, 1, "one is drained", 2)
		one.change(func() { one.away = false })
		w.after(t, 10*time.Second, 1, "one is back", 2)
	})
}

// TestOtherEthernet: a bridge that shares only InfiniBand, or that says nothing, is in nobody's way.
func TestOtherEthernet(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.come(t, parsed(t, "one", nil, []int{1}, nil), "", 0)
		w.come(t, parsed(t, "two", nil, []int{1}, nil), "", 0, func(s *station) { s.ethernet = false })
		w.after(t, 5*time.Second, 2, "two Ethernets", 1, 2)
		w.come(t, parsed(t, "three", nil, []int{1}, nil), "", 0, func(s *station) { s.dead = true })
		w.after(t, 3*time.Second, 3, "a record without a bridge", 1, 2)
	})
}

// TestFleets: members of one fleet are beside each other; of two fleets the one that was founded first carries, and so does a
// fleet before a bridge that came after it was founded.
func TestFleets(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		var east []*station
		for i := range 3 {
			east = append(east, w.come(t, parsed(t, fmt.Sprint("e", i), nil, []int{1}, nil), "prod", 100))
		}
		w.after(t, time.Second, 3, "a fleet", 1, 2, 3)
		typo := w.come(t, parsed(t, "e3", nil, []int{1}, nil), "prodd", 200)
		w.after(t, time.Second, 3, "another name", 1, 2, 3)
		if why := typo.r.Why(); !strings.Contains(why, `of fleet "prod"`) || !strings.Contains(why, `give them one [fleet] name (this one's is "prodd")`) {
			t.Error(why)
		}
		w.come(t, parsed(t, "lone", nil, []int{1}, nil), "", 0)
		w.after(t, time.Second, 3, "and one alone", 1, 2, 3)
		for _, s := range east {
			s.end()
			s.change(func() { s.dead = true })
		}
		w.after(t, lasting+time.Second, 1, "the fleet has ended", 4)
		back := w.come(t, parsed(t, "e0", nil, []int{1}, nil), "prod", 100)
		w.after(t, 2*time.Second, 1, "it is back", back.number)
	})
}

// TestMemberWithoutRecord: a member that has just learned of which fleet it is, and whose record does not say so yet, is no rival.
func TestMemberWithoutRecord(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		var all []*station
		for i := range 3 {
			knowsNothing := func(s *station) { s.record, s.fleet, s.away = ibside.Fleet{}, ibside.Fleet{}, true }
			all = append(all, w.come(t, parsed(t, fmt.Sprint("e", i), nil, []int{1}, nil), "prod", 100, knowsNothing))
		}
		w.after(t, time.Second, 0, "none knows its fleet")
		for i, s := range all {
			s.change(func() { s.fleet, s.away = ibside.Fleet{Name: 4, Founded: 100}, false })
			w.after(t, time.Second, i+1, "one knows it", []int{1, 2, 3}[:i+1]...)
		}
	})
}

// TestBeside: two that name each other carry what they have, unless they have something in common.
func TestBeside(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		var groups []int
		for n := range 50 {
			groups = append(groups, 0x100+n)
		}
		one := w.come(t, parsed(t, "one", []string{"two"}, groups, []int{7}), "", 0)
		w.after(t, time.Second, 1, "alone", 1)
		two := w.come(t, parsed(t, "two", nil, []int{2}, []int{8}), "", 0)
		w.after(t, time.Second, 1, "one names the other", 1)
		if why := two.r.Why(); !strings.Contains(why, `write [bridge] beside = ["one"] here`) {
			t.Error(why)
		}
		two.change(func() { two.cfg = parsed(t, "two", []string{"one"}, []int{2}, []int{8}) })
		w.after(t, time.Second, 2, "each names the other", 1, 2)
		both := parsed(t, "two", []string{"one"}, []int{2, 0x131, 0x105}, []int{8, 7})
		if err := two.r.Check(two.locked().cfg, both); err == nil || err.Error() != `bridge "one", which this one is beside, carries this, too: group 239.0.1.5, group 239.0.1.49, node 10.9.0.7` {
			t.Error(err)
		}
		two.change(func() { two.cfg = both }) // as at a start
		w.after(t, time.Second, 2, "they have something in common", 1)
		if why := two.r.Why(); !strings.Contains(why, "both carry group 239.0.1.5, group 239.0.1.49, node 10.9.0.7: take it out of one of them") {
			t.Error(why)
		}
		one.change(func() { one.cfg = parsed(t, "one", []string{"two"}, groups[:5], nil) })
		w.after(t, time.Second, 2, "no more", 1, 2)
		one.change(func() { one.cfg = parsed(t, "one", nil, groups[:5], nil) })
		w.after(t, time.Second, 2, "one does not name the other any more", 1)
		if why := two.r.Why(); !strings.Contains(why, `does not name this one: write [bridge] beside = ["two"] there`) {
			t.Error(why)
		}
	})
}

// TestForgedAnswers: who has not heard what is asked over InfiniBand stops nobody.
func TestForgedAnswers(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		one := w.come(t, parsed(t, "one", nil, []int{1}, nil), "", 0)
		w.come(t, parsed(t, "forger", nil, []int{1}, nil), "", 0, func(s *station) { s.dead = true }).end()
		m := message{what: answer, flags: carries | wants, from: 2, to: 1, name: "forger", came: 1}
		for range 3000 {
			m.nonce++
			one.r.Received(true, m.seal())
			time.Sleep(time.Millisecond)
		}
		w.after(t, time.Second, 1, "forged", 1)
	})
}

// TestForgedAsks: a flood of questions in another bridge's name, from before it comes, does not keep that one from being answered, or it
// would begin.
func TestForgedAsks(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		one := w.come(t, parsed(t, "one", nil, []int{1}, nil), "", 0)
		w.after(t, time.Second, 1, "alone", 1)
		stop := make(chan struct{})
		defer close(stop)
		go func() {
			m := message{what: ask, from: 2, to: 1, nonce: 1, macs: []frame.MAC{macOf(9), macOf(2)}}
			for tick := time.NewTicker(time.Millisecond); ; {
				select {
				case <-tick.C:
				case <-stop:
					tick.Stop()
					return
				}
				for range 5 {
					one.r.Received(false, m.seal())
					m.nonce++
				}
				m.nonce = 1 + m.nonce%20
			}
		}()
		w.come(t, parsed(t, "two", nil, []int{1}, nil), "", 0)
		w.after(t, 15*time.Second, 1, "flooded", 1)
	})
}

// TestOverheard: an answer that somebody else hears on Ethernet is worth nothing a second time, with other words.
func TestOverheard(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		one := w.come(t, parsed(t, "one", nil, []int{1}, nil), "", 0)
		w.after(t, time.Second, 1, "alone", 1)
		w.overhear = func(data []byte) {
			if m, ok := open(data); ok && m.what == answer && m.to == 1 {
				m.flags, m.came = carries|wants, 1
				time.AfterFunc(2*time.Millisecond, func() { one.r.Received(true, m.seal()) })
			}
		}
		w.come(t, parsed(t, "two", nil, []int{1}, nil), "", 0)
		w.after(t, 10*time.Second, 1, "overheard", 1)
	})
}

// TestSlowChange: while a bridge leaves what it carries, which may take long, it answers, and nobody begins; then it is left for the one
// that was there before.
func TestSlowChange(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		one := w.come(t, parsed(t, "one", nil, []int{1}, nil), "", 0)
		w.after(t, time.Second, 1, "alone", 1)
		one.slow = 10 * time.Second
		fleet := w.come(t, parsed(t, "e0", nil, []int{1}, nil), "prod", 1)
		w.after(t, 8*time.Second, 1, "one is slow", 1)
		w.after(t, 5*time.Second, 1, "one has left", fleet.number)
	})
}

// TestListedAnew: who is listed under ever new names keeps nobody from beginning.
func TestListedAnew(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.extra = func() bridges.Bridge {
			return bridges.Bridge{Instance: 1000 + uint64(time.Now().UnixMilli()/100), GIDs: []ib.GID{gidOf(99)}}
		}
		w.come(t, parsed(t, "one", nil, []int{1}, nil), "", 0)
		w.after(t, lookList+look+time.Second, 1, "ever new records", 1)
	})
}

// TestReloadBeside: two beside each other go on while one has other groups, which the other one has yet to hear of.
func TestReloadBeside(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		one := w.come(t, parsed(t, "one", []string{"two"}, []int{1}, nil), "", 0)
		two := w.come(t, parsed(t, "two", []string{"one"}, []int{2}, nil), "", 0)
		w.after(t, 5*time.Second, 2, "beside", 1, 2)
		one.change(func() { one.cfg = parsed(t, "one", []string{"two"}, []int{1, 3}, nil) })
		for range 3000 {
			w.after(t, time.Millisecond, 2, "after a reload", 1, 2)
		}
		if strings.Contains(two.log.String(), "rival_gone") && strings.Count(two.log.String(), "rival_first") > 1 || two.r.Why() != "" {
			t.Errorf("%s%s", two.r.Why(), &two.log)
		}
	})
}
