// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"causeway/config"
	"causeway/ibside/fabric"
	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/lcore/frame"
	"causeway/lcore/frame/roce"
	"causeway/lcore/manage"
)

func init() { tasks["segments"] = taskSegments }

// Two VLANs of one port, with the same addresses, each a partition: nodes 7 and 8 echo, each in its own. The spy is in
// both, and configured for the first.
const (
	segmentVLAN               = 200
	segmentPKey1, segmentPKey = ib.PKey(0x8001), ib.PKey(0x8002)

	segmentsFile = `[[roce]]
port = "ring"
addresses = ["10.9.0.254/24"]
mtu = 4200
pkey = 0x8001
[[roce]]
port = "ring"
vlan = 200
addresses = ["10.9.0.254/24"]
mtu = 4200
pkey = 0x8002
[ib]
port = "fabric:"
[workers]
lcores = [0]
idle = "sleep"
memory_mib = 64
mbufs = 2048
[policy]
allow = ["10.9.0.0/24"]
[[host]]
ip = "10.9.0.7"
side = "ib"
gid = "fe80::7"
pkey = 0x8001
[[host]]
ip = "10.9.0.8"
side = "ib"
gid = "fe80::8"
pkey = 0x8002
[[host]]
ip = "10.9.0.9"
side = "ib"
gid = "fe80::9"
pkey = 0x8001
[[group]]
ip = "239.1.2.3"
pkey = 0x8001
[[group]]
ip = "239.1.2.3"
pkey = 0x8002
`
)

var (
	node2IP = netip.MustParseAddr("10.9.0.8")
	groupIP = netip.MustParseAddr("239.1.2.3")
)

// onSegment puts a packet on the second segment.
func onSegment(p roce.Packet) roce.Packet {
	p.Tag = &frame.VLANFields{VID: segmentVLAN}
	return p
}

// echoIn attaches an echo to the subnet that is in one partition.
func echoIn(f *fabric.Fabric, guid ib.GUID, k ib.PKey) (*fabric.Node, error) {
	port, err := f.Attach(fabric.PortConfig{Name: fmt.Sprint("echo", guid), GUID: guid, PKeys: []ib.PKey{k}})
	if err != nil {
		return nil, err
	}
	return fabric.StartNode(port, fabric.NodeConfig{Name: fmt.Sprint("echo", guid), GUID: guid, QPN: 0x77, Role: fabric.RoleEcho})
}

// segmented is a bridge of two segments, with an echo in the partition of each, and a port that spies in both.
type segmented struct {
	*Bridge
	spy  *fabric.HCA
	ends []func() error
}

func newSegmented(text string, o Options) (*segmented, error) {
	cfg, err := config.Parse("bridge", []byte(text))
	if err != nil {
		return nil, err
	}
	return newSegmentedBy(cfg, o)
}

func newSegmentedBy(cfg *config.Config, o Options) (*segmented, error) {
	f, err := fabric.New(fabric.Config{PKeys: []ib.PKey{ib.PKeyDefault, segmentPKey1, segmentPKey}})
	if err != nil {
		return nil, err
	}
	first, err1 := echoIn(f, 7, segmentPKey1)
	second, err2 := echoIn(f, 8, segmentPKey)
	port, err3 := f.Attach(fabric.PortConfig{Name: "spy", GUID: 9, PKeys: []ib.PKey{segmentPKey1, segmentPKey}})
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	o.Log, o.NoHuge, o.Subnet = slog.New(slog.DiscardHandler), true, f
	h, err := Build(cfg, o)
	spy := fabric.NewHCA(port)
	return &segmented{h, spy, []func() error{first.Close, second.Close, spy.Close, f.Close}}, err
}

// run runs the bridge for do, and then ends all.
func (x *segmented) run(do func() error) error {
	err := running(x.Bridge, do)
	for _, end := range x.ends {
		err = errors.Join(err, end())
	}
	return err
}

// taskSegments has hosts of the same address talk to the nodes of their partitions, and tries to cross.
func taskSegments() (string, error) {
	x, err := newSegmented(segmentsFile, Options{})
	if err != nil {
		return "", err
	}
	return "nothing crossed", x.run(func() error {
		if err := errors.Join(x.sameAddresses(), x.noneCrosses()); err != nil {
			return err
		}
		return x.spied(x.spy)
	})
}

