// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"time"

	"causeway/ibside/fabric"
	"causeway/ibside/ib"
	"causeway/ibside/stamp"
)

// fleetGap is the time between two messages of a flow, and flowStep how far their first numbers are apart.
const (
	fleetGap = 20 * time.Millisecond
	flowStep = 1_000_000
)

// A fleetFlow is numbered messages. They are judged when they have come.
type fleetFlow struct {
	name string
	came func() []uint32 // the numbers of all that have come, in order
	mark uint32          // the last message that was judged
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
		f.flows = append(f.flows, f.toNode("host "+host.Name+" to the node", first), f.toHost("and back", sender))
		f.flows = append(f.flows, f.toHost("the node's group to host "+host.Name, f.udend(host, fmt.Sprintf("%s --mgid %s recv", gap, groupV6))))
	}
	const first = 1 + 2*flowStep
	f.udend(Peer{Guest: a, IP: "10.9.0.1"}, fmt.Sprintf("%s --seq %d --to %s --qpn 0xffffff send", gap, first, groupV4))
	f.flows = append(f.flows, f.toNode("host A's group to the node", first))
	f.ending = make(chan struct{})
	message, err := f.node.JoinToSend(within(f.t, stepTime), mgid(groupV6))
	if err != nil {
		f.t.Fatal(err)
	}
	go f.publish(message)
	f.t.Cleanup(f.stop)
	f.lost() // what comes before all members know all is not judged
}

// publish has the node send to its group until the end.
func (f *kernelFleet) publish(message fabric.Send) {
	for number := uint64(1 + 3*flowStep); ; number++ {
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

// toHost is a flow that a host receives.
func (f *kernelFleet) toHost(name string, receiver *UDEnd) *fleetFlow {
	return &fleetFlow{name: name, came: func() (all []uint32) {
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
	return &fleetFlow{name: name, came: func() []uint32 {
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

// lost judges all flows since the last time, when ten more messages of each have come: each came once, and in order. It returns
// how many were lost of each.
func (f *kernelFleet) lost() map[string]int {
	f.t.Helper()
	lost := map[string]int{}
	for _, x := range f.flows {
		begin := len(x.came())
		for ctx := within(f.t, stepTime); len(x.came()) < begin+10; time.Sleep(5 * pollEvery) {
			if ctx.Err() != nil {
				f.t.Fatalf("%s: no traffic", x.name)
			}
		}
	}
	for _, x := range f.flows {
		last, came := x.mark, 0
		for _, number := range x.came() {
			switch {
			case number <= x.mark:
				continue
			case number <= last:
				f.t.Errorf("%s: message %d came after %d", x.name, number, last)
			}
			came, last = came+1, max(last, number)
		}
		lost[x.name], x.mark = int(last-x.mark)-came, last
		f.proof.add(came)
	}
	return lost
}

// during has something happen under traffic, of which no flow may lose more than a time's.
func (f *kernelFleet) during(what string, most time.Duration, happens func()) {
	f.t.Helper()
	before := f.lossy()
	happens()
	if more := f.lossy() - before; more > 0 && most == 0 {
		f.t.Logf("%s: shares passed %d times without an overlap, because this machine is slow", what, more)
		most = 3 * 150 * time.Millisecond
	}
	lost := f.lost()
	for name, n := range lost {
		if time.Duration(n)*fleetGap > most {
			f.t.Errorf("%s, %s: %d messages were lost, of %v", what, name, n, most)
		}
	}
	worst := 0
	for _, n := range lost {
		worst = max(worst, n)
	}
	f.proof.measured("%s: %v lost at most", what, time.Duration(worst)*fleetGap)
}
