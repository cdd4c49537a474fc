// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"causeway/ibside/ib"
)

// fourth is the fourth topology: guest E, which has Causeway, and node P, each with an adapter at each of two switches,
// which have nothing in common.
var fourth struct {
	guestPair
	sw [2]*Switch
}

var (
	fabricNames = [2]string{"a", "b"}
	fabricE     = GuestConfig{Name: "E", MiB: 2048, NICs: []NIC{
		{Mute: true},
		{Mute: true, MTU: hostMTU},
		{InfiniBand: &Adapter{GUID: 0x0002c90300000011, Peer: SwitchPort("E"), Addrs: []string{"10.9.0.253/24"}}},
		{InfiniBand: &Adapter{GUID: 0x0002c90300000012, Cable: "E.2", Peer: SwitchPort("E.2"), Addrs: []string{"10.9.1.253/24"}}},
	}}
	fabricP = GuestConfig{Name: "P", NICs: []NIC{
		{InfiniBand: &Adapter{GUID: 0x0002c90300000022, Peer: SwitchPort("P"), Addrs: []string{"10.9.0.7/24"}}},
		{InfiniBand: &Adapter{GUID: 0x0002c90300000023, Cable: "P.2", Peer: SwitchPort("P.2"), Addrs: []string{"10.9.1.7/24"}}},
	}}
	fabricSwitches = [2]SwitchConfig{
		{Name: "switcha", GUID: 0x0002c90300000200, Guests: []string{"E", "P"}},
		{Name: "switchb", GUID: 0x0002c90300000300, Guests: []string{"E.2", "P.2"}},
	}
	// twoFabrics is a bridge between E's eth1 and its adapters.
	twoFabrics = strings.Replace(betweenFabrics(`name = "a"
port = "shca0:1"
[[ib]]
name = "b"
port = "shca1:1"
[fabrics]
hold_down = 2
[console]
listen = ["unix:/tmp/console.sock"]`, `
[[host]]
ip        = "10.9.0.7"
side      = "ib"
gid       = "fe80::2:c903:0:22"
more_gids = ["fe80::2:c903:0:23"]
[[host]]
ip   = "10.9.0.1"
side = "roce"
`), "[ib]", "[[ib]]", 1)
)

// A fabricsRig is the fourth topology with a bridge, and traffic across it.
type fabricsRig struct {
	t      *testing.T
	a, p   *Guest
	e      *BridgeGuest
	bridge *GuestCauseway
	proof  *proof
	slow   float64
	gap    time.Duration // between two messages of a flow
	flows  []*numbered
}

func newFabricsRig(t *testing.T) *fabricsRig {
	t.Helper()
	a, e, p := fourth.boot(t, "fourth", fabricE, fabricP, func(r *Rig) (err error) {
		for i := range fourth.sw {
			if fourth.sw[i], err = r.StartSwitch(t.Context(), fabricSwitches[i]); err != nil {
				return err
			}
		}
		return nil
	})
	f := &fabricsRig{t: t, a: a, e: e, p: p}
	t.Cleanup(func() {
		if t.Failed() {
			for i, sw := range fourth.sw {
				t.Logf("switch %s:\n%s", fabricNames[i], lastLines(sw.Log()))
				out, _, _ := e.Run(context.Background(), fmt.Sprintf("cd %s; grep . state lid sm_lid; tail -n 20 /tmp/%s.log", f.port(i), smName(i)))
				t.Logf("port and opensm of %s:\n%s", fabricNames[i], out)
			}
		}
		for i := range fourth.sw { // later runs begin as the first
			_ = e.Must(context.Background(), "rm -rf /var/cache/"+smName(i))
		}
	})
	return f
}

func smName(i int) string { return "opensm-" + fabricNames[i] }

// port is the folder with the state of the port that E and P have on a fabric.
func (f *fabricsRig) port(i int) string {
	return fmt.Sprintf("/sys/class/infiniband/shca%d/ports/1/", i)
}

