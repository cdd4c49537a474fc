// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"causeway/config"
	"causeway/dpdk"
	"causeway/ibside/fabric"
	"causeway/ibside/ib"
	"causeway/ibside/stamp"
	"causeway/lcore"
	"causeway/lcore/frame"
	"causeway/lcore/frame/roce"
)

func init() { tasks["fabrics"] = taskFabrics }

// TestFabrics: numbered traffic both ways over two software subnets, while something happens to the active one. One
// message a millisecond: what is lost tells how long it took.
func TestFabrics(t *testing.T) {
	t.Parallel()
	for _, event := range []string{"cut", "silent", "half", "moved", "prefer", "both", "both-imm", "far", "stranger"} {
		t.Run(event, func(t *testing.T) {
			t.Parallel()
			logTask(t, "fabrics", "EVENT="+event)
		})
	}
}

const fabricsFile = `[[ib]]
name = "a"
port = "fabric:"
[[ib]]
name = "b"
port = "fabric:"
pkey = 0x8001
`

const fabricsRest = `[fabrics]
hold_down = 1
`

// bridgeGUID is bridgeGUIDText.
const bridgeGUID = ib.GUID(0x9edc3637e7ce0390)

var (
	fabricsGroup = netip.MustParseAddr("239.1.2.3")
	fabricsPKeys = []ib.PKey{ib.PKeyDefault, 0x8001}
)

// twoFabrics is a bridge on two subnets, a node that has a port on each, and a host.
type twoFabrics struct {
	*Bridge
	far     bool // the first subnet is attached to as another process's
	subnets []*fabric.Fabric
	ends    []*fabricsEnd
	others  []*fabricsEnd // that no [[host]] has, and that send to the group, too
	toRoCE  uint64
	toIB    uint64
	atHost  []uint64
	atNode  []uint64
	by      [2]stamp.Sequence // what has come to the node by each of its ports
	answers int
	asked   int
}

// fabricsEnd is one of the node's ports.
type fabricsEnd struct {
	hca   *fabric.HCA
	qp    *fabric.QP
	recv  *fabric.RecvQueue
	group ib.MCMemberFields
}

func fabricsGUID(i int) ib.GUID { return ib.GUID(7 + 0x100*i) }

func fabricsMGID(i int) ib.GID { return ib.MGIDRDMACM(fabricsGroup, fabricsPKeys[i], 2) }

func newFabricsEnd(f *fabric.Fabric, i int, guid ib.GUID) (*fabricsEnd, error) {
	port, err := f.Attach(fabric.PortConfig{Name: fmt.Sprint("node ", guid), GUID: guid})
	if err != nil {
		return nil, err
	}
	e := &fabricsEnd{hca: fabric.NewHCA(port), recv: fabric.NewRecvQueue(1 << 14)}
	if e.qp, err = e.hca.CreateQP(fabric.QPConfig{QPN: 0x77, QKey: ib.QKeyRDMAUDP, Recv: e.recv}); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	e.group, err = fabric.NewSAClient(e.hca).Join(ctx, ib.MCMemberFields{MGID: fabricsMGID(i), QKey: ib.QKeyRDMAUDP, PKey: fabricsPKeys[i], JoinState: ib.JoinFull})
	if err != nil {
		return nil, err
	}
	return e, e.qp.AttachMulticast(fabricsMGID(i))
}

func (e *fabricsEnd) publish(number uint64) {
	e.qp.Send(&fabric.Send{AH: fabric.AH{DLID: e.group.MLID, GRH: &ib.GRHFields{DGID: e.group.MGID}}, DestQP: ib.QPMulticast,
		QKey: ib.QKeyRDMAUDP, Payload: stamp.Message(number, 100), Imm: uint32(number), HasImm: true})
}

// others is the number before those of others' messages.
const others = 1 << 31

// take takes what has come to the node. It answers what came to itself alone.
func (x *twoFabrics) take(e *fabricsEnd) {
	var burst [64]fabric.Received
	for {
		n := e.recv.Poll(burst[:])
		for _, r := range burst[:n] {
			s, _ := stamp.Read(r.Payload)
			switch {
			case s.Number >= others: // the node is a member, too
			case r.MGID().IsMulticast():
				x.atNode = append(x.atNode, s.Number)
				x.by[slices.Index(x.ends, e)].Note(s.Number)
			default:
				e.qp.Send(&fabric.Send{AH: fabric.AH{DLID: r.SLID}, DestQP: r.SrcQP, QKey: ib.QKeyRDMAUDP, Payload: r.Payload})
			}
		}
		if n == 0 {
			return
		}
	}
}

