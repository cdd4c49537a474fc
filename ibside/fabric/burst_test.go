// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"causeway/ibside/ib"
)

// burstOf returns packets of the port with LID 2: those of switchCases, and runs for each port and group, some of which
// are cut by others. They are numbered, so that their order shows.
func burstOf(random *rand.Rand) [][]byte {
	var packets [][]byte
	for _, c := range switchCases() {
		packets = append(packets, c.packet)
	}
	dlid := ib.LID(3)
	for i := range 80 {
		numbered := func(p *ib.Packet) { p.SLID, p.PSN = 2, uint32(i) }
		if random.IntN(3) == 0 { // else one more for the same
			dlid = []ib.LID{2, 3, 4, 99, 0xc001, 0xc002, 0xc003, 0xc009}[random.IntN(8)]
		}
		if dlid.IsMulticast() {
			packets = append(packets, multicast(func(p *ib.Packet) { numbered(p); p.DLID = dlid }))
		} else {
			packets = append(packets, good(func(p *ib.Packet) { numbered(p); p.DLID = dlid }))
		}
	}
	for range random.IntN(40) {
		i, k := random.IntN(len(packets)), random.IntN(len(packets))
		packets[i], packets[k] = packets[k], packets[i]
	}
	return packets
}

// taken returns what waits for a port, in order.
func taken(p Port) [][]byte {
	packets := make([][]byte, p.(*switchPort).queue.stats().Waiting)
	if len(packets) > 0 {
		p.Recv(packets)
	}
	drain(p) // nothing: it marks them as done
	return packets
}

// TestSwitchBursts sends the same packets at once and one by one. Every port gets the same ones in the same order, and
// the counters are the same, also where queues overflow.
func TestSwitchBursts(t *testing.T) {
	for seed := range uint64(200) {
		burst := burstOf(rand.New(rand.NewPCG(seed, 0)))
		depth := []int{8, 256}[seed%2]
		var stats, queues, arrived [2]string
		for how := range 2 {
			f := newFabric(t, Config{})
			ports := rawPorts(t, f, 3, depth)
			f.sw.setMLID(0xc001, map[ib.LID]bool{3: true})
			f.sw.setMLID(0xc002, map[ib.LID]bool{2: true})
			f.sw.setMLID(0xc003, map[ib.LID]bool{2: true, 3: true, 4: true})
			if how == 0 {
				ports[0].Send(burst...)
			} else {
				for _, packet := range burst {
					ports[0].Send(packet)
				}
			}
			sw, all := f.Stats()
			if sw.In != uint64(len(burst)) || sw.In+sw.Copies != sw.Out+sw.Drops.Sum() {
				t.Errorf("seed %d: %+v of %d packets", seed, sw, len(burst))
			}
			stats[how], queues[how] = fmt.Sprint(sw), fmt.Sprint(all)
			for _, p := range ports {
				arrived[how] += fmt.Sprintf("%x\n", taken(p))
			}
		}
		if stats[0] != stats[1] || queues[0] != queues[1] || arrived[0] != arrived[1] {
			t.Fatalf("seed %d: at once and one by one\n%s\n%s\n%s\n%s\n%s\n%s", seed, stats[0], stats[1], queues[0], queues[1], arrived[0], arrived[1])
		}
	}
}

// TestSendBurst sends messages of two queue pairs at once, one of which is refused: the others go out in order, with
// their own packet numbers. On a closed port each is dropped for its own reason.
func TestSendBurst(t *testing.T) {
	f := newFabric(t, Config{})
	from, to := attachHCA(t, f, PortConfig{Name: "from", GUID: 0x31}), attachHCA(t, f, PortConfig{Name: "to", GUID: 0x32})
	recv := NewRecvQueue(8)
	sink := mustQP(t, to, QPConfig{QKey: testQKey, Recv: recv})
	sender := QPConfig{QKey: testQKey, Recv: NewRecvQueue(1)}
	one, two := mustQP(t, from, sender), mustQP(t, from, sender)
	post := func(q *QP, payload string, dlid ib.LID) Post {
		return Post{q, Send{AH: AH{DLID: dlid}, DestQP: sink.QPN(), QKey: testQKey, Payload: []byte(payload)}}
	}
	posts := []Post{
		post(one, "first", to.own().LID), post(two, "", to.own().LID), post(one, "refused", 0), post(one, "a third one", to.own().LID),
	}
	why := []string{"left over", "", "", ""}
	from.SendBurst(posts, why)
	if want := []string{"", "", DropAH, ""}; fmt.Sprint(why) != fmt.Sprint(want) {
		t.Errorf("why %q, want %q", why, want)
	}
	waitFor(t, "quiet subnet", f.Quiet)
	if sw, _ := f.Stats(); sw.In != 3 {
		t.Errorf("the switch got %d packets, want 3", sw.In)
	}
	got := make([]Received, 8)
	got = got[:recv.Poll(got)]
	if len(got) != 3 {
		t.Fatalf("%d messages arrived, want 3", len(got))
	}
	for i, want := range []int{0, 1, 3} {
		if !bytes.Equal(got[i].Payload, posts[want].Payload) || got[i].SrcQP != posts[want].QP.QPN() {
			t.Errorf("message %d is %q of %v, want %q of %v", i, got[i].Payload, got[i].SrcQP, posts[want].Payload, posts[want].QP.QPN())
		}
	}
	if s := from.Stats(); s.Sent != 3 || !equalCounts(s.SendDrops, Counts{DropAH: 1}) {
		t.Errorf("%+v", s)
	}

	from.port.Close()
	from.SendBurst(posts, why)
	if want := []string{DropPortClosed, DropPortClosed, DropAH, DropPortClosed}; fmt.Sprint(why) != fmt.Sprint(want) {
		t.Errorf("on a closed port: why %q, want %q", why, want)
	}
}
