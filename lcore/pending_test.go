// SPDX-License-Identifier: Apache-2.0

package lcore_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/lcore/frame/roce"
	"causeway/tables"
)

// newSenders are so many queue pairs of a host; management makes their proxy QPs at its pace, and the worker that gets them
// may be another than the one that receives.
type newSenders struct {
	*rig
	r      *rand.Rand
	made   []bool
	sent   []uint32            // so many of each
	left   [][]uint32          // the bridge, in order
	slow   []lcore.PuntedFrame // packets that management has not yet looked at
	waits  []lcore.PuntedFrame // whose proxy QP there is, and that it has not yet given back
	wanted int                 // messages that may not be lost
}

const senderQPN = ib.QPN(0x2000) // and the following ones

// arrives has some messages of some senders arrive; those of one always come to the same worker.
func (n *newSenders) arrives() {
	for range n.r.IntN(12) {
		i := n.r.IntN(len(n.made))
		number := binary.BigEndian.AppendUint32(nil, n.sent[i])
		n.sent[i]++
		n.wanted++
		n.arrive(i%2, v4(fromNewcomer(newcomerIP), func(p *roce.Packet) { p.SrcQP, p.Payload = senderQPN+ib.QPN(i), number }))
	}
}

func (n *newSenders) senderOf(f *lcore.PuntedFrame) int {
	p, err := roce.Parse(f.Data)
	if err != nil {
		n.t.Fatal(err)
	}
	return int(p.SrcQP - senderQPN)
}

// manages has management take what is punted, make some proxy QPs, and give back some of what waited, or reject it.
func (n *newSenders) manages(all bool) {
	for _, w := range n.workers {
		n.slow = append(n.slow, w.TakePunted()...)
	}
	for i := range n.made {
		if !n.made[i] && n.sent[i] > 0 && (all || n.r.IntN(4) == 0) {
			n.make(i)
		}
	}
	n.slow = n.some(n.slow, all, func(f lcore.PuntedFrame) bool {
		if n.made[n.senderOf(&f)] {
			n.waits = append(n.waits, f)
			return true
		}
		return false
	})
	n.waits = n.some(n.waits, all, func(f lcore.PuntedFrame) bool {
		if n.r.IntN(8) == 0 {
			f.Pending.Drop(lcore.DropSourceRefused)
			n.wanted--
		} else {
			f.Pending.Requeue()
		}
		return true
	})
}

// some has a function take some of the first, or all, and returns those that it has not taken.
func (n *newSenders) some(frames []lcore.PuntedFrame, all bool, take func(lcore.PuntedFrame) bool) (rest []lcore.PuntedFrame) {
	most := n.r.IntN(len(frames) + 1)
	for i, f := range frames {
		if !(all || i < most) || !take(f) {
			rest = append(rest, f)
		}
	}
	return rest
}

// make has workers know the proxy QP of a sender.
func (n *newSenders) make(i int) {
	_, err := n.tables.In(0).ProxyQPs.Put(tables.ProxyQP{
		HostQP: tables.HostQP{Host: newcomerIP, HostQPN: senderQPN + ib.QPN(i)}, QP: proxyQP + 100 + uint32(i), QPN: proxyQPN + 100 + ib.QPN(i),
		QKey: hostQKey, Worker: n.r.IntN(2), Version: lcore.V2,
	})
	if err != nil {
		n.t.Fatal(err)
	}
	n.made[i] = true
}

// leaves collects what has left the bridge.
func (n *newSenders) leaves() {
	for w := range n.workers {
		for _, m := range n.toIB(w) {
			i := m.QP - proxyQP - 100
			n.left[i] = append(n.left[i], binary.BigEndian.Uint32(m.Payload))
		}
	}
}

// TestFirstMessagesStayInOrder has queue pairs begin to send while management makes their proxy QPs: what comes when a proxy
// QP is there already may not overtake what has waited for it.
func TestFirstMessagesStayInOrder(t *testing.T) {
	for seed := range uint64(50) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			w := smallFixture().with(twoWorkers)
			w.hosts = append(w.hosts, tables.Host{IP: newcomerIP, MAC: hostMAC, Version: lcore.V2})
			n := &newSenders{rig: newRig(t, w), r: rand.New(rand.NewPCG(seed, 0))}
			const senders = 8
			n.made, n.sent, n.left = make([]bool, senders), make([]uint32, senders), make([][]uint32, senders)
			for range 60 {
				n.arrives()
				n.manages(false)
				n.workers[n.r.IntN(2)].Step()
				n.leaves()
			}
			for range 20 {
				n.manages(true)
				n.workers[0].Step()
				n.workers[1].Step()
				n.leaves()
			}
			total := 0
			for i, numbers := range n.left {
				total += len(numbers)
				for k := 1; k < len(numbers); k++ {
					if numbers[k] <= numbers[k-1] {
						t.Fatalf("sender %d: message %d left behind message %d", i, numbers[k], numbers[k-1])
					}
				}
			}
			want(t, "messages that crossed", total, n.wanted)
		})
	}
}