// takeHost takes what has come to the host.
func (x *twoFabrics) takeHost() error {
	var m [1]dpdk.Mbuf
	for x.ethernet[0].port.RingPort().FromPort(0).Dequeue(m[:]) == 1 {
		b := append([]byte(nil), m[0].Bytes()...)
		m[0].Free()
		if f, fault := frame.Open(b); fault != "" || f.IPv4 == nil || f.Protocol() != frame.ProtoUDP {
			continue
		}
		p, err := roce.Parse(b)
		if err != nil {
			return err
		}
		s, verdict := stamp.Read(p.Payload)
		switch {
		case verdict != stamp.Whole || p.SrcIP != nodeIP || p.SrcQP != 0x77:
			return fmt.Errorf("the host got %+v", p)
		case p.DstIP == fabricsGroup:
			x.atHost = append(x.atHost, s.Number)
		default:
			x.answers++
		}
	}
	return nil
}

// cross has traffic both ways for a time, one message a millisecond each way, and to the node each tenth.
func (x *twoFabrics) cross(d time.Duration) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(d); time.Now().Before(end); <-tick.C {
		x.toRoCE++
		x.toIB++
		for _, e := range x.ends {
			e.publish(x.toRoCE)
		}
		for _, e := range x.others {
			e.publish(others + x.toRoCE)
		}
		p := message(x.Bridge, fabricsGroup, ib.QPMulticast, int(x.toIB))
		if err := x.enter(p.AppendTo(nil)); err != nil {
			return err
		}
		if x.toIB%10 == 0 {
			x.asked++
			q := message(x.Bridge, nodeIP, 0x77, x.asked)
			if err := x.enter(q.AppendTo(nil)); err != nil {
				return err
			}
		}
		for _, e := range x.ends {
			x.take(e)
		}
		if err := x.takeHost(); err != nil {
			return err
		}
	}
	return nil
}

// meet has the host's queue pair get its proxy QP: meanwhile later messages may overtake the first.
func (x *twoFabrics) meet() error {
	x.toIB++
	p := message(x.Bridge, fabricsGroup, ib.QPMulticast, int(x.toIB))
	if err := x.enter(p.AppendTo(nil)); err != nil {
		return err
	}
	for end := time.Now().Add(10 * time.Second); len(x.atNode) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return errors.New("the node has not got the host's first message")
		}
		for _, e := range x.ends {
			x.take(e)
		}
	}
	return nil
}

// settle takes what is still under way.
func (x *twoFabrics) settle() error {
	for range 50 {
		time.Sleep(2 * time.Millisecond)
		for _, e := range x.ends {
			x.take(e)
		}
		if err := x.takeHost(); err != nil {
			return err
		}
	}
	return nil
}

// build makes the subnets, the node's ports, and the bridge, whose configuration ends with rest. end closes what is there.
func (x *twoFabrics) build(rest string) (end func(), err error) {
	var ends []func() error
	end = func() {
		for _, f := range slices.Backward(ends) {
			_ = f() // a port may have been closed by the test
		}
	}
	var socket string
	if x.far {
		dir, err := os.MkdirTemp("", "far")
		if err != nil {
			return end, err
		}
		ends = append(ends, func() error { return os.RemoveAll(dir) })
		socket = filepath.Join(dir, "subnet.sock")
	}
	for i := range fabricsPKeys {
		f, err := fabric.New(fabric.Config{PKeys: []ib.PKey{fabricsPKeys[i]}, Socket: map[int]string{0: socket}[i]})
		if err != nil {
			return end, err
		}
		ends = append(ends, f.Close)
		e, err := newFabricsEnd(f, i, fabricsGUID(i))
		if err != nil {
			return end, err
		}
		ends = append(ends, e.hca.Close)
		x.subnets, x.ends = append(x.subnets, f), append(x.ends, e)
	}
	file := strings.Replace(bridgeFile, "[ib]\nport = \"fabric:\"\npkey = 0xffff\n", fabricsFile, 1)
	file = strings.Replace(file, `gid = "fe80::7"`, "gid = \"fe80::7\"\nmore_gids = [\"fe80::107\"]", 1) + rest
	subnets := slices.Clone(x.subnets)
	if x.far {
		file, subnets[0] = strings.Replace(file, `"fabric:"`, fmt.Sprintf("%q", "fabric:"+socket), 1), nil
	}
	cfg, err := config.Parse("bridge", []byte(file))
	if err != nil {
		return end, fmt.Errorf("the test's own configuration: %w", err)
	}
	x.Bridge, err = Build(cfg, Options{Log: slog.New(slog.DiscardHandler), NoHuge: true, Subnet: subnets[0], MoreSubnets: subnets[1:]})
	return end, err
}