// manage starts the opensm of a fabric, with these LIDs for E and P, and waits until both ports are up with them.
func (f *fabricsRig) manage(i int, lidE, lidP uint16) {
	f.t.Helper()
	guidE, guidP := fabricE.NICs[2+i].InfiniBand.GUID, fabricP.NICs[i].InfiniBand.GUID
	var memory strings.Builder
	for _, x := range []struct {
		guid ib.GUID
		lid  uint16
	}{{guidE, lidE}, {guidP, lidP}} {
		fmt.Fprintf(&memory, "0x%016x 0x%04x 0x%04x\\n\\n", uint64(x.guid), x.lid, x.lid)
	}
	f.must(f.e.Guest, fmt.Sprintf("mkdir -p /var/cache/%[1]s; printf '%[2]s' >/var/cache/%[1]s/guid2lid", smName(i), memory.String()))
	stop, err := f.e.StartSM(SM{Name: smName(i), Options: fmt.Sprintf("-g %#x", uint64(guidE))})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(stop)
	f.await(f.e.Guest, fmt.Sprintf("grep -q ACTIVE %[1]sstate && [ $(($(cat %[1]slid))) = %d ] && grep -q 'SUBNET UP' /tmp/%s.log", f.port(i), lidE, smName(i)))
	f.await(f.p, fmt.Sprintf("grep -q ACTIVE %[1]sstate && [ $(($(cat %[1]slid))) = %d ]", f.port(i), lidP))
}

// kill kills the opensm of a fabric.
func (f *fabricsRig) kill(i int) {
	f.t.Helper()
	f.must(f.e.Guest, fmt.Sprintf("kill -KILL $(cat /tmp/%s.pid)", smName(i)))
}

// pull pulls the cable of E's port on a fabric, or puts it in.
func (f *fabricsRig) pull(i int, in bool) {
	f.t.Helper()
	if err := fourth.sw[i].Pull(within(f.t, stepTime), fabricE.NICs[2+i].InfiniBand.Peer, in); err != nil {
		f.t.Fatal(err)
	}
}

// lose has the fabric lose a share of what passes E's port.
func (f *fabricsRig) lose(i, percent int) {
	f.t.Helper()
	if err := fourth.sw[i].Lose(within(f.t, stepTime), fabricE.NICs[2+i].InfiniBand.Peer, percent); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fabricsRig) must(g *Guest, command string) {
	f.t.Helper()
	if err := g.Must(within(f.t, stepTime), command); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fabricsRig) await(g *Guest, condition string) {
	f.t.Helper()
	if err := g.Until(within(f.t, stepTime), condition); err != nil {
		f.t.Fatal(err)
	}
}

// of is the name of a metric of a port.
func of(i int, name string) string {
	return fmt.Sprintf("causeway_fabric_%s{port=%q,fabric=%[2]q}", name, fabricNames[i])
}

// shows waits until a metric of a port has a value.
func (f *fabricsRig) shows(i int, name string, want uint64) {
	f.t.Helper()
	ctx := within(f.t, stepTime)
	for ; ; time.Sleep(pollEvery) {
		m, err := f.bridge.Metrics(ctx)
		if err != nil {
			f.t.Fatal(err)
		}
		if got, there := m[of(i, name)]; there && got == want {
			return
		} else if ctx.Err() != nil {
			f.t.Fatalf("%s is %d, want %d", of(i, name), got, want)
		}
	}
}

// traffic starts numbered messages: from the host to the node and back, and to a group each way. The node has a QP of
// the same number on each fabric, and sends each message to its group on both.
func (f *fabricsRig) traffic() {
	f.t.Helper()
	f.gap = min(time.Duration(f.slow*float64(10*time.Millisecond)), 50*time.Millisecond)
	start := func(g *Guest, args, format string, more ...any) *UDEnd {
		f.t.Helper()
		u, err := g.StartUDEnd(within(f.t, stepTime), args+" "+unicast+" --count 1000000 "+flowsLast+fmt.Sprintf(format, more...))
		if err != nil {
			f.t.Fatal(err)
		}
		f.t.Cleanup(u.Stop)
		return u
	}
	first, second := fabricP.NICs[0].InfiniBand.GUID, fabricP.NICs[1].InfiniBand.GUID
	node := fmt.Sprintf("--dev shca0 --ip %v --netdev ib0 --second shca1,%v,ib1", ib.GIDFromGUID(0xfe80<<48, first), ib.GIDFromGUID(0xfe80<<48, second))
	host := "--ip 10.9.0.1"
	send := fmt.Sprintf("--gap %d ", f.gap.Milliseconds()) + "--to %s --qpn %d %s"
	replier := start(f.p, node, "reply")
	atNode, atHost := start(f.p, node, "--mgid %s recv", groupV4), start(f.a, host, "--mgid %s recv", secondGroup)
	caller := start(f.a, host, send, "10.9.0.7", replier.QPN, "stream")
	fromNode := start(f.p, node, send, secondGroup, 0xffffff, "send")
	f.flows = []*numbered{
		{name: toNode, from: f.a, sender: caller, receiver: replier},
		{name: back, from: f.a, sender: caller, receiver: caller},
		{name: groupToNode, from: f.a, sender: start(f.a, host, send, groupV4, 0xffffff, "send"), receiver: atNode, member: atNode},
		{name: groupToHost, from: f.p, sender: fromNode, receiver: atHost, member: fromNode},
	}
	for _, x := range f.flows {
		x.ordered = math.MaxUint32
		x.begin(f.t)
		x.ordered = x.mark
	}
}

