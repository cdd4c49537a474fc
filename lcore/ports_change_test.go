// SPDX-License-Identifier: Apache-2.0

package lcore_test

import (
	"slices"
	"testing"
	"time"

	"causeway/dpdk"
	"causeway/ibside/fabricport"
	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/lcore/frame"
	"causeway/lcore/frame/roce"
)

// growing is twoPorts, but the second is not there yet.
func growing() *fixture {
	w := twoPorts()
	w.config.MoreMACs, w.config.More = nil, nil
	return w
}

// openPort makes another ring port.
func (s *rig) openPort() *dpdk.RingPort {
	s.t.Helper()
	n := len(s.workers)
	p, err := dpdk.OpenRingPort(dpdk.PortConfig{Pool: s.pool, RxQueues: n, TxQueues: n, RxDescs: rigRing, TxDescs: rigRing})
	if err != nil {
		s.t.Fatal(err)
	}
	if err := p.Port.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.more = append(s.more, p)
	return p
}

// addPort adds another port, with the second segment, under the next index.
func (s *rig) addPort(number uint8) uint8 {
	s.t.Helper()
	p := s.openPort()
	index, err := s.datapath.FreePort()
	if err == nil {
		err = s.datapath.AddPort(s.t.Context(), index, secondMAC, p.Port.ID())
	}
	if err != nil {
		s.t.Fatal(err)
	}
	segment := s.fixture.second.config.Segment
	segment.Port = index
	s.datapath.AddSegment(number, &segment)
	return index
}

// marked is frames whose mbufs say that they came by some port, as drivers do.
func (s *rig) marked(port uint16, frames ...[]byte) (all []dpdk.Mbuf) {
	for _, f := range frames {
		m, err := s.pool.Alloc(f)
		if err != nil {
			s.t.Fatal(err)
		}
		setPort(m, port)
		all = append(all, m)
	}
	return all
}

// TestPortComes has packets of an only port wait, on both rings, when a second comes: they are still the first's, whatever its
// driver has written into them.
func TestPortComes(t *testing.T) {
	w := growing()
	w.workers = 2
	for i := range w.proxyQPs {
		w.proxyQPs[i].Worker = 1
	}
	s := newRig(t, w)
	const strange = 5
	s.arriveMbufs(0, 0, s.marked(strange, v4(), v4(), v4(fromNewcomer(newcomerIP)), v4(from("10.99.0.1"))))
	s.workers[0].Step() // two lie on the other's ring, one waits for its proxy QP
	s.addPort(1)
	got := s.workers[0].TakePunted()
	if len(got) != 1 || got[0].Port != 0 || got[0].Pending == nil || got[0].Pending.Port() != 0 {
		t.Fatalf("punted %+v", got)
	}
	got[0].Pending.Drop(lcore.DropACL)
	s.work()
	s.arriveBy(1, 0, v4(toSecond))
	s.work()
	want(t, "sent by the owner", len(s.toIB(1)), 2)
	want(t, "of the second port", len(s.toIB(0)), 1)
	c := s.datapath.PortCounters()
	in := c[0][lcore.RoCEToIB]
	if len(c) != 2 || in.Received != 4 || in.Sent != 2 || in.Drops[lcore.DropACL] != 2 || c[1][lcore.RoCEToIB].Received != 1 {
		t.Errorf("counted %+v", c)
	}
}

