// SPDX-License-Identifier: Apache-2.0

package lcore_test

import (
	"maps"
	"testing"
	"time"

	"causeway/ibside/fabricport"
	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/lcore/frame/roce"
)

// A fullCase is a ring that nobody empties for a time. Frames and messages come to worker 0, which runs, but those of
// beside, which come to worker 1.
type fullCase struct {
	drop      string
	direction lcore.Direction
	holds     int // what the ring holds
	fixture   func(*fixture)
	victim    func(*roce.Packet) // RoCE that needs the ring
	known     func(*roce.Packet) // RoCE that does not
	beside    bool               // what does not need the ring comes to worker 1
}

func fromHost(*roce.Packet) {}

func fromHost6(p *roce.Packet) { p.SrcIP, p.DstIP, p.FlowLabel = hostIP6, nodeIP6, 0x12345 }

// besideWorker1 has the second host's proxy QP at worker 1, where its frames come, too.
func besideWorker1(w *fixture) {
	w.workers = 2
	w.proxyQPs[1].Worker = 1
}

var fullCases = []fullCase{
	{"punt_full", lcore.RoCEToIB, puntedMost, besideWorker1, fromNewcomer(newcomerIP), fromHost, false},
	{"peer_full", lcore.RoCEToIB, handed - 1, twoWorkers, fromHost, fromHost6, false},
	{"ib_full", lcore.RoCEToIB, rigRing, besideWorker1, fromHost, fromHost6, true},
	{"eth_full", lcore.IBToRoCE, rigRing, besideWorker1, nil, fromHost, false},
}

// Numbers of packets: those that need the ring count from firstVictim.
const (
	firstKnown  = 0x1000
	firstVictim = 0x1000000
)

// jammed is a rig one of whose rings is full, and what has come out of it, by number.
type jammed struct {
	*rig
	fullCase
	jam    bool // nobody empties the ring
	toIBs  []int
	toEths []int
	punts  int
	sent   [3]int // known RoCE, known messages, victims
}

// take empties all rings but the one.
func (j *jammed) take() {
	for q := range j.workers {
		if !(j.jam && j.drop == "ib_full" && q == 0) {
			for _, m := range j.toIB(q) {
				j.toIBs = append(j.toIBs, int(m.QKey))
			}
		}
		if j.jam && j.drop == "eth_full" && q == 0 {
			continue
		}
		for _, b := range j.toRoCE(q) {
			p, err := roce.Parse(b)
			if err != nil {
				j.t.Fatal(err)
			}
			j.toEths = append(j.toEths, int(p.Imm))
		}
	}
	if !(j.jam && j.drop == "punt_full") {
		for _, o := range j.workers[0].TakePunted() {
			j.punts++
			o.Pending.Drop(lcore.DropProxyQPFull)
		}
	}
	if !(j.jam && j.drop == "peer_full") {
		j.workers[1].Step()
	}
}

// numberedFrames returns frames with numbers from first on, as their Q_Keys.
func numberedFrames(change func(*roce.Packet), first, n int) [][]byte {
	all := make([][]byte, n)
	for i := range all {
		all[i] = v4(change, func(p *roce.Packet) { p.QKey = ib.QKey(first + i) })
	}
	return all
}

// deliver has messages come to a worker, with numbers from first on as their immediate data.
func (j *jammed) deliver(worker, first, n int) {
	j.t.Helper()
	all := make([]fabricport.Received, n)
	for i := range all {
		all[i] = fabricport.Received(received(func(m *message) { m.HasImm, m.Imm = true, uint32(first+i) }))
	}
	if took := j.ibPort.Deliver(worker, all); took != n {
		j.t.Fatalf("the port took %d of %d messages", took, n)
	}
}