// suffer has something happen under traffic. Afterwards everything goes by one port, and each flow may have lost
// messages for a time; 0: none.
func (f *fabricsRig) suffer(name string, port int, most time.Duration, event func()) {
	f.t.Helper()
	for _, x := range f.flows {
		x.begin(f.t)
	}
	f.moves()
	event()
	f.shows(port, "groups_active", 2)
	f.shows(port, "nodes_active", 1)
	for _, x := range f.flows {
		x.await(f.t, 25)
	}
	bound := most
	if most > 0 {
		bound = stretched(f.t, most, f.e.Guest, f.slow)
	}
	var figures []string
	for _, x := range f.flows {
		lost := x.lost(f.t)
		figures = append(figures, fmt.Sprintf("%s %v", x.name, lost))
		if lost.span() > bound || lost.n > 0 && most == 0 {
			f.t.Errorf("%s: %s: lost %v, want none longer than %v after the first", name, x.name, lost, bound)
		}
	}
	f.answers().ordered = f.answers().mark
	f.proof.measured("%s: lost %s", name, strings.Join(figures, ", "))
}

// loseHalf has the active fabric lose half of everything. The group that comes on both fabrics goes by the other one after
// so many messages as it takes to tell a loss from chance; everything else when an operator prefers that.
func (f *fabricsRig) loseHalf(active, other int) {
	f.t.Helper()
	time.Sleep(2 * time.Second) // hold_down: what has just moved stays
	for _, x := range f.flows {
		x.begin(f.t)
	}
	f.lose(active, 50)
	f.shows(other, "groups_active", 1)
	toHost := f.flows[3]
	moved := toHost.receiver.Received()
	toHost.await(f.t, 25)
	lost := toHost.lost(f.t)
	const seconds, chance = 4, 8 // a window of the judge's, and its slack: ibside/multipath/heard.go
	if most := 2 * (chance + int(seconds*time.Second/f.gap)/10); lost.n > most || lost.n == 0 {
		f.t.Errorf("%s: the fabric loses half, and %v are lost, want up to %d", toHost.name, lost, most)
	}
	f.proof.measured("fabric %s loses half: %s lost %v, of %d", fabricNames[active], toHost.name, lost, moved)
	f.prefer(other)
	f.suffer("everything by the other one, while that fabric loses half", other, 0, func() {})
	f.lose(active, 0)
}

// answers come by the fabric that the question came by, and two fabrics have no common order: while everything moves from one to the
// other, one may overtake another.
func (f *fabricsRig) answers() *numbered { return f.flows[1] }
func (f *fabricsRig) moves()             { f.answers().ordered = math.MaxUint32 }

func (f *fabricsRig) prefer(i int) {
	f.t.Helper()
	f.moves()
	f.must(f.e.Guest, "/tmp/causeway ctl -s /tmp/console.sock port prefer "+fabricNames[i])
}

