// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"causeway/app/fleettest"
	"causeway/ibside/fabric"
	"causeway/ibside/ib"
	"causeway/ibside/stamp"
)

// fleetGap is the time between two messages of a flow, and flowStep how far their first numbers are apart.
const (
	fleetGap  = 20 * time.Millisecond
	flowStep  = 1_000_000
	first     = 1 + 2*flowStep // of host A to its group
	published = 1 + 3*flowStep // of the node to its group
)

// A fleetFlow is numbered messages to one receiver. They are judged when they have come.
type fleetFlow struct {
	name   string
	stream uint32
	came   func() []uint32 // the numbers of all that have come, in order
}

// streamOf tells apart, of a message's number, what is sent and what is answered.
func streamOf(number uint32, toIB bool) uint32 {
	if toIB {
		return number / flowStep * 2
	}
	return number/flowStep*2 + 1
}

// begin starts the flows: of each host to the node and back, of host A to a group, and of the node to a group of both hosts.
func (f *kernelFleet) begin(a, b *Guest) {
	f.t.Helper()
	for _, host := range []*Guest{a, b} { // as docs/fleet.md has it: a bridge of another test has had the node
		if err := host.Must(within(f.t, stepTime), "ip neigh flush all; ip -6 neigh flush all"); err != nil {
			f.t.Fatal(err)
		}
	}
	gap := fmt.Sprintf(" %s --count %d %s --gap %d ", unicast, flowStep, flowsLast, fleetGap.Milliseconds())
	for i, host := range []Peer{{Guest: a, IP: "10.9.0.1"}, {Guest: b, IP: "fd09::2"}} {
		first, node := uint32(1+i*flowStep), []string{"10.9.0.7", "fd09::7"}[i]
		sender := f.udend(host, fmt.Sprintf("%s --seq %d --to %s --qpn %d stream", gap, first, node, f.node.QP().QPN()))
		f.flows = append(f.flows, f.toNode("host "+host.Name+" to the node", first), f.toHost("and back", first, sender))
		f.flows = append(f.flows, f.toHost("the node's group to host "+host.Name, published, f.udend(host, fmt.Sprintf("%s --mgid %s recv", gap, groupV6))))
	}
	f.udend(Peer{Guest: a, IP: "10.9.0.1"}, fmt.Sprintf("%s --seq %d --to %s --qpn 0xffffff send", gap, first, groupV4))
	f.flows = append(f.flows, f.toNode("host A's group to the node", first))
	f.ending = make(chan struct{})
	message, err := f.node.JoinToSend(within(f.t, stepTime), mgid(groupV6))
	if err != nil {
		f.t.Fatal(err)
	}
	go f.publish(message)
	f.t.Cleanup(f.stop)
	f.marks, f.assignment = f.until(), f.newest() // what comes before all members know all is not judged
	f.captured(f.marks)
}

// publish has the node send to its group until the end.
func (f *kernelFleet) publish(message fabric.Send) {
	for number := uint64(published); ; number++ {
		message.Payload = stamp.Message(number, 64)
		if err := f.node.Send(message); err != nil {
			f.t.Error(err)
		}
		select {
		case <-f.ending:
			return
		case <-time.After(fleetGap - pace):
		}
	}
}

// stop has the node publish no more.
func (f *kernelFleet) stop() {
	select {
	case <-f.ending:
	default:
		close(f.ending)
	}
}

func (f *kernelFleet) udend(host Peer, args string) *UDEnd {
	f.t.Helper()
	u, err := host.StartUDEnd(within(f.t, stepTime), host.udendArgs()+args)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(u.Stop)
	return u
}

// toHost is a flow that a host receives, with the number of its first message.
func (f *kernelFleet) toHost(name string, first uint32, receiver *UDEnd) *fleetFlow {
	return &fleetFlow{name: name, stream: streamOf(first, false), came: func() (all []uint32) {
		for _, e := range Only(soFar(f.t, receiver), "received") {
			if !e.Intact || e.Status != "success" {
				f.t.Errorf("%s: %+v", name, e)
			}
			all = append(all, e.Seq)
		}
		return all
	}}
}

// toNode is a flow that the node receives, with the number of its first message.
func (f *kernelFleet) toNode(name string, first uint32) *fleetFlow {
	return &fleetFlow{name: name, stream: streamOf(first, true), came: func() []uint32 {
		for f.node.Waiting() > 0 {
			m, err := f.node.Receive(within(f.t, stepTime))
			if err != nil {
				f.t.Fatal(err)
			}
			s, whole := stamp.Read(m.Payload)
			if !whole.Intact() || (m.MGID() != ib.GID{}) != (s.Number > 2*flowStep) {
				f.t.Errorf("a message came to the node as %+v", m)
			}
			flow := uint32(s.Number)/flowStep*flowStep + 1
			f.came[flow] = append(f.came[flow], uint32(s.Number))
		}
		return f.came[first]
	}}
}

