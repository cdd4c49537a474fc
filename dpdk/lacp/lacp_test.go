// SPDX-License-Identifier: Apache-2.0

package lacp

import (
	"slices"
	"testing"
	"time"
)

// A wire joins two bonds, port by port, with a clock of its own.
type wire struct {
	t     *testing.T
	now   time.Time
	end   [2]*Bond
	queue []flying
	cut   map[[2]int]bool // end, port: what it sends is lost
}

type flying struct {
	to, port int
	frame    []byte
}

func connect(t *testing.T, ports int) *wire {
	w := &wire{t: t, now: time.Time{}.AddDate(1, 0, 0), cut: map[[2]int]bool{}}
	for i := range w.end {
		w.end[i] = New([6]byte{2, 0, 0, 0, 0, byte(i + 1)}, ports, func(port int, frame []byte) {
			if !w.cut[[2]int{i, port}] {
				w.queue = append(w.queue, flying{1 - i, port, frame})
			}
		})
	}
	return w
}

// run lets time pass. Frames take none.
func (w *wire) run(d time.Duration) {
	for end := w.now.Add(d); ; {
		for len(w.queue) > 0 {
			f := w.queue[0]
			w.queue = w.queue[1:]
			w.end[f.to].Receive(w.now, f.port, f.frame)
		}
		next := w.end[0].Tick(w.now)
		if n := w.end[1].Tick(w.now); n.Before(next) {
			next = n
		}
		if len(w.queue) > 0 {
			continue
		}
		if !next.After(w.now) {
			w.t.Fatal("a tick is due at once, for ever")
		}
		if next.After(end) {
			w.now = end
			return
		}
		w.now = next
	}
}

func (w *wire) setLink(port int, up bool) {
	for _, b := range w.end {
		b.SetLink(w.now, port, up)
	}
}

// carries returns which ports of an end distribute.
func (w *wire) carries(end int) (out []int) {
	for i, p := range w.end[end].Ports() {
		if p.Distributing {
			out = append(out, i)
		}
		if p.Distributing && !p.Collecting {
			w.t.Errorf("end %d, port %d sends and does not receive", end, i)
		}
	}
	return out
}

func (w *wire) want(what string, ports ...int) {
	w.t.Helper()
	for end := range w.end {
		if got := w.carries(end); !slices.Equal(got, ports) {
			w.t.Errorf("%s: at end %d, ports %v carry frames; want %v; %+v", what, end, got, ports, w.end[end].Ports())
		}
	}
}

// TestAggregates checks two bonds against each other: links that come and go.
func TestAggregates(t *testing.T) {
	w := connect(t, 3)
	w.run(time.Second)
	w.want("no link")
	w.setLink(0, true)
	w.run(10 * time.Millisecond)
	w.want("the first link", 0)
	w.setLink(1, true)
	w.setLink(2, true)
	w.run(10 * time.Millisecond)
	w.want("all links", 0, 1, 2)
	w.setLink(1, false)
	w.want("a link has gone", 0, 2)
	w.run(time.Second)
	w.setLink(1, true)
	w.want("a link is back, and nothing is known of its other end", 0, 2)
	w.run(10 * time.Millisecond)
	w.want("a link is back", 0, 1, 2)
	w.run(time.Hour)
	w.want("an hour later", 0, 1, 2)
	for i, p := range w.end[0].Ports() {
		if rate := float64(p.Sent) / 3600; rate > 1.1 || rate < 0.9 {
			t.Errorf("port %d sent %d LACPDUs in an hour; want one a second", i, p.Sent)
		}
	}
}

// TestFlaps checks that a link that comes and goes ten times a second has no more LACPDUs than the standard allows, and
// works when it stays.
func TestFlaps(t *testing.T) {
	w := connect(t, 2)
	w.setLink(0, true)
	w.setLink(1, true)
	w.run(time.Second)
	before := w.end[0].Ports()[1].Sent
	for range 100 {
		w.setLink(1, false)
		w.run(50 * time.Millisecond)
		w.want("while it is down", 0)
		w.setLink(1, true)
		w.run(50 * time.Millisecond)
		if got := w.carries(0); !slices.Contains(got, 0) {
			t.Fatalf("the other link does not carry frames; %v", got)
		}
	}
	if n := w.end[0].Ports()[1].Sent - before; n > 33 {
		t.Errorf("%d LACPDUs in ten seconds; at most 3 a second are allowed", n)
	}
	w.run(1100 * time.Millisecond)
	w.want("after it", 0, 1)
}

