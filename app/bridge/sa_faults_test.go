// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"causeway/config"
	"causeway/dpdk"
	"causeway/ibside/fabric"
	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/lcore/frame"
	"causeway/lcore/frame/roce"
)

func init() {
	for kind := range administrators {
		tasks["sa "+kind] = func() (string, error) { return taskAdministrator(kind) }
	}
}

// administrators take the place of the subnet administrator, for a time: each says what becomes of a datagram for it.
var administrators = map[string]func(p *fabric.MADPort, from ib.LID, sl ib.SL, mad []byte){
	"silent": func(*fabric.MADPort, ib.LID, ib.SL, []byte) {},
	"slow": func(p *fabric.MADPort, from ib.LID, sl ib.SL, mad []byte) {
		time.AfterFunc(slowBy, func() { p.Pass(from, sl, mad) })
	},
}

const slowBy = 1500 * time.Millisecond

var (
	steadyNode, movingNode       = netip.MustParseAddr("10.9.0.7"), netip.MustParseAddr("10.9.0.8")
	steadyGUID, movingGUID       = ib.GUID(7), ib.GUID(8)
	steadyNodeQPN, movingNodeQPN = ib.QPN(0x77), ib.QPN(0x78)
)

// administered is a bridge at a subnet with two nodes that echo, one of which moves.
type administered struct {
	*Bridge
	subnet *fabric.Fabric
	steady *fabric.Node
	moving *fabric.Node
	sent   map[netip.Addr]int
	came   map[netip.Addr]map[string]bool
	twice  int

	excused int // messages of the steady node that may be lost
}

func (a *administered) attach(name string, guid ib.GUID, qpn ib.QPN) (*fabric.Node, error) {
	port, err := a.subnet.Attach(fabric.PortConfig{Name: name, GUID: guid})
	if err != nil {
		return nil, err
	}
	return fabric.StartNode(port, fabric.NodeConfig{Name: name, GUID: guid, QPN: qpn, Role: fabric.RoleEcho})
}

// replace has another administrator take the place of the subnet's until end is called.
func (a *administered) replace(administrator func(p *fabric.MADPort, from ib.LID, sl ib.SL, mad []byte)) (end func() error) {
	port := fabric.NewMADPort(a.subnet.SA().HCA(), ib.ClassSA)
	go func() {
		for {
			b := make([]byte, ib.MADLen)
			from, sl, err := port.ReceiveMAD(b)
			if err != nil {
				return
			}
			administrator(port, from, sl, b)
		}
	}()
	return port.Close
}

func (a *administered) lidOf(gid ib.GID) ib.LID {
	for _, p := range a.subnet.Ports() {
		if p.GID == gid {
			return p.LID
		}
	}
	return 0
}

// send sends a message to a node.
func (a *administered) send(to netip.Addr, qpn ib.QPN) error {
	a.sent[to]++
	p := message(a.Bridge, to, qpn, a.sent[to])
	return a.enter(p.AppendTo(nil))
}

// take takes the answers that there are.
func (a *administered) take() {
	var m [1]dpdk.Mbuf
	for a.ethernet[0].port.RingPort().FromPort(0).Dequeue(m[:]) == 1 {
		x := append([]byte(nil), m[0].Bytes()...)
		m[0].Free()
		if f, fault := frame.Open(x); fault != "" || f.IPv4 == nil || f.Protocol() != frame.ProtoUDP {
			continue
		}
		if p, err := roce.Parse(x); err == nil {
			if a.came[p.SrcIP][string(p.Payload)] {
				a.twice++
			}
			a.came[p.SrcIP][string(p.Payload)] = true
		}
	}
}

