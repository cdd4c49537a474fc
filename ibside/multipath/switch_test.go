// SPDX-License-Identifier: Apache-2.0

package multipath

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"causeway/ibside"
	"causeway/ibside/fabric"
	"causeway/ibside/fabricport/porttest"
	"causeway/ibside/ib"
	"causeway/ibside/stamp"
)

// traffic sends numbered messages both ways until it is ended: peers send each on both fabrics, the worker to the group.
type traffic struct {
	r            *rig
	lid          ib.LID
	stop         chan struct{}
	ended        sync.WaitGroup
	toIB, toRoCE uint64
	atPeers      []stamped
	over         bool
}

type stamped struct {
	number uint64
	peer   int
}

const gap = time.Millisecond

func (r *rig) begin(t *testing.T, m ibside.Membership) *traffic {
	t.Helper()
	qp, _, err := r.port.CreateProxyQP(0, pkeys[0], proxyQKey)
	if err != nil {
		t.Fatal(err)
	}
	x := &traffic{r: r, lid: m.MLID, stop: make(chan struct{})}
	t.Cleanup(x.end) // before the rig's
	x.ended.Go(func() {
		tick := time.NewTicker(gap)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-x.stop:
				return
			}
			x.toRoCE++
			b := stamp.Message(x.toRoCE, 64)
			for _, p := range r.peers {
				p.toGroup(b, uint32(x.toRoCE))
			}
			x.toIB++
			r.send(t, porttest.Send{QP: qp, DGID: group, DLID: x.lid, DestQP: ib.QPMulticast, QKey: groupQKey, Flags: porttest.SendGRH}, stamp.Message(x.toIB, 64))
			for i, p := range r.peers {
				for _, got := range p.take() {
					if s, v := stamp.Read(got.Payload); v.Intact() {
						x.atPeers = append(x.atPeers, stamped{s.Number, i})
					}
				}
			}
		}
	})
	return x
}

func (x *traffic) end() {
	if x.over {
		return
	}
	x.over = true
	close(x.stop)
	x.ended.Wait()
	x.r.settle()
	for i, p := range x.r.peers {
		for _, got := range p.take() {
			if s, v := stamp.Read(got.Payload); v.Intact() {
				x.atPeers = append(x.atPeers, stamped{s.Number, i})
			}
		}
	}
}

// byFabric returns the numbers at the first fabric's peer, then those at the second's: the order in which a bridge sends
// that moves to the second. Which fabric is the faster one is not the bridge's to say.
func (x *traffic) byFabric() (numbers []uint64) {
	for i := range x.r.peers {
		for _, s := range x.atPeers {
			if s.peer == i {
				numbers = append(numbers, s.number)
			}
		}
	}
	return numbers
}

// checkOnce checks numbers of up to n: in order, none twice, and at most so many lost.
func checkOnce(t *testing.T, what string, numbers []uint64, n, mayLose uint64) {
	t.Helper()
	var s stamp.Sequence
	for _, k := range numbers {
		s.Note(k)
	}
	if s.Duplicates+s.Reordered+s.Old != 0 {
		t.Errorf("%s: %d doubled, %d out of order", what, s.Duplicates, s.Reordered)
	}
	if lost := n - s.Unique; lost > mayLose {
		t.Errorf("%s: %d of %d are lost, more than %d", what, lost, n, mayLose)
	} else {
		t.Logf("%s: %d of %d lost", what, lost, n)
	}
}

// A switchCase is something that happens to one of two fabrics.
type switchCase struct {
	name    string
	rule    Rule
	event   func(t *testing.T, r *rig)
	moves   bool
	why     string
	mayLose [2]uint64 // to RoCE, to IB
}

// most is how many messages may be lost, one a millisecond.
const most = 150

var switchCases = []switchCase{
	{"the port goes down", Rule{}, func(t *testing.T, r *rig) { r.cut(t, 0, true) }, true, whyDown, [2]uint64{most, most}},
	{"the port goes down, numbered", Rule{Tell: TellImm}, func(t *testing.T, r *rig) { r.cut(t, 0, true) }, true, whyDown, [2]uint64{most, most}},
	{"the SM dies", Rule{}, func(t *testing.T, r *rig) { silence(t, r.fabrics[0]) }, false, "", [2]uint64{0, 0}},
	{"the fabric loses half", Rule{}, func(_ *testing.T, r *rig) { r.fabrics[0].Lose(0.5) }, true, whyGroup, [2]uint64{most, most}},
	{"the fabric loses all", Rule{}, func(_ *testing.T, r *rig) { r.fabrics[0].Lose(1) }, true, whyGroup, [2]uint64{most, most}},
	{"the other port goes down", Rule{}, func(t *testing.T, r *rig) { r.cut(t, 1, true) }, false, "", [2]uint64{0, 0}},
	{"an operator prefers the other", Rule{}, func(t *testing.T, r *rig) {
		if err := r.port.Prefer("b"); err != nil {
			t.Error(err)
		}
	}, true, whyPreferred, [2]uint64{30, 0}},
	{"an operator prefers the other, numbered", Rule{Tell: TellImm}, func(t *testing.T, r *rig) {
		if err := r.port.Prefer("b"); err != nil {
			t.Error(err)
		}
	}, true, whyPreferred, [2]uint64{30, 0}},
}