// replaceSM has another opensm give other LIDs in the active fabric. That is no failure of the fabric, and need not move
// anything: traffic is whole a second after the subnet is, to which the node's own membership belongs.
func (f *fabricsRig) replaceSM(i int) {
	f.t.Helper()
	clocks := map[*Guest]time.Time{f.a: f.a.booted(f.t), f.p: f.p.booted(f.t)}
	for _, x := range f.flows {
		x.begin(f.t)
	}
	f.kill(i)
	f.manage(i, lidELater, lidPLater)
	recovered := time.Now()
	for _, x := range f.flows {
		x.await(f.t, 25)
	}
	bound := stretched(f.t, time.Second, f.e.Guest, f.slow)
	var figures []string
	for _, x := range f.flows {
		from := recovered
		if joined := (&flow{member: x.member}).joined(f.t, clocks[f.p]); joined.After(from) {
			from = joined
		}
		lost := x.lost(f.t)
		after := clocks[x.from].Add(time.Duration(lost.last * float64(time.Second))).Sub(from)
		figures = append(figures, fmt.Sprintf("%s %v", x.name, lost))
		if lost.n > 0 && after > bound {
			f.t.Errorf("another opensm: %s: lost %v, the last one %v after the subnet's recovery, want at most %v", x.name, lost, after, bound)
		}
	}
	f.proof.measured("another opensm gives other LIDs in the active fabric: lost %s", strings.Join(figures, ", "))
}

const (
	lidE, lidP           = 0x11, 0x12
	lidELater, lidPLater = 0x24, 0x31
	mayLose              = 150 * time.Millisecond
)

// TestTwoFabrics has numbered traffic both ways while things happen to one of two fabrics, each with a switch and an
// opensm of its own.
func TestTwoFabrics(t *testing.T) {
	f := newFabricsRig(t)
	f.proof = proves(t, "fourth topology: two InfiniBand fabrics; cables cut, opensm killed and anew, half lost; numbered messages both ways")
	f.slow = f.e.slowness(t.Context())
	for i := range fabricNames {
		f.manage(i, lidE, lidP)
	}
	var stop func()
	f.bridge, stop = startVerbsBridge(t, f.e, twoFabrics)
	defer stop()
	for i := range fabricNames {
		f.shows(i, "groups_missing", 0)
	}
	f.traffic()
	const a, b = 0, 1
	f.suffer("fabric a's cable cut", b, mayLose, func() { f.pull(a, false) })
	f.suffer("and put in again", b, 0, func() {
		f.pull(a, true)
		f.shows(a, "port_up", 1)
		f.shows(a, "groups_missing", 0)
	})
	f.suffer("opensm of the active fabric killed", b, 0, func() {
		f.kill(b)
		f.shows(b, "sm_answers", 0)
	})
	f.suffer("the cable of that fabric cut", a, mayLose, func() { f.pull(b, false) })
	f.suffer("its opensm anew, with other LIDs", a, 0, func() {
		f.pull(b, true)
		f.manage(b, lidELater, lidPLater)
		f.shows(b, "port_up", 1)
		f.shows(b, "groups_missing", 0)
	})
	f.replaceSM(a)
	f.suffer("the other fabric preferred", b, mayLose, func() { f.prefer(b) })
	f.loseHalf(b, a)
	for _, x := range f.flows {
		x.sender.Stop()
	}
	for _, x := range f.flows {
		f.proof.add(x.judged)
		x.numbers(t)
	}
	f.conserved(settled(t, f.bridge))
}

// conserved fails unless the ports' counters are the datapath's: what they took and lost is what workers sent, and what
// they received is what workers took from them.
func (f *fabricsRig) conserved(m Metrics) {
	f.t.Helper()
	var taken, received, standby uint64
	for i := range fabricNames {
		taken += m[of(i, "sent_total")] + m[of(i, "full_total")]
		received += m[of(i, "received_total")]
		standby += m[of(i, "standby_total")]
		f.proof.measured("port %s: sent %d, received %d, of which standby %d", fabricNames[i], m[of(i, "sent_total")], m[of(i, "received_total")], m[of(i, "standby_total")])
	}
	lost := m.Lost(roceToIB)
	if sent := m.Of(roceToIB, "packets_sent_total"); sent != taken+lost["no_way"] {
		f.t.Errorf("workers sent %d, and the ports took or lost %d; lost: %v", sent, taken, lost)
	}
	if got, drops := m.Of(ibToRoCE, "packets_received_total"), m.Drops(ibToRoCE); got != received || drops["standby_port"] != standby {
		f.t.Errorf("workers received %d, and the ports brought %d, %d of them standby; dropped: %v", got, received, standby, drops)
	}
	for i, sw := range fourth.sw {
		if err := untilConserved(f.t, sw); err != nil {
			f.t.Errorf("switch %s: %v", fabricNames[i], err)
		}
	}
}
