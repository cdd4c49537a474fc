// SPDX-License-Identifier: Apache-2.0

package lcore_test

import (
	"testing"
	"time"

	"causeway/ibside/fabricport"
	"causeway/lcore"
	"causeway/lcore/frame"
	"causeway/tables"
)

// start runs worker 0 on its lcore.
func (s *rig) start() {
	s.t.Helper()
	if len(workerLcores) == 0 {
		s.t.Skip("this machine gives the tests one CPU only; a running worker needs one of its own")
	}
	if err := s.workers[0].Start(workerLcores[0]); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(s.workers[0].Stop) // before the rig closes
}

// A running worker carries everything both ways, while management takes pending frames, requeues them, and changes the
// tables.
func TestRunningWorker(t *testing.T) {
	w := smallFixture()
	w.config.Idle = lcore.IdleSleep
	s := newRig(t, w)
	s.start()
	const rounds, batch = 300, 64
	msgs := make([]fabricport.Received, batch)
	for i := range msgs {
		msgs[i] = fabricport.Received(received())
	}
	toIB, toRoCE, pending := 0, 0, uint64(0)
	for round := range rounds {
		if n := s.ibPort.Deliver(0, msgs); n != batch {
			t.Fatalf("round %d: the port took %d of %d messages", round, n, batch)
		}
		moved := tables.Host{IP: hostIP, MAC: frame.MAC{2, 0, 0, 0, 1, byte(round)}, Version: lcore.V2}
		if _, err := s.tables.Hosts.Put(moved); err != nil {
			t.Fatal(err)
		}
		frames := repeat(v4(fromMAC(moved.MAC)), batch)
		frames[7], frames[11], frames[13] = v4(to(noGroup)), newcomer(), patch(v4(), 73, 0)
		s.arrive(0, frames...)
		end := time.Now().Add(time.Minute)
		for toIB < (round+1)*(batch-3) || toRoCE < (round+1)*batch || pending < uint64(round+1) {
			if time.Now().After(end) {
				t.Fatalf("round %d: %d messages, %d frames, %d pending: %+v", round, toIB, toRoCE, pending, s.datapath.Counters())
			}
			toIB += len(s.toIB(0))
			toRoCE += len(s.toRoCE(0))
			for _, o := range s.workers[0].TakePunted() {
				if pending++; pending%2 == 0 {
					o.Pending.Requeue() // and is dropped: no proxy QP was made
				} else {
					o.Pending.Drop(lcore.DropProxyQPFull)
				}
			}
			time.Sleep(20 * time.Microsecond)
		}
	}
	s.workers[0].Stop()
	c := s.datapath.Counters()
	want(t, "received from RoCE", c.Direction[lcore.RoCEToIB].Received, rounds*batch)
	want(t, "sent to IB", c.Direction[lcore.RoCEToIB].Sent, rounds*(batch-3))
	want(t, "sent to RoCE", c.Direction[lcore.IBToRoCE].Sent, rounds*batch)
	for _, name := range []string{"icrc", "mc_unknown"} {
		for d := range named(t, name) {
			want(t, name, c.Direction[lcore.RoCEToIB].Drops[d], rounds)
		}
	}
	s.checkConserved(c)
}

// A worker that is stopped still handles what it has: requeued frames, and messages that have come. They are many and
// long, so that the stop comes while it handles them.
func TestStopDrains(t *testing.T) {
	w := smallFixture()
	s := newRig(t, w)
	s.fromRoCE(repeat(v4(fromNewcomer(newcomerIP), payload(4096)), 1000)...)
	pending := s.takePunted()
	w.addHost(newcomerIP, lcore.V2)
	if err := w.populate(s.tables); err != nil {
		t.Fatal(err)
	}
	for _, o := range pending {
		o.Pending.Requeue()
	}
	msgs := make([]fabricport.Received, 1000)
	for i := range msgs {
		msgs[i] = fabricport.Received(received(func(m *message) { m.Payload = pattern(4096) }))
	}
	if n := s.ibPort.Deliver(0, msgs); n != len(msgs) {
		t.Fatalf("the port took %d messages", n)
	}
	s.start()
	s.workers[0].Stop()
	want(t, "sent to IB", len(s.toIB(0)), len(pending))
	want(t, "sent to RoCE", len(s.toRoCE(0)), len(msgs))
}