// sameAddresses exchanges messages with both nodes: what one segment's host sends, it alone gets back.
func (b *Bridge) sameAddresses() error {
	for n := 1; n <= 50; n++ {
		p, q := message(b, nodeIP, 0x77, 2*n), onSegment(message(b, node2IP, 0x77, 2*n+1))
		if err := b.enter(p.AppendTo(nil), q.AppendTo(nil)); err != nil {
			return err
		}
		answers, err := b.leave(2)
		if err != nil {
			return err
		}
		for _, a := range answers {
			from, tagged := nodeIP, a.Tag != nil
			if tagged {
				from = node2IP
			}
			if a.SrcIP != from || a.DestQP != 0x55 || a.DstIP != hostIP || tagged && a.Tag.VID != segmentVLAN {
				return fmt.Errorf("an answer is %+v", a)
			}
		}
		if (answers[0].Tag == nil) == (answers[1].Tag == nil) {
			return fmt.Errorf("both answers are for one segment: %+v", answers)
		}
	}
	list, err := b.ListProxyQPs(context.Background(), manage.Query{})
	if err != nil || len(list.Entries) != 2 || list.Entries[0].PKey != segmentPKey1 || list.Entries[1].PKey != segmentPKey {
		return fmt.Errorf("proxy QPs: %+v, %w", list.Entries, err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		s := b.Status().Segments // some time ago
		if len(s) == 2 && s[0].Hosts == 1 && s[1].Hosts == 1 && s[0].Groups == 1 && s[1].Groups == 1 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("segments: %+v", s)
		}
	}
}

// noneCrosses sends to nodes of the other partition, and to the same group from both.
func (b *Bridge) noneCrosses() error {
	before := b.Counters().Direction[lcore.RoCEToIB]
	p, q := message(b, node2IP, 0x77, 1001), onSegment(message(b, nodeIP, 0x77, 1002))
	toGroup := message(b, groupIP, ib.QPMulticast, 1003)
	if err := b.enter(p.AppendTo(nil), q.AppendTo(nil), toGroup.AppendTo(nil)); err != nil {
		return err
	}
	wrong, _ := lcore.DropNamed("wrong_partition")
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		after := b.Counters().Direction[lcore.RoCEToIB]
		if after.Received-before.Received >= 3 && after.Conserved() {
			if n := after.Drops[wrong] - before.Drops[wrong]; n != 2 || after.Sent-before.Sent != 1 {
				return fmt.Errorf("%d of 2 were dropped by wrong_partition, %d sent: %+v", n, after.Sent-before.Sent, after)
			}
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("counted %+v", after)
		}
	}
}

// spied has a node of both partitions, which is configured for the first, send to the host of the second; and one of
// the first name the second's proxy QP.
func (b *Bridge) spied(spy *fabric.HCA) error {
	list, err := b.ListProxyQPs(context.Background(), manage.Query{})
	if err != nil {
		return err
	}
	to := map[ib.PKey]ib.QPN{}
	for _, x := range list.Entries {
		to[x.PKey] = x.QPN
	}
	var qps [2]*fabric.QP
	for i := range qps {
		if qps[i], err = spy.CreateQP(fabric.QPConfig{QKey: ib.QKeyRDMAUDP, PKeyIndex: uint16(i), Recv: fabric.NewRecvQueue(8)}); err != nil {
			return err
		}
	}
	send := func(qp *fabric.QP, k ib.PKey) string {
		return qp.Send(&fabric.Send{AH: fabric.AH{DLID: b.ibPort.Own().LID}, DestQP: to[k], QKey: ib.QKeyRDMAUDP, Payload: []byte(strings.Repeat("x", 200))})
	}
	before := b.Counters().Direction[lcore.IBToRoCE]
	if why := send(qps[0], segmentPKey) + send(qps[1], segmentPKey) + send(qps[0], segmentPKey1); why != "" {
		return fmt.Errorf("not sent: %s", why)
	}
	got, err := b.leave(1)
	if err != nil || got[0].Tag != nil {
		return fmt.Errorf("%w: %+v", err, got)
	}
	after := b.Counters().Direction[lcore.IBToRoCE]
	wrong, _ := lcore.DropNamed("wrong_partition")
	if after.Drops[wrong]-before.Drops[wrong] != 1 || after.Received-before.Received != 2 || after.Sent-before.Sent != 1 {
		return fmt.Errorf("the HCA drops the first by its P_Key, the bridge the second: %+v", after)
	}
	return nil
}

func TestSegments(t *testing.T) { logTask(t, "segments") }