// crossing sends messages to the steady node, of which none may be lost, while done is false.
func (a *administered) crossing(what string, done func() (bool, error)) error {
	for end := time.Now().Add(45 * time.Second); ; {
		for range 10 {
			if err := a.send(steadyNode, steadyNodeQPN); err != nil {
				return err
			}
		}
		for a.take(); len(a.came[steadyNode])+a.excused < a.sent[steadyNode]; a.take() {
			if time.Now().After(end) {
				return fmt.Errorf("%s: of %d messages to a node that nothing has happened to, %d came back", what, a.sent[steadyNode], len(a.came[steadyNode]))
			}
			time.Sleep(time.Millisecond)
		}
		if is, err := done(); is || err != nil {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s: not in time; %+v; status %+v", what, a.Counters().Direction, a.Status())
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// reached sends to the moving node until an answer comes.
func (a *administered) reached() (bool, error) {
	if before := len(a.came[movingNode]); before < a.sent[movingNode] {
		time.Sleep(20 * time.Millisecond)
	}
	was := len(a.came[movingNode])
	if err := a.send(movingNode, movingNodeQPN); err != nil {
		return false, err
	}
	for range 100 {
		if a.take(); len(a.came[movingNode]) > was {
			return true, nil
		}
		time.Sleep(time.Millisecond)
	}
	return false, nil
}

// knows returns where the bridge's tables have the moving node.
func (a *administered) knows() ib.LID {
	n, _ := a.Tables().Node(movingNode)
	return n.LID
}

// administer builds a bridge with two nodes, has f do something while it runs, and checks that nothing came twice, and
// that what was lost was lost on the subnet, or dropped by the bridge by a name.
func administer(more string, before func(a *administered) error, f func(a *administered) (string, error)) (said string, err error) {
	subnet, err := fabric.New(fabric.Config{})
	if err != nil {
		return "", err
	}
	defer subnet.Close()
	cfg, err := config.Parse("bridge", []byte(bridgeFile+"[[host]]\nip = \"10.9.0.8\"\nside = \"ib\"\ngid = \"fe80::8\"\n"+more))
	if err != nil {
		return "", err
	}
	a := &administered{subnet: subnet, sent: map[netip.Addr]int{}, came: map[netip.Addr]map[string]bool{steadyNode: {}, movingNode: {}}}
	if a.steady, err = a.attach("steady", steadyGUID, steadyNodeQPN); err != nil {
		return "", err
	}
	defer a.steady.Close()
	if a.moving, err = a.attach("moving", movingGUID, movingNodeQPN); err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, a.moving.Close()) }()
	if err := before(a); err != nil {
		return "", err
	}
	if a.Bridge, err = Build(cfg, Options{Log: slog.New(slog.DiscardHandler), NoHuge: true, Subnet: subnet}); err != nil {
		return "", err
	}
	err = running(a.Bridge, func() error {
		said, err = f(a)
		return err
	})
	return said + fmt.Sprintf("; sent %v, lost %d, of them answers dropped %d %v", a.sent, a.lost(), a.unanswered(),
		a.Counters().Direction[lcore.IBToRoCE].Drops), errors.Join(err, a.counted())
}

// lost is what the subnet lost: for a LID that nobody has, and for one whose port has no such queue pair. And what the
// bridge dropped of what came back: the node's answers while it is not told whose their LID is.
func (a *administered) lost() int {
	sw, _ := a.subnet.Stats()
	n := sw.Drops[fabric.DropNoRoute]
	for _, hca := range []*fabric.HCA{a.subnet.SA().HCA(), a.steady.HCA()} {
		n += hca.Stats().Drops[fabric.DropNoQP]
	}
	return int(n) + int(a.unanswered())
}

// unanswered is how many answers the bridge dropped.
func (a *administered) unanswered() (n uint64) {
	for _, drops := range a.Counters().Direction[lcore.IBToRoCE].Drops {
		n += drops
	}
	return n
}

// settle takes what is still under way.
func (a *administered) settle() {
	for end := time.Now().Add(5 * time.Second); a.missing() != a.lost() && time.Now().Before(end); time.Sleep(time.Millisecond) {
		a.take()
	}
}

// missing is how many messages have not come back.
func (a *administered) missing() int {
	return a.sent[movingNode] - len(a.came[movingNode]) + a.sent[steadyNode] - len(a.came[steadyNode])
}

// counted compares what was sent with what the bridge, the nodes and the subnet have counted.
func (a *administered) counted() error {
	c, total := a.Counters(), 0
	exceeded, _ := lcore.DropNamed("mtu_exceeded")
	for _, n := range a.sent {
		total += n
	}
	in := &c.Direction[lcore.RoCEToIB]
	var err error
	if a.twice > 0 || in.Sent+in.Drops[exceeded] != uint64(total) || in.Received != uint64(total) {
		err = fmt.Errorf("%d came twice; sent %v; the bridge counted %+v", a.twice, a.sent, c.Direction)
	}
	return err
}

// taskAdministrator has a node come back at another LID while the subnet administrator is silent or slow.
func taskAdministrator(kind string) (string, error) {
	return administer("", nobodyElse, func(a *administered) (string, error) {
		said, err := a.misled(kind)
		if a.settle(); a.missing() != a.lost() {
			err = errors.Join(err, fmt.Errorf("of %v sent, %d have not come back, and the subnet and the bridge have lost %d", a.sent, a.missing(), a.lost()))
		}
		return said, err
	})
}

func nobodyElse(*administered) error { return nil }

// move has the node come back at another LID.
func (a *administered) move() (err error) {
	if err := a.moving.Close(); err != nil {
		return err
	}
	a.moving, err = a.attach("moving", movingGUID, movingNodeQPN)
	return err
}

// misled moves the node under a false administrator, and waits until messages reach it.
func (a *administered) misled(kind string) (string, error) {
	if err := a.crossing("at first", a.reached); err != nil {
		return "", err
	}
	end := a.replace(administrators[kind])
	if err := a.move(); err != nil {
		return "", err
	}
	began, was := time.Now(), a.lidOf(ib.GIDFromGUID(fabric.PrefixLinkLocal, movingGUID))
	err := a.crossing("with an administrator that is "+kind, func() (bool, error) {
		arrives, err := a.reached()
		if kind == "silent" {
			return time.Since(began) > 3*time.Second, err
		}
		return arrives && a.knows() == was, err
	})
	if kind == "slow" && err == nil {
		if took := time.Since(began); took < time.Second {
			err = fmt.Errorf("a slow administrator's answer was there after %v", took)
		}
	}
	if err := errors.Join(err, end()); err != nil {
		return "", err
	}
	began = time.Now()
	if err := a.crossing("with the true administrator", a.reached); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s: reached %v after the end", kind, time.Since(began).Round(time.Millisecond)), nil
}

// TestSubnetAdministrator checks that a subnet administrator that is silent or slow costs messages of no other node
// than the one that has moved, that these are counted, and that they arrive when it answers.
func TestSubnetAdministrator(t *testing.T) {
	t.Parallel()
	for kind := range administrators {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			text, err := task(t, "sa "+kind)
			if err != nil {
				t.Fatal(err)
			}
			t.Log(strings.TrimSpace(text))
		})
	}
}
