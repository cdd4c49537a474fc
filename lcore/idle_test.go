// SPDX-License-Identifier: Apache-2.0

package lcore_test

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"causeway/dpdk"
	"causeway/ibside/fabricport"
	"causeway/lcore"
)

// sleeper is a rig whose worker sleeps until something wakes it. The test is the Ethernet port's driver, too.
type sleeper struct {
	*rig
	driver int // an eventfd
	slept  uint64
}

func newSleeper(t testing.TB, w *fixture) *sleeper {
	t.Helper()
	w.config.Idle = lcore.IdleInterrupt
	return startSleeper(t, w)
}

func startSleeper(t testing.TB, w *fixture) *sleeper {
	t.Helper()
	s := &sleeper{rig: newRig(t, w)}
	var err error
	if s.driver, err = unix.Eventfd(0, unix.EFD_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(s.driver) })
	if w.config.Idle == lcore.IdleInterrupt {
		if err := s.workers[0].SetRxWake(0, dpdk.RxWake{FDs: []int{s.driver}}); err != nil {
			t.Fatal(err)
		}
	}
	s.start()
	return s
}

// arriveNow puts frames into the port's queue, and has its driver tell.
func (s *sleeper) arriveNow(frames ...[]byte) {
	s.t.Helper()
	s.arrive(0, frames...)
	if _, err := unix.Write(s.driver, binary.NativeEndian.AppendUint64(nil, 1)); err != nil {
		s.t.Fatal(err)
	}
}

// until waits for something that does not take long.
func (s *sleeper) until(what string, done func() bool) {
	s.t.Helper()
	for end := time.Now().Add(time.Minute); !done(); time.Sleep(20 * time.Microsecond) {
		if time.Now().After(end) {
			s.t.Fatalf("not within a minute: %s: %+v", what, s.datapath.Counters())
		}
	}
}

// asleep waits until the worker sleeps again, or is about to.
func (s *sleeper) asleep() {
	s.t.Helper()
	s.until("asleep", func() bool { return s.workers[0].Counters().Sleeps > s.slept })
	s.slept = s.workers[0].Counters().Sleeps
}

// sleptWell checks that whatever came has woken the worker.
func (s *sleeper) sleptWell() {
	s.t.Helper()
	s.workers[0].Stop()
	if c := s.workers[0].Counters(); c.Sleeps == 0 || c.Overslept != 0 {
		s.t.Errorf("it slept %d times, and was not woken by what came %d times", c.Sleeps, c.Overslept)
	}
}

// A worker that sleeps is woken by all that it serves: both ports, the rings of management and of other workers, and by
// Stop.
func TestWoken(t *testing.T) {
	w := smallFixture()
	w.workers = 2
	s := newSleeper(t, w)
	toIB, toRoCE := 0, 0
	come := func(what string, messages, frames int) {
		t.Helper()
		s.until(what, func() bool {
			toIB, toRoCE = toIB+len(s.toIB(0)), toRoCE+len(s.toRoCE(0))
			return toIB == messages && toRoCE == frames
		})
	}
	for round := range 20 {
		s.asleep()
		s.arriveNow(v4())
		come("a frame", 2*round+1, 2*round)
		s.asleep()
		if n := s.ibPort.Deliver(0, []fabricport.Received{fabricport.Received(received())}); n != 1 {
			t.Fatal("the port did not take a message")
		}
		come("a message", 2*round+1, 2*round+1)
		s.asleep()
		if err := s.workers[0].Send(s.pool.Pointer(), 0, make([]byte, 60)); err != nil {
			t.Fatal(err)
		}
		come("a frame of management", 2*round+1, 2*round+2)
		s.asleep()
		s.arrive(1, v4()) // whose proxy QP is worker 0's
		s.workers[1].Step()
		come("a packet of another worker", 2*round+2, 2*round+2)
	}
	s.asleep()
	s.sleptWell()
}

