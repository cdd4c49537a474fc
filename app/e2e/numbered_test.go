// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"testing"
	"time"
)

// numbered is a flow of numbered messages. They are judged by the sender's clock.
type numbered struct {
	name             string
	from             *Guest // the sender's
	sender, receiver *UDEnd
	member           *UDEnd // the node's program that must be in the group, or nil
	ordered          uint32 // what follows must keep its order: the first messages have no proxy QP yet
	mark             uint32 // the last message that was judged
	judged           int    // messages
}

// await waits until so many messages more have come.
func (x *numbered) await(t *testing.T, messages int) {
	t.Helper()
	ctx := within(t, stepTime)
	for want := x.receiver.Received() + messages; x.receiver.Received() < want; time.Sleep(5 * pollEvery) {
		if ctx.Err() != nil {
			t.Fatalf("%s: no traffic", x.name)
		}
	}
}

// numbers checks all messages that have come, in order and each once, and returns their numbers, and the last one.
func (x *numbered) numbers(t *testing.T) (came map[uint32]bool, last uint32) {
	t.Helper()
	came = map[uint32]bool{}
	all := Only(soFar(t, x.receiver), "received")
	for i, e := range all {
		switch {
		case !e.Intact || e.Status != "success":
			t.Errorf("%s: %+v", x.name, e)
		case came[e.Seq]:
			t.Errorf("%s: message %d came twice", x.name, e.Seq)
		case e.Seq < last && e.Seq > x.ordered:
			t.Errorf("%s: message %d came after %d: %+v", x.name, e.Seq, last, all[max(i-5, 0):i+1])
		}
		came[e.Seq], last = true, max(last, e.Seq)
	}
	return came, last
}

// begin has the next judgement begin after the last message that has come.
func (x *numbered) begin(t *testing.T) {
	t.Helper()
	x.await(t, 10)
	_, x.mark = x.numbers(t)
}

// losses are messages that were lost, and when the first and the last of them were sent, by the sender's clock.
type losses struct {
	n           int
	first, last float64
}

func (l losses) span() time.Duration { return time.Duration((l.last - l.first) * float64(time.Second)) }

func (l losses) String() string {
	return fmt.Sprintf("%d in %d ms", l.n, l.span().Milliseconds())
}

// lost judges the messages since the last call.
func (x *numbered) lost(t *testing.T) (l losses) {
	t.Helper()
	came, to := x.numbers(t)
	for _, e := range Only(soFar(t, x.sender), "sent") {
		if e.Seq <= x.mark || e.Seq > to {
			continue
		}
		x.judged++
		if came[e.Seq] {
			continue
		}
		if l.n++; l.n == 1 {
			l.first = e.At
		}
		l.last = e.At
	}
	x.mark = to
	return l
}