// until waits until ten more messages of each flow have come, and returns up to which number each stream is to be judged: its last one
// that all its receivers have.
func (f *kernelFleet) until() map[uint32]uint32 {
	f.t.Helper()
	for _, x := range f.flows {
		begin := len(x.came())
		for ctx := within(f.t, stepTime); len(x.came()) < begin+10; time.Sleep(5 * pollEvery) {
			if ctx.Err() != nil {
				f.t.Fatalf("%s: no traffic", x.name)
			}
		}
	}
	last := map[uint32]uint32{}
	for _, x := range f.flows {
		highest := slices.Max(x.came())
		if before, known := last[x.stream]; !known || highest < before {
			last[x.stream] = highest
		}
	}
	return last
}

// received judges what has come of each flow up to these numbers: once, and in order. It returns how many were lost of the flow that
// lost most, and how many have come of each stream, to the receiver that has fewest.
func (f *kernelFleet) received(what string, until map[uint32]uint32) (lost uint64, arrived map[uint32]uint64) {
	f.t.Helper()
	arrived = map[uint32]uint64{}
	for _, x := range f.flows {
		last, came := f.marks[x.stream], uint64(0)
		for _, number := range x.came() {
			if number <= f.marks[x.stream] || number > until[x.stream] {
				continue
			}
			if number <= last {
				f.t.Errorf("%s, %s: message %d came after %d", what, x.name, number, last)
			}
			came, last = came+1, max(last, number)
		}
		lost = max(lost, uint64(until[x.stream]-f.marks[x.stream])-came)
		if before, known := arrived[x.stream]; !known || came < before {
			arrived[x.stream] = came
		}
		f.proof.add(int(came))
	}
	return lost, arrived
}

// captured takes what was captured of each stream up to these numbers.
func (f *kernelFleet) captured(until map[uint32]uint32) []fleettest.Seen {
	f.t.Helper()
	for stream, last := range until {
		for ctx := within(f.t, stepTime); !f.capture.Left(stream, uint64(last)); time.Sleep(pollEvery) {
			if ctx.Err() != nil {
				f.t.Fatalf("message %d has come, and was not captured", last)
			}
		}
	}
	time.Sleep(10 * pollEvery) // what other ports have sent before may not have been read yet
	return f.capture.Take(func(m fleettest.Seen) bool { return m.Number <= uint64(until[m.Stream]) })
}

// judge judges all flows since the last time, by what has come and by the captures of all ports; of none more than a time's may be
// lost.
func (f *kernelFleet) judge(what string, most time.Duration) {
	f.t.Helper()
	f.passed()
	until := f.until()
	lost, arrived := f.received(what, until)
	newest := f.newest()
	e := fleettest.Egress{
		All: f.captured(until), Assignments: newest - f.assignment, Arrived: arrived, Most: messagesOf(most), Behind: messagesOf(f.behind), Joined: true,
	}
	wrong, _ := e.Check()
	f.marks, f.assignment = until, newest
	f.proof.measured("%s: %v lost at most", what, time.Duration(lost)*fleetGap)
	f.t.Logf("%s: %d messages captured, %d assignments, %d lost of a flow at most", what, len(e.All), e.Assignments, lost)
	if lost > messagesOf(most) || len(wrong) > 0 {
		f.t.Errorf("%s: %d messages of a flow were lost, of %v; and %d mistakes at egress:\n%s", what, lost, most, len(wrong), strings.Join(wrong[:min(len(wrong), 20)], "\n"))
	}
}

// passed waits until members forward what the newest assignment gives them, and no more: what they forward by one is counted with it.
func (f *kernelFleet) passed() {
	f.t.Helper()
	for n := range f.members {
		for ctx := within(f.t, stepTime); ; time.Sleep(pollEvery) {
			fleet, err := f.ctl(n, "show", "fleet")
			f.must(err)
			shards, err := f.ctl(n, "show", "shards")
			f.must(err)
			if fleettest.Passed(fmt.Sprint("m", n), fleet, shards) {
				break
			}
			if ctx.Err() != nil {
				f.t.Fatalf("m%d forwards other shards than it has:\n%s\n%s", n, fleet, shards)
			}
		}
	}
}

// messagesOf returns how many messages of a flow there are in a time.
func messagesOf(d time.Duration) uint64 { return uint64(d / fleetGap) }

// during has something happen under traffic, of which no flow may lose more than a time's.
func (f *kernelFleet) during(what string, most time.Duration, happens func()) {
	f.t.Helper()
	before, stretch := f.lossy(), fleettest.Bound(f.t)
	happens()
	most = stretch(most)
	if more := f.lossy() - before; more > 0 && most == 0 {
		f.t.Logf("%s: shards passed %d times without an overlap, because this machine is slow", what, more)
		most = 3 * 150 * time.Millisecond
	}
	f.judge(what, most+f.late)
	f.late = 0
}