// TestSilence checks that a port of which one direction is lost, or whose other end has fallen silent, carries frames for
// three seconds at most; and that it does again as soon as LACPDUs pass.
func TestSilence(t *testing.T) {
	for _, mute := range [][]int{{0}, {1}, {0, 1}} {
		w := connect(t, 2)
		w.setLink(0, true)
		w.setLink(1, true)
		w.run(10300 * time.Millisecond)
		for _, end := range mute {
			w.cut[[2]int{end, 1}] = true
		}
		w.run(1900 * time.Millisecond)
		w.want("before it is known", 0, 1)
		w.run(1150 * time.Millisecond)
		w.want("after three seconds", 0)
		for end := range w.end {
			if p := w.end[end].Ports()[1]; !p.Collecting && p.Receiving == WasCurrent {
				t.Errorf("end %d takes no frames that still come", end)
			}
		}
		w.run(time.Minute)
		w.want("after a minute", 0)
		if p := w.end[1-mute[0]].Ports()[1]; p.Collecting {
			t.Error("a port of which nothing is known receives")
		}
		clear(w.cut)
		w.run(1100 * time.Millisecond)
		w.want("it speaks again", 0, 1)
	}
}

// TestPartnerSaysItLater checks that frames are received as soon as the other end has been told that they may come, without
// its saying that it has been: Linux sends frames up to 300 ms before its next LACPDU. They are not sent yet.
func TestPartnerSaysItLater(t *testing.T) {
	now := time.Time{}.AddDate(1, 0, 0)
	var sent []byte
	b := New([6]byte{2, 0, 0, 0, 0, 1}, 1, func(_ int, frame []byte) { sent = frame })
	b.SetLink(now, 0, true)
	if p := b.Ports()[0]; p.Collecting {
		t.Error("frames are received before anything is known of the other end")
	}
	first, _ := Parse(sent)
	partner := PDU{End{System: [6]byte{2, 0, 0, 0, 0, 2}, Key: 7, Port: 1, State: Activity | Timeout | Aggregation}, first.Actor}
	b.Receive(now, 0, partner.Frame(partner.Actor.System))
	told, _ := Parse(sent)
	if told.Actor.State&Synchronization == 0 || told.Actor.State&(Collecting|Distributing) != 0 {
		t.Errorf("the other end was told %v", told.Actor.State)
	}
	if p := b.Ports()[0]; !p.Collecting || p.Distributing {
		t.Errorf("%+v", p)
	}
}

// TestPartnerOfAnother checks that nothing is sent to a partner that is ready, but for another than this end: what it says last is of
// what was there before.
func TestPartnerOfAnother(t *testing.T) {
	now := time.Time{}.AddDate(1, 0, 0)
	var sent []byte
	b := New([6]byte{2, 0, 0, 0, 0, 1}, 1, func(_ int, frame []byte) { sent = frame })
	b.SetLink(now, 0, true)
	own, _ := Parse(sent)
	another := own.Actor
	another.System[5] = 9
	for partner, carries := range map[End]bool{another: false, own.Actor: true} {
		pdu := PDU{End{System: [6]byte{2, 0, 0, 0, 0, 2}, Key: 7, Port: 1,
			State: Activity | Timeout | Aggregation | Synchronization | Collecting | Distributing}, partner}
		b.Receive(now, 0, pdu.Frame(pdu.Actor.System))
		if p := b.Ports()[0]; p.Distributing != carries {
			t.Errorf("the other end's partner is %+v: %+v", partner, p)
		}
	}
}