// TestPortGoes removes a port to which a table still leads, and to which management still sends: what is for it is dropped by
// name, and the other port's messages in the same burst are not. Its index is another port's later, which begins with zero.
func TestPortGoes(t *testing.T) {
	w := growing()
	s := newRig(t, w)
	for round := range uint64(10) {
		index := s.addPort(1)
		s.fromRoCE(v4())
		s.arriveMbufs(len(s.more), 0, s.marked(0, v4(toSecond), v4(toSecond)))
		s.work()
		want(t, "towards InfiniBand", len(s.toIB(0)), 3)
		s.datapath.RemoveSegment(1)
		arp := frame.AppendARP(nil, frame.Link{MAC: secondMAC}, frame.Broadcast, frame.ARPFields{Op: frame.ARPRequest, SHA: secondMAC, SPA: hostIP, TPA: nodeIP})
		for _, port := range []uint8{index, 0} {
			if err := s.workers[0].Send(s.pool.Pointer(), port, arp); err != nil {
				t.Fatal(err)
			}
		}
		if !s.datapath.Sends() {
			t.Error("nothing is to be sent")
		}
		s.datapath.RemovePort(index)
		s.fromIB(received(), received(func(m *message) { m.QPN += inSecond }), received())
		want(t, "frames and a report by the first", len(s.sentBy(0, 0)), 3)
		want(t, "by the one that is gone", len(s.sentBy(len(s.more), 0)), 0)
		if c := s.workers[0].Counters().Punt; c.Sent != round+1 || c.Rejected != round+1 {
			t.Errorf("management's frames: %+v", c)
		}
		c := s.datapath.PortCounters()
		in, out := c[index][lcore.RoCEToIB], c[index][lcore.IBToRoCE]
		if in.Received != 2 || in.Sent != 2 || out.Received != 1 || out.Sent != 0 || out.Drops[dropNamed(t, "eth_full")] != 1 || c[0][lcore.IBToRoCE].Sent != 2*(round+1) {
			t.Fatalf("round %d, port %d counted %+v, the first %+v", round, index, c[index], c[0])
		}
	}
}

// TestPortsFull has as many ports as there can be, and one that is under way.
func TestPortsFull(t *testing.T) {
	s := newRig(t, growing())
	for range lcore.MaxPorts - 1 {
		s.addPort(1)
		s.datapath.RemoveSegment(1)
	}
	if _, err := s.datapath.FreePort(); err == nil {
		t.Error("there is one more")
	}
	s.fromRoCE(v4()) // a first message, which moves
	s.ignorePunts = true
	s.fromRoCE(v4(fromNewcomer(newcomerIP)))
	s.datapath.RemovePort(3)
	if _, err := s.datapath.FreePort(); err == nil {
		t.Error("an index is free, of which packets may be under way")
	}
	s.ignorePunts = false
	s.work()
	for _, p := range s.takePunted() {
		p.Pending.Drop(lcore.DropACL)
	}
	if index, err := s.datapath.FreePort(); err != nil || index != 3 {
		t.Errorf("the index that is free is %d, %v", index, err)
	}
}

// TestPortComesUnderTraffic has a running worker carry numbered messages by the first port, both ways, while a second comes and
// goes many times: none is lost, and all are in order.
func TestPortComesUnderTraffic(t *testing.T) {
	s := newRig(t, growing())
	s.start()
	stop, ended := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		defer func() { ended <- n }()
		for s.bothWays(n) {
			n++
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	for range 200 {
		index := s.addPort(1)
		s.datapath.RemoveSegment(1)
		s.datapath.RemovePort(index)
		last := len(s.more) - 1
		if err := s.more[last].Port.Close(); err != nil {
			t.Fatal(err)
		}
		s.more = s.more[:last]
	}
	close(stop)
	n := uint64(<-ended)
	s.workers[0].Stop()
	c := s.datapath.PortCounters()[0]
	if n < 10 || c[lcore.RoCEToIB].Received != n*together || c[lcore.RoCEToIB].Sent != n*together || c[lcore.IBToRoCE].Sent != n*together {
		t.Errorf("%d times %d messages each way, counted %+v", n, together, c)
	}
}

// together is how many messages are under way each way.
const together = 8

// bothWays sends messages each way, with numbers, and takes them. It reports whether all came, in order.
func (s *rig) bothWays(round int) bool {
	first := round * together % 256
	var msgs []fabricport.Received
	var numbers []int
	var frames [][]byte
	for k := first; k < first+together; k++ {
		numbers = append(numbers, k)
		frames = append(frames, v4(func(p *roce.Packet) { p.QKey, p.Payload = ib.QKey(k), pattern(k%300) }))
		msgs = append(msgs, fabricport.Received(received(func(m *message) { m.Payload = pattern(k) })))
	}
	burst := s.marked(uint16(round), frames...)
	if s.port.ToPort(0).Enqueue(burst)+s.ibPort.Deliver(0, msgs) != 2*together {
		s.t.Error("the ports do not take what comes")
		return false
	}
	for _, d := range ways {
		var got []int
		for end := time.Now().Add(time.Minute); len(got) < together && time.Now().Before(end); time.Sleep(10 * time.Microsecond) {
			got = append(got, s.numbers(d)...)
		}
		if !slices.Equal(got, numbers) {
			s.t.Errorf("round %d, %v: %v came, of %v", round, d, got, numbers)
			return false
		}
	}
	return true
}