// Packets come when the worker is about to sleep, or has just begun to: it is never left with one. Each burst is all
// that comes until it has come out.
func TestOnAndOff(t *testing.T) {
	s := newSleeper(t, smallFixture())
	const rounds, most = 2000, 40
	random := rand.New(rand.NewPCG(1, 2))
	msgs := make([]fabricport.Received, most)
	for i := range msgs {
		msgs[i] = fabricport.Received(received())
	}
	toIB, toRoCE, pending, wantIB, wantRoCE, wantPending := 0, 0, 0, 0, 0, 0
	for round := range rounds {
		if round%8 == 0 {
			s.asleep()
		}
		for end := time.Now().Add(time.Duration(random.IntN(120)) * time.Microsecond); time.Now().Before(end); {
		}
		n := 1 + random.IntN(most)
		switch round % 3 {
		case 0:
			s.arriveNow(repeat(v4(), n)...)
			wantIB += n
		case 1:
			if got := s.ibPort.Deliver(0, msgs[:n]); got != n {
				t.Fatalf("the port took %d of %d messages", got, n)
			}
			wantRoCE += n
		case 2:
			s.arriveNow(newcomer())
			wantPending++
		}
		s.until("out again", func() bool {
			toIB, toRoCE = toIB+len(s.toIB(0)), toRoCE+len(s.toRoCE(0))
			for _, o := range s.workers[0].TakePunted() {
				pending++
				o.Pending.Drop(lcore.DropProxyQPFull)
			}
			return toIB == wantIB && toRoCE == wantRoCE && pending == wantPending
		})
	}
	s.sleptWell()
	s.checkConserved(s.datapath.Counters())
}

// Messages come when the worker is about to fall asleep, some of them between its last poll and the moment from which
// on it is woken.
func TestFallingAsleep(t *testing.T) {
	s := newSleeper(t, smallFixture())
	const rounds, longest = 10_000, 100_000 // ns, of which it polls for a part
	random, msg := rand.New(rand.NewPCG(3, 4)), []fabricport.Received{fabricport.Received(received())}
	for round := range rounds {
		for end := time.Now().Add(time.Duration(random.IntN(longest))); time.Now().Before(end); {
		}
		if s.ibPort.Deliver(0, msg) != 1 {
			t.Fatal("the port did not take a message")
		}
		for end := time.Now().Add(time.Minute); len(s.toRoCE(0)) == 0; {
			if time.Now().After(end) {
				t.Fatalf("round %d: it did not come out within a minute", round)
			}
		}
	}
	s.sleptWell()
}

// What lies in the port while its driver does not tell is found all the same, and counted. A worker that looks just then has not
// overslept.
func TestOverslept(t *testing.T) {
	s := newSleeper(t, smallFixture())
	sent, came := 0, 0
	s.until("found", func() bool {
		came += len(s.toIB(0))
		if came == sent {
			if s.workers[0].Counters().Overslept > 0 {
				return true
			}
			s.asleep()
			s.arrive(0, v4())
			sent++
		}
		return false
	})
	want(t, "messages", came, sent)
}

// A worker tells management of what it punts when management has asked for that, once.
func TestPuntedTells(t *testing.T) {
	s := newRig(t, smallFixture())
	s.ignorePunts = true
	told := func() bool {
		select {
		case <-s.datapath.Punted():
			return true
		case <-time.After(20 * time.Millisecond):
			return false
		}
	}
	s.fromRoCE(newcomer())
	want(t, "told, unasked", told(), false)
	for range 2 {
		s.datapath.AwaitPunted()
		s.fromRoCE(newcomer(), newcomer())
		want(t, "told", told(), true)
		s.fromRoCE(newcomer())
		want(t, "told again", told(), false)
	}
	s.punted = s.workers[0].TakePunted()
}

// BenchmarkFirstPacket measures how long a packet takes that comes after a pause of a millisecond: from the port's ring
// to the InfiniBand port's.
func BenchmarkFirstPacket(b *testing.B) {
	for _, c := range []struct {
		name string
		idle lcore.Idle
	}{{"poll", lcore.IdlePoll}, {"sleep", lcore.IdleSleep}, {"interrupt", lcore.IdleInterrupt}} {
		b.Run(c.name, func(b *testing.B) {
			w := smallFixture()
			w.config.Idle = c.idle
			s := startSleeper(b, w)
			var took []time.Duration
			for b.Loop() {
				time.Sleep(time.Millisecond)
				began := time.Now()
				s.arriveNow(v4())
				for len(s.toIB(0)) == 0 {
				}
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			for name, quantile := range map[string]int{"us_min": 0, "us_median": 50, "us_99%": 99} {
				b.ReportMetric(float64(took[len(took)*quantile/100].Nanoseconds())/1000, name)
			}
		})
	}
}