func taskFabrics() (said string, err error) {
	event := os.Getenv("EVENT")
	x := &twoFabrics{far: event == "far"}
	end, err := x.build(fabricsRest + map[string]string{"both": "mode = \"both\"\n", "both-imm": "mode = \"both\"\ndedup = \"imm\"\n"}[event])
	defer end()
	if err != nil {
		return "", err
	}
	err = running(x.Bridge, func() error {
		if err := errors.Join(x.meet(), x.cross(300*time.Millisecond)); err != nil {
			return err
		}
		if err := x.happen(event); err != nil {
			return err
		}
		if err := x.cross(time.Second); err != nil {
			return err
		}
		return errors.Join(x.settle(), x.isActive(fabricAfter[event]), x.balances())
	})
	return fmt.Sprintf("%s; drops %v", x.sums(), x.Counters().Direction[lcore.IBToRoCE].Drops), errors.Join(err, x.check(event))
}

// fabricAfter is the fabric that carries everything after an event, if not the first.
var fabricAfter = map[string]int{"cut": 1, "half": 1, "prefer": 1, "far": 1}

func (x *twoFabrics) happen(event string) error {
	switch event {
	case "cut":
		return x.subnets[0].Cut(bridgeGUID, true)
	case "far":
		return x.subnets[0].Close()
	case "silent":
		fabric.NewMADPort(x.subnets[0].SA().HCA(), ib.ClassSA)
	case "half":
		x.subnets[0].Lose(0.5)
	case "prefer":
		return x.PreferPort("b")
	case "moved":
		old := x.ends[0]
		if err := old.hca.Close(); err != nil {
			return err
		}
		e, err := newFabricsEnd(x.subnets[0], 0, fabricsGUID(0))
		x.ends[0] = e
		return err
	case "stranger":
		e, err := newFabricsEnd(x.subnets[1], 1, 0x999)
		x.others = append(x.others, e)
		return err
	}
	return nil
}

// isActive checks which port carries the group.
func (x *twoFabrics) isActive(port int) error {
	all := x.Fabrics()
	if all[port].ActiveGroups != 1 || all[0].Missing+all[1].Missing != 0 {
		return fmt.Errorf("port %d is not active: %+v", port, all)
	}
	return nil
}

// balances compares the ports' counters with the datapath's.
func (x *twoFabrics) balances() error {
	var posted, received, standby, duplicate uint64
	for _, f := range x.Fabrics() {
		if f.Counters.Posted != f.Counters.Sent+f.Counters.Full {
			return fmt.Errorf("port %s: %+v", f.Name, f.Counters)
		}
		posted += f.Counters.Posted
		received += f.Counters.Received
		standby += f.Counters.Standby
		duplicate += f.Counters.Duplicate
	}
	c := x.Counters()
	in, out := &c.Direction[lcore.RoCEToIB], &c.Direction[lcore.IBToRoCE]
	standbyPort, _ := lcore.DropNamed("standby_port")
	duplicates, _ := lcore.DropNamed("duplicate")
	lost := x.Lost()[lcore.RoCEToIB]
	if cfg := x.Config(); cfg.Fabrics.Mode == config.FabricsActive && in.Sent != posted+lost["no_way"] ||
		out.Received != received || out.Drops[standbyPort] != standby || out.Drops[duplicates] != duplicate {
		return fmt.Errorf("the ports count %+v, and the datapath %+v", x.Fabrics(), c.Direction)
	}
	return nil
}

func (x *twoFabrics) sums() string {
	return fmt.Sprintf("to RoCE %d of %d, to IB %d of %d, answers %d of %d", len(x.atHost), x.toRoCE, len(x.atNode), x.toIB, x.answers, x.asked)
}

// check checks that nothing was doubled or out of order, and that losses are within the bounds. What changes from one fabric to the
// other may be overtaken on its way to the node, because two fabrics have no common order: each has its own.
func (x *twoFabrics) check(event string) error {
	most := map[string][3]uint64{"cut": {150, 150, 20}, "far": {150, 150, 20}, "half": {150, 150, 130}, "prefer": {30, 0, 0}, "moved": {30, 30, 130}}[event]
	var errs []error
	for k, got := range [][]uint64{x.atHost, x.atNode} {
		var s stamp.Sequence
		for _, n := range got {
			s.Note(n)
		}
		sent, disorder := []uint64{x.toRoCE, x.toIB}[k], s.Reordered+s.Old
		if k == 1 && fabricAfter[event] != 0 {
			disorder = x.by[0].Reordered + x.by[0].Old + x.by[1].Reordered + x.by[1].Old
		}
		copies := map[string][2]uint64{"both": {sent, sent}, "both-imm": {0, sent}}[event][k]
		if s.Duplicates != copies || event[0] != 'b' && disorder != 0 || sent-s.Unique > most[k] {
			errs = append(errs, fmt.Errorf("way %d: of %d came %d, %d doubled, %d out of order; may lose %d", k, sent, s.Unique, s.Duplicates, disorder, most[k]))
		}
	}
	if lost := x.asked - x.answers; lost > int(most[2]) {
		errs = append(errs, fmt.Errorf("%d of %d answers are missing", lost, x.asked))
	}
	return errors.Join(errs...)
}