// TestSwitchOver has numbered traffic both ways while something happens to the active fabric. One message a millisecond:
// what is lost tells how long it took.
func TestSwitchOver(t *testing.T) {
	t.Parallel()
	for _, c := range switchCases {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, c.rule)
			joined, destinations := r.join(t), "destinations=1"
			if c.rule.Tell != TellNothing {
				r.meet(t) // numbers are by sender
				destinations = "destinations=2"
			}
			x := r.begin(t, joined)
			r.await(t, 2*300)
			if r.active() != 0 {
				t.Fatalf("port %d is active at first", r.active())
			}
			before := r.requests()
			c.event(t, r)
			if c.moves {
				t.Logf("moved after %v", within(t, patience, "the switch-over", func() bool { return r.active() == 1 }))
				if !r.log.has("ib_path_switched", "from=a", "to=b", "why="+c.why, destinations) {
					t.Errorf("the log says %q", r.log.lines)
				}
			}
			time.Sleep(time.Second)
			x.end()
			if !c.moves && r.active() != 0 {
				t.Error("it moved")
			}
			if now := r.requests(); now != before {
				t.Errorf("%d groups were joined anew", now-before)
			}
			numbers, standby, _ := r.taken(t)
			checkOnce(t, "to RoCE", numbers, x.toRoCE, c.mayLose[0])
			if c.name != "the other port goes down" && standby < 200 {
				t.Errorf("%d messages were marked", standby)
			}
			checkOnce(t, "to IB", x.byFabric(), x.toIB, c.mayLose[1])
		})
	}
}

func (r *rig) cut(t *testing.T, i int, cut bool) {
	t.Helper()
	guid := r.ports[i].Own().GIDs[0].GUID()
	if err := r.fabrics[i].Cut(guid, cut); err != nil {
		t.Fatal(err)
	}
}

// silence ends a subnet manager's answers.
func silence(t *testing.T, f *fabric.Fabric) (end func()) {
	p := fabric.NewMADPort(f.SA().HCA(), ib.ClassSA)
	t.Cleanup(func() { p.Close() })
	return func() { p.Close() }
}

// requests is how many memberships there are on both fabrics, each join counted.
func (r *rig) requests() (n int) {
	for _, f := range r.fabrics {
		for _, g := range f.SA().Groups() {
			n += len(g.Members)
		}
	}
	return n
}

// TestReturn: a preferred port is active again only when it has been good for the hold-down.
func TestReturn(t *testing.T) {
	r := newRig(t, Rule{})
	r.join(t)
	if err := r.port.Prefer("a"); err != nil {
		t.Fatal(err)
	}
	r.cut(t, 0, true)
	within(t, patience, "b", func() bool { return r.active() == 1 })
	if err := r.port.Prefer("a"); err == nil {
		t.Error("a port that is down was preferred")
	}
	r.cut(t, 0, false)
	began := time.Now()
	within(t, patience, "a again", func() bool { return r.active() == 0 })
	if took := time.Since(began); took < holdDown*8/10 {
		t.Errorf("it returned after %v", took)
	}
	if err := r.port.Prefer("c"); err == nil {
		t.Error("a port that is not there was preferred")
	}
}

// TestSilentSubnetManager: it is no reason to move, but one not to go there.
func TestSilentSubnetManager(t *testing.T) {
	r := newRig(t, Rule{})
	r.join(t)
	if err := r.port.Prefer("b"); err != nil {
		t.Fatal(err)
	}
	if err := r.port.Prefer("a"); err != nil {
		t.Fatal(err)
	}
	speak := silence(t, r.fabrics[0])
	within(t, patience, "a silent subnet manager", func() bool { return r.port.Reports()[0].SMSilent })
	if r.active() != 0 {
		t.Error("it moved")
	}
	r.cut(t, 0, true)
	within(t, patience, "b", func() bool { return r.active() == 1 })
	r.cut(t, 0, false)
	time.Sleep(2 * holdDown)
	if r.active() != 1 {
		t.Error("it returned to a fabric without a subnet manager")
	}
	speak()
	within(t, patience, "a again", func() bool { return r.active() == 0 })
}