// TestTwoPartners checks that ports that lead to two stations are not mixed.
func TestTwoPartners(t *testing.T) {
	var queue [3][][]byte
	now := time.Time{}.AddDate(1, 0, 0)
	b := New([6]byte{2, 0, 0, 0, 0, 9}, 3, func(port int, frame []byte) { queue[port] = append(queue[port], frame) })
	partners := []*Bond{}
	for i, system := range []byte{1, 2, 2} {
		partners = append(partners, New([6]byte{2, 0, 0, 0, 0, system}, 3, func(port int, frame []byte) { b.Receive(now, port, frame) }))
		partners[i].SetLink(now, i, true)
	}
	settle := func() {
		for range 20 {
			now = now.Add(300 * time.Millisecond)
			b.Tick(now)
			for i := range queue {
				frames := queue[i]
				queue[i] = nil
				for _, f := range frames {
					partners[i].Receive(now, i, f)
				}
				if b.Ports()[i].Receiving != PortDisabled {
					partners[i].Tick(now)
				}
			}
		}
	}
	carry := func() (out []int) {
		for i, p := range b.Ports() {
			if p.Distributing {
				out = append(out, i)
			}
		}
		return out
	}
	b.SetLink(now, 0, true)
	settle()
	b.SetLink(now, 1, true)
	b.SetLink(now, 2, true)
	settle()
	if got := carry(); !slices.Equal(got, []int{0}) {
		t.Errorf("ports %v carry frames; want the first alone, which was in use", got)
	}
	b.SetLink(now, 0, false)
	settle()
	if got := carry(); !slices.Equal(got, []int{1, 2}) {
		t.Errorf("ports %v carry frames; want the other station's", got)
	}
	b.SetLink(now, 0, true)
	settle()
	if got := carry(); !slices.Equal(got, []int{1, 2}) {
		t.Errorf("ports %v carry frames; want those that were in use", got)
	}
}

// TestNoPartner checks that without LACP at the other end, one port carries frames.
func TestNoPartner(t *testing.T) {
	w := connect(t, 2)
	w.end[0].SetLink(w.now, 1, true)
	w.end[0].SetLink(w.now, 0, true)
	w.run(2900 * time.Millisecond)
	if got := w.carries(0); got != nil {
		t.Errorf("ports %v carry frames before it is known that nobody answers", got)
	}
	w.run(200 * time.Millisecond)
	if got := w.carries(0); !slices.Equal(got, []int{0}) {
		t.Errorf("ports %v carry frames; want one", got)
	}
	w.end[0].SetLink(w.now, 0, false)
	if got := w.carries(0); !slices.Equal(got, []int{1}) {
		t.Errorf("ports %v carry frames; want the other", got)
	}
	w.end[1].SetLink(w.now, 1, true)
	w.run(1100 * time.Millisecond)
	w.want("a partner has come", 1)
	if p := w.end[0].Ports()[1]; p.Individual || !p.Selected || p.Receiving != Current {
		t.Errorf("%+v", p)
	}
}

// TestLeave checks that the other end stops at once when this one says that it leaves.
func TestLeave(t *testing.T) {
	w := connect(t, 2)
	w.setLink(0, true)
	w.setLink(1, true)
	w.run(time.Second)
	w.end[0].Leave()
	for len(w.queue) > 0 {
		f := w.queue[0]
		w.queue = w.queue[1:]
		if f.to == 1 {
			w.end[1].Receive(w.now, f.port, f.frame)
		}
	}
	if got := w.carries(1); got != nil {
		t.Errorf("ports %v of the other end carry frames", got)
	}
}

// TestLoop checks that a port that hears itself does not take that for a partner.
func TestLoop(t *testing.T) {
	now := time.Time{}.AddDate(1, 0, 0)
	var b *Bond
	var sent [][]byte
	b = New([6]byte{2, 0, 0, 0, 0, 1}, 1, func(_ int, frame []byte) { sent = append(sent, frame) })
	b.SetLink(now, 0, true)
	for _, f := range sent {
		b.Receive(now, 0, f)
	}
	if p := b.Ports()[0]; p.Receiving == Current || p.Invalid != 1 {
		t.Errorf("%+v", p)
	}
}