// waitsBehind returns a rig whose management has the first message of the host's second queue pair, for which there is a
// proxy QP by now, and the message.
func waitsBehind(t *testing.T) (*rig, *lcore.PendingPacket) {
	s := newRig(t, smallFixture())
	s.fromRoCE(ofSecondQP(0))
	first := s.takePunted()
	_, err := s.tables.In(0).ProxyQPs.Put(tables.ProxyQP{
		HostQP: tables.HostQP{Host: hostIP, HostQPN: senderQPN}, QP: proxyQP + 100, QPN: proxyQPN + 100, QKey: hostQKey, Version: lcore.V2,
	})
	if err != nil || len(first) != 1 || first[0].Pending == nil {
		t.Fatalf("waits: %v, %+v", err, first)
	}
	return s, first[0].Pending
}

func ofSecondQP(number int) []byte {
	return v4(func(p *roce.Packet) {
		p.SrcQP, p.Payload = senderQPN, binary.BigEndian.AppendUint32(nil, uint32(number))
	})
}

// wantNumbered takes what has left, which are the messages with numbers from first on.
func (s *rig) wantNumbered(t *testing.T, first, n int) {
	t.Helper()
	got := s.toIB(0)
	want(t, "messages", len(got), n)
	for i, m := range got {
		want(t, "number", int(binary.BigEndian.Uint32(m.Payload)), first+i)
	}
}

// Only so many packets wait behind others; further ones are dropped by name. Other senders' do not wait.
func TestBehindIsBounded(t *testing.T) {
	const most, more = 1024, 60
	s, first := waitsBehind(t)
	for i := range most + more {
		s.fromRoCE(ofSecondQP(1 + i))
	}
	s.wantNumbered(t, 0, 0)
	s.fromRoCE(v4())
	want(t, "messages of another queue pair", len(s.toIB(0)), 1)
	want(t, "dropped", s.counters(lcore.RoCEToIB).Drops[lcore.DropPuntFull], more)
	first.Requeue()
	s.fromRoCE(ofSecondQP(1 + most)) // comes before all of them are sent
	s.wantNumbered(t, 0, 1+most+1)
}

// What waits behind a message that is rejected goes on without it.
func TestBehindRejected(t *testing.T) {
	s, first := waitsBehind(t)
	s.fromRoCE(ofSecondQP(1), ofSecondQP(2))
	s.wantNumbered(t, 0, 0)
	first.Drop(lcore.DropSourceRefused)
	s.work()
	s.wantNumbered(t, 1, 2)
}

// A proxy QP that is gone again is wanted anew, in the order in which messages came.
func TestBehindWithoutProxyQP(t *testing.T) {
	s, first := waitsBehind(t)
	s.fromRoCE(ofSecondQP(1))
	if err := s.tables.In(0).ProxyQPs.Delete(tables.HostQP{Host: hostIP, HostQPN: senderQPN}); err != nil {
		t.Fatal(err)
	}
	s.fromRoCE(ofSecondQP(2))
	want(t, "punted meanwhile", len(s.takePunted()), 0)
	first.Drop(lcore.DropShutdown)
	s.work()
	anew := s.takePunted()
	want(t, "punted", len(anew), 2)
	for i := range anew {
		want(t, "punted", string(anew[i].Data), string(ofSecondQP(1+i)))
		anew[i].Pending.Drop(lcore.DropShutdown)
	}
}

// What waits when the bridge stops is counted as dropped by it; the rig's end checks that.
func TestBehindAtTheEnd(t *testing.T) {
	s, first := waitsBehind(t)
	s.fromRoCE(ofSecondQP(1), ofSecondQP(2))
	first.Requeue()
}

// A host's packets do not wait behind those that another station sends in its name, which management looks into.
func TestStrangersHoldUpNobody(t *testing.T) {
	s := newRig(t, smallFixture())
	s.fromRoCE(v4(fromMAC(otherMAC)))
	first := s.takePunted()
	want(t, "waits", len(first), 1)
	s.fromRoCE(v4(), v4())
	want(t, "messages", len(s.toIB(0)), 2)
	first[0].Pending.Drop(lcore.DropSourceRefused)
}