// round has a batch of each kind come, and waits until all that does not need the ring has come out, and the rest is
// counted.
func (j *jammed) round(n int) {
	j.t.Helper()
	beside := 0
	if j.beside {
		beside = 1
	}
	j.arrive(beside, numberedFrames(j.known, firstKnown+j.sent[0], n)...)
	j.sent[0] += n
	if messages := 1; j.direction == lcore.IBToRoCE {
		j.deliver(messages, firstKnown+j.sent[1], n)
		j.deliver(0, firstVictim+j.sent[2], n)
	} else {
		j.deliver(beside, firstKnown+j.sent[1], n)
		j.arrive(0, numberedFrames(j.victim, firstVictim+j.sent[2], n)...)
	}
	j.sent[1] += n
	j.sent[2] += n
	j.await("a round", func() bool {
		into := j.sent[0]
		if j.direction == lcore.RoCEToIB {
			into += j.sent[2]
		}
		return len(below(j.toIBs)) == j.sent[0] && len(below(j.toEths)) == j.sent[1] && j.counters(lcore.RoCEToIB).Received == uint64(into) &&
			j.settled() == j.sent[2]
	})
}

// settled is how many victims have come out, lie on the ring, or are dropped.
func (j *jammed) settled() int {
	out := len(j.toIBs) + len(j.toEths) - len(below(j.toIBs)) - len(below(j.toEths)) + j.punts + j.lost()
	if j.jam {
		return out + min(j.holds, j.sent[2])
	}
	return out
}

// lost is how many were dropped because the ring was full.
func (j *jammed) lost() int {
	return int(j.counters(j.direction).Drops[mustDrop(j.t.(*testing.T), j.drop)])
}

// below returns the numbers that are not of victims, above those that are.
func below(all []int) (known []int) {
	for _, n := range all {
		if n < firstVictim {
			known = append(known, n)
		}
	}
	return known
}

func above(all []int) (victims []int) {
	for _, n := range all {
		if n >= firstVictim {
			victims = append(victims, n)
		}
	}
	return victims
}

func (j *jammed) await(what string, done func() bool) {
	j.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Microsecond) {
		if j.take(); done() {
			return
		}
		if time.Now().After(end) {
			j.t.Fatalf("%s: sent %d; %d to IB, %d to RoCE, %d punted: %+v", what, j.sent, len(j.toIBs), len(j.toEths), j.punts, j.datapath.Counters())
		}
	}
}

// TestRingFullUnderTraffic checks that while a ring is full, what needs it is dropped by name, and nothing else; that
// what it holds comes out, in order, when it is emptied; and that traffic goes on by itself then.
func TestRingFullUnderTraffic(t *testing.T) {
	for _, c := range fullCases {
		t.Run(c.drop, func(t *testing.T) {
			w := smallFixture().with(c.fixture)
			w.config.Idle = lcore.IdleSleep
			j := &jammed{rig: newRig(t, w), fullCase: c, jam: true}
			j.start()
			const batch, beyond, after = 64, 6, 4
			for range j.holds/batch + beyond {
				j.round(batch)
			}
			lost := j.lost()
			want(t, "dropped for the full ring", lost, j.sent[2]-j.holds)
			j.jam = false
			j.await("what the ring held", func() bool { return j.settled() == j.sent[2] })
			for range after {
				j.round(batch)
			}
			j.workers[0].Stop()
			j.check(lost)
		})
	}
}

// check checks the order of what has come out, and all counters.
func (j *jammed) check(lost int) {
	j.t.Helper()
	if more := j.lost() - lost; more > 0 {
		j.t.Errorf("%d are dropped when the ring is empty again", more)
	}
	for _, out := range [][]int{below(j.toIBs), below(j.toEths), above(j.toIBs), above(j.toEths)} {
		for i := 1; i < len(out); i++ {
			if out[i] <= out[i-1] {
				j.t.Fatalf("%d came after %d", out[i], out[i-1])
			}
		}
	}
	c := j.datapath.Counters()
	j.checkConserved(c)
	drops := map[lcore.Drop]uint64{mustDrop(j.t.(*testing.T), j.drop): uint64(lost)}
	if j.drop == "punt_full" {
		drops[lcore.DropProxyQPFull] = uint64(j.punts)
	}
	if got := c.Direction[j.direction].Drops; !maps.Equal(got, drops) {
		j.t.Errorf("dropped %v, want %v", got, drops)
	}
	if got := c.Direction[1-j.direction].Drops; len(got) > 0 {
		j.t.Errorf("the other direction dropped %v", got)
	}
}
