// SPDX-License-Identifier: Apache-2.0

package lcore_test

import (
	"sync"
	"testing"
	"time"

	"causeway/ibside/fabricport"
	"causeway/lcore"
)

// everything is every fault at once.
func everything(seed uint64) lcore.Injection {
	return lcore.Injection{Drop: 0.1, Duplicate: 0.3, Reorder: 0.3, DelayShare: 0.4, Delay: time.Millisecond, Seed: seed}
}

// A worker that stops sends the packets that it delays.
func TestInjectStopLetsOut(t *testing.T) {
	s := newRig(t, smallFixture())
	for _, d := range ways {
		s.inject(d, lcore.Injection{DelayShare: 0.5, Reorder: 0.5, Delay: lcore.MaxInjectedDelay})
	}
	n := [2]int{len(s.numbered(lcore.RoCEToIB, 0, 301, 64)), len(s.numbered(lcore.IBToRoCE, 0, 301, 64))}
	msgs := []fabricport.Received{fabricport.Received(received()), fabricport.Received(received())}
	want(t, "delivered", s.ibPort.Deliver(0, msgs), 2) // behind the delayed ones
	s.start()
	s.workers[0].Stop()
	if n[0] >= 301 || n[1] >= 301 {
		t.Errorf("nothing was delayed: %v", n)
	}
	want(t, "to IB", n[0]+len(s.toIB(0)), 301)
	want(t, "to RoCE", n[1]+len(s.toRoCE(0)), 303)
}

// Packets that are still delayed when the datapath closes count as received, and as dropped by name.
func TestInjectEnds(t *testing.T) {
	s := newRig(t, smallFixture())
	for _, d := range ways {
		s.inject(d, lcore.Injection{DelayShare: 1, Delay: lcore.MaxInjectedDelay})
		s.numbered(d, 0, 100, 64)
	}
	s.inject(lcore.RoCEToIB, lcore.Injection{Reorder: 1}) // the worker never takes this up
	final := s.datapath.Close()
	for _, d := range ways {
		c := final.Direction[d]
		want(t, "received, "+d.String(), c.Received, 100)
		want(t, "lost, "+d.String(), c.Drops[lcore.DropShutdown], 100)
	}
	if n := s.pool.InUse(); n != 0 {
		t.Errorf("%d mbufs are in use", n)
	}
	s.reopen()
}

// Faults are switched on and off while two workers carry packets both ways and hand them off to each other: no packet
// is lost without a reason.
func TestInjectUnderTraffic(t *testing.T) {
	w := smallFixture().with(twoWorkers)
	w.config.Idle = lcore.IdleSleep
	s := newRig(t, w)
	s.start()
	const rounds, batch = 600, 48
	var steps sync.WaitGroup
	stop := make(chan struct{})
	steps.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				s.workers[1].Step()
			}
		}
	})
	msgs := make([]fabricport.Received, batch)
	for i := range msgs {
		msgs[i] = fabricport.Received(received())
	}
	arrived := uint64(0)
	for round := range rounds {
		for _, d := range ways {
			switch round % 5 {
			case 0:
				s.inject(d, everything(uint64(round)))
			case 3:
				s.inject(d, lcore.Injection{})
			case 4: // twice, before the worker has seen the first
				s.inject(d, lcore.Injection{Drop: 1})
				s.inject(d, everything(uint64(round)))
			}
		}
		for q := range s.workers {
			s.arrive(q, repeat(v4(), batch)...)
			arrived += uint64(s.ibPort.Deliver(q, msgs))
		}
		s.untilBelow(900) // fewer than any ring holds
	}
	s.settle(uint64(rounds * 2 * batch))
	close(stop)
	steps.Wait()
	s.workers[0].Stop()
	c := s.datapath.Counters()
	s.checkConserved(c)
	for _, d := range ways {
		in := map[lcore.Direction]uint64{lcore.RoCEToIB: rounds * 2 * batch, lcore.IBToRoCE: arrived}[d]
		if x := c.Direction[d]; x.Received <= in || x.Sent == 0 || x.Drops[mustDrop(t, "injected")] == 0 {
			t.Errorf("%v: %d came in: %+v", d, in, x)
		}
	}
}

// untilBelow takes packets that come out until fewer mbufs are in use.
func (s *rig) untilBelow(most int) {
	s.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Microsecond) {
		for q := range s.workers {
			s.toIB(q)
			s.toRoCE(q)
		}
		if s.pool.InUse() < most {
			return
		}
		if time.Now().After(end) {
			s.t.Fatalf("%d mbufs are in use: %+v", s.pool.InUse(), s.datapath.Counters())
		}
	}
}

// settle switches faults off, and waits until all packets that went in from Ethernet have come out.
func (s *rig) settle(in uint64) {
	s.t.Helper()
	for _, d := range ways {
		s.inject(d, lcore.Injection{})
	}
	s.untilBelow(1)
	if c := s.counters(lcore.RoCEToIB); c.Received < in {
		s.t.Errorf("%d came in, and %d were received", in, c.Received)
	}
}