// TestLeftGroup: what members have brought of a group when it is left does not cross twice, although workers know it for
// longer.
func TestLeftGroup(t *testing.T) {
	t.Parallel()
	for i, rule := range []Rule{{}, {Tell: TellImm}, {Mode: Both, Tell: TellImm}} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			r := newRig(t, rule)
			r.join(t)
			r.asWorker(t)
			for _, p := range r.peers {
				p.toGroup(stamp.Message(1, 64), 1)
			}
			r.settle()
			if err := r.port.Leave(t.Context(), group); err != nil {
				t.Error(err)
			}
			for r.take() > 0 {
			}
			if numbers, standby, _ := r.taken(t); len(numbers) != 0 || standby != 2 {
				t.Errorf("%d messages crossed, %d were marked", len(numbers), standby)
			}
		})
	}
}

// TestFollowSender: a group is taken from where its sender is, and counts of a group that is gone mean nothing to the
// next one.
func TestFollowSender(t *testing.T) {
	r := newRig(t, Rule{})
	r.join(t)
	for i := range uint64(100) {
		r.peers[1].toGroup(stamp.Message(i, 64), 0)
		time.Sleep(time.Millisecond)
	}
	within(t, patience, "b", func() bool { return r.active() == 1 })
	if err := r.port.Leave(t.Context(), group); err != nil {
		t.Fatal(err)
	}
	r.join(t)
	time.Sleep(200 * time.Millisecond)
	if r.active() != 0 {
		t.Errorf("port %d is active although nobody has sent", r.active())
	}
}

// TestSlowGroup: a group with few messages leaves a fabric that loses them, too, if later; and no other one.
func TestSlowGroup(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		share float64
		moves bool
	}{{"half", 0.5, true}, {"all", 1, true}, {"none", 0, false}} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, Rule{})
			r.join(t)
			var lost time.Time
			for n := uint64(0); n < 150 && r.active() == 0; n++ {
				for _, p := range r.peers {
					p.toGroup(stamp.Message(n, 64), 0)
				}
				if n == 50 {
					lost = time.Now()
					r.fabrics[0].Lose(c.share)
				}
				time.Sleep(20 * time.Millisecond)
			}
			if moved := r.active() == 1; moved != c.moves {
				t.Errorf("it moved: %v", moved)
			}
			if c.moves {
				t.Logf("moved after %v", time.Since(lost))
			}
		})
	}
}

// TestGuard: what the old port has brought is not taken once more from the new one, where it comes a moment later:
// nothing is taken from there at first. What tells copies makes that unnecessary.
func TestGuard(t *testing.T) {
	for _, rule := range []Rule{{}, {Tell: TellImm}} {
		t.Run([]string{"unnumbered", "numbered"}[rule.Tell], func(t *testing.T) {
			r := newRigAlone(t, rule)
			r.join(t)
			r.meet(t)
			inTime := 0
			for n := uint64(1); n < 20; n += 2 {
				old, to := int(n/2%2), 1-int(n/2%2)
				if numbers, marked := r.arrival(t, old, n); !slices.Equal(numbers, []uint64{n}) {
					t.Fatalf("of message %d by the active port came %d, and %d marked", n, numbers, marked)
				}
				began := time.Now()
				if err := r.port.Prefer([]string{"a", "b"}[to]); err != nil {
					t.Fatal(err)
				}
				numbers, marked := r.arrival(t, to, n)
				if time.Since(began) < guard { // else the test was too late for it
					inTime++
					if len(numbers) > 0 || marked != 1 {
						t.Errorf("message %d was taken from both ports", n)
					}
				}
				time.Sleep(guard + 4*tick)
				if numbers, _ := r.arrival(t, to, n+1); !slices.Equal(numbers, []uint64{n + 1}) {
					t.Errorf("message %d by the new port was not taken", n+1)
				}
			}
			if inTime == 0 {
				t.Error("no copy came in time: this machine is too slow for the test")
			}
		})
	}
}

// arrival sends a message to the group on one fabric, and returns what came of it: numbers, and how many were marked.
func (r *rig) arrival(t *testing.T, fabric int, number uint64) (numbers []uint64, marked int) {
	t.Helper()
	r.peers[fabric].toGroup(stamp.Message(number, 64), uint32(number))
	within(t, patience, "a message", func() bool {
		var standby, duplicate int
		numbers, standby, duplicate = r.taken(t)
		marked = standby + duplicate
		return len(numbers)+marked > 0
	})
	return numbers, marked
}
