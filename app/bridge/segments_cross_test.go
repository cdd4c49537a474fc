// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"causeway/app/trace"
	"causeway/config"
	"causeway/dpdk"
	"causeway/ibside/fabric"
	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/lcore/dryrun"
	"causeway/lcore/frame"
	"causeway/lcore/frame/roce"
)

func init() { tasks["segments-cross"] = taskSegmentsCross }

// taskSegmentsCross has hosts of one address in two segments ask for services and be asked, exchange messages while
// faults are injected, and be served while the other segment floods. Whatever comes to a segment names its own node.
func taskSegmentsCross() (string, error) {
	f, err := fabric.New(fabric.Config{PKeys: []ib.PKey{ib.PKeyDefault, segmentPKey1, segmentPKey}})
	if err != nil {
		return "", err
	}
	text := segmentsFile + fmt.Sprintf("[[service]]\nport = %d\n", floodPort)
	for _, vlan := range []int{0, segmentVLAN} {
		text += fmt.Sprintf("[[host]]\nip = \"10.9.0.1\"\nside = \"roce\"\nmac = \"02:00:00:00:00:01\"\nvlan = %d\n", vlan)
	}
	text = strings.Replace(text, "[[host]]\nip = \"10.9.0.9\"\nside = \"ib\"\ngid = \"fe80::9\"\npkey = 0x8001\n", "", 1) // the spy is not here
	cfg, err := config.Parse("bridge", []byte(strings.Replace(text, "mbufs = 2048", "mbufs = 4096", 1)))
	if err != nil {
		return "", err
	}
	h, err := Build(cfg, Options{Log: slog.New(slog.DiscardHandler), NoHuge: true, Subnet: f})
	if err != nil {
		return "", err
	}
	x := &crossing{Bridge: h}
	err = errors.Join(x.attach(f, 0, 7, segmentPKey1), x.attach(f, 1, 8, segmentPKey))
	if err == nil {
		err = running(h, func() error {
			return errors.Join(x.hostsAsk(), x.nodesAsk(), x.withFaults(), x.explained(), x.flooded())
		})
	}
	for _, end := range x.ends {
		err = errors.Join(err, end())
	}
	return "nothing crossed", errors.Join(err, f.Close())
}

// A crossing is a bridge of two segments, with a node in each partition that echoes and serves.
type crossing struct {
	*Bridge
	cm    [2]*fabric.CM
	qps   [2]*fabric.QP
	ends  []func() error
	mu    sync.Mutex
	asked [2][]*fabric.CMRequest
}

// attach attaches the node of a partition.
func (x *crossing) attach(f *fabric.Fabric, n int, guid ib.GUID, k ib.PKey) error {
	port, err := f.Attach(fabric.PortConfig{Name: fmt.Sprint("node", n), GUID: guid, PKeys: []ib.PKey{k}})
	if err != nil {
		return err
	}
	hca := fabric.NewHCA(port)
	x.cm[n] = fabric.NewCM(hca, fabric.CMConfig{})
	x.ends = append(x.ends, func() error { x.cm[n].Close(); return hca.Close() })
	recv := fabric.NewRecvQueue(256)
	if x.qps[n], err = hca.CreateQP(fabric.QPConfig{QPN: 0x77, QKey: ib.QKeyRDMAUDP, Recv: recv}); err != nil {
		return err
	}
	go x.echo(n, recv)
	return x.cm[n].Serve([]fabric.CMPorts{{First: floodPort, Last: floodPort}}, func(r *fabric.CMRequest) {
		x.mu.Lock()
		x.asked[n] = append(x.asked[n], r)
		x.mu.Unlock()
		_ = r.Accept(serverQPN(n), ib.QKeyRDMAUDP, []byte{byte(n)}) // fails only when the test is over
	})
}

// echo sends back what a node receives, with its number as the first byte, until the node is closed.
func (x *crossing) echo(n int, recv *fabric.RecvQueue) {
	var got [16]fabric.Received
	for recv.Wait(context.Background()) == nil {
		for _, r := range got[:recv.Poll(got[:])] {
			payload := append([]byte{byte(n)}, r.Payload[1:]...)
			if x.qps[n].Send(&fabric.Send{AH: fabric.AH{DLID: r.SLID}, DestQP: r.SrcQP, QKey: ib.QKeyRDMAUDP, Payload: payload}) == fabric.DropPortClosed {
				return
			}
		}
	}
}

// tagOf returns the number of the segment that a frame is on; negative: none's.
func tagOf(p *roce.Packet) int {
	switch {
	case p.Tag == nil:
		return 0
	case p.Tag.VID == segmentVLAN:
		return 1
	}
	return -1
}

// hostsAsk has the host of each segment ask both nodes: its own answers, the other is never asked.
func (x *crossing) hostsAsk() error {
	for n, node := range []string{"10.9.0.7", "10.9.0.8"} {
		for in := range 2 {
			p := sidrPacket(x.Bridge, 10*in+n, node)
			if in == 1 {
				p = onSegment(p)
			}
			if err := x.enter(p.AppendTo(nil)); err != nil {
				return err
			}
		}
		answered := false
		err := x.until(func() bool { return answered }, func(p *roce.Packet, mad ib.MAD) error {
			rep, ok := ib.AsSIDRRep(p.Payload[ib.MADHdrLen:])
			answered = true
			if !ok || rep.Status() != ib.SIDRStatusOK || rep.QPN() != serverQPN(n) || tagOf(p) != n || p.SrcIP.String() != node || rep.Private()[0] != byte(n) {
				return fmt.Errorf("node %d is to answer its host, and %v on VLAN %+v has %+v", n, p.SrcIP, p.Tag, rep.Fields())
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for n, k := range []ib.PKey{segmentPKey1, segmentPKey} {
		if a := x.asked[n]; len(a) != 1 || a[0].PKey != k {
			return fmt.Errorf("node %d was asked %d times: %+v", n, len(a), a)
		}
	}
	return nil
}

// sidrPacket is a request of the host's for the service of a node.
func sidrPacket(b *Bridge, id int, node string) roce.Packet {
	p, err := roce.Parse(sidrFrame(b, id, hostIP))
	if err != nil {
		panic(err)
	}
	p.DstIP = netip.MustParseAddr(node)
	req, _ := ib.AsSIDRReq(p.Payload[ib.MADHdrLen:])
	ib.PutCMAHeader(req.Private(), ib.CMAFields{SrcPort: uint16(id), Src: hostIP, Dst: p.DstIP})
	return p
}

// nodesAsk has each node ask for the host's service: the host of its segment is asked. A request that names the other
// partition, or comes from the other's node by its address, is rejected, and no host is asked.
func (x *crossing) nodesAsk() error {
	nodes := [2]string{"10.9.0.7", "10.9.0.8"}
	for n := range nodes {
		for _, from := range []int{n, 1 - n} {
			ended := make(chan error, 1)
			go func() {
				ctx, stop := context.WithTimeout(context.Background(), time.Minute)
				defer stop()
				_, err := x.cm[n].Connect(ctx, fabric.CMConnect{Route: fabric.MADAddress{LID: x.ibPort.Own().LID}, From: netip.MustParseAddr(nodes[from]), To: hostIP, FromPort: 5, Port: floodPort})
				ended <- err
			}()
			asked := 0
			err := x.until(func() bool { return len(ended) > 0 }, func(p *roce.Packet, mad ib.MAD) error {
				asked++
				if tagOf(p) != n || p.SrcIP.String() != nodes[n] {
					return fmt.Errorf("node %d has asked the host on VLAN %+v, as %v", n, p.Tag, p.SrcIP)
				}
				return x.hostAnswersOn(p, mad, n)
			})
			if err != nil {
				return err
			}
			var rejected *fabric.CMRejectedError
			if err := <-ended; from == n && (err != nil || asked == 0) || from != n && (!errors.As(err, &rejected) || asked != 0) {
				return fmt.Errorf("node %d, as %s: %d hosts were asked, %v", n, nodes[from], asked, err)
			}
		}
	}
	return nil
}

// hostAnswersOn has the host of a segment answer; and first that of the other, who must not be believed.
func (x *crossing) hostAnswersOn(p *roce.Packet, mad ib.MAD, segment int) error {
	for _, on := range []int{1 - segment, segment} {
		a := x.hostAnswer(p, mad, serverQPN(100+on))
		if on == 1 {
			a = onSegment(a)
		}
		if err := x.enter(a.AppendTo(nil)); err != nil {
			return err
		}
	}
	return nil
}

// withFaults exchanges messages in both segments while they are doubled, reordered and delayed both ways.
func (x *crossing) withFaults() error {
	came := [2]int{}
	exchange := func(n int) error {
		p, q := message(x.Bridge, nodeIP, 0x77, 2*n), onSegment(message(x.Bridge, node2IP, 0x77, 2*n+1))
		return errors.Join(x.enter(p.AppendTo(nil), q.AppendTo(nil)), x.arrived(&came))
	}
	if err := exchange(0); err != nil { // makes the proxy QPs, for which not so many could wait
		return err
	}
	if err := x.await(&came, 1); err != nil {
		return err
	}
	fault := lcore.Injection{Duplicate: 0.3, Reorder: 0.3, DelayShare: 0.3, Delay: time.Millisecond, Drop: 0.1, Seed: 3}
	if err := errors.Join(x.Inject(lcore.RoCEToIB, fault, 0), x.Inject(lcore.IBToRoCE, fault, 0)); err != nil {
		return err
	}
	for n := 1; n <= 300; n++ {
		if err := exchange(n); err != nil {
			return err
		}
	}
	if err := errors.Join(x.Inject(lcore.RoCEToIB, lcore.Injection{}, 0), x.Inject(lcore.IBToRoCE, lcore.Injection{}, 0)); err != nil {
		return err
	}
	return x.await(&came, 150)
}

// await waits until so many messages have come back in each segment.
func (x *crossing) await(came *[2]int, least int) error {
	for deadline := time.Now().Add(20 * time.Second); came[0] < least || came[1] < least; time.Sleep(time.Millisecond) {
		if err := x.arrived(came); err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%v messages each came back, want %d: %+v", *came, least, x.Counters().Direction)
		}
	}
	return nil
}

// arrived takes the frames that are there, and checks that each is of the node of its segment.
func (x *crossing) arrived(came *[2]int) error {
	var m [1]dpdk.Mbuf
	for x.ethernet[0].port.RingPort().FromPort(0).Dequeue(m[:]) == 1 {
		b := append([]byte(nil), m[0].Bytes()...)
		m[0].Free()
		p, err := roce.Parse(b)
		if err != nil || p.DestQP == ib.QP1 {
			continue
		}
		n := tagOf(&p)
		if n < 0 || p.Payload[0] != byte(n) || p.SrcIP != netip.MustParseAddr([]string{"10.9.0.7", "10.9.0.8"}[n]) || p.DestQP != 0x55 {
			return fmt.Errorf("on VLAN %+v came %+v", p.Tag, p)
		}
		came[n]++
	}
	return nil
}

// explained checks that an explanation has the proxy QP and the group of the packet's own segment.
func (x *crossing) explained() error {
	p, q := message(x.Bridge, nodeIP, 0x77, 1), message(x.Bridge, node2IP, 0x77, 1)
	g := message(x.Bridge, groupIP, ib.QPMulticast, 1)
	proxy, mgid := map[string]bool{}, map[string]bool{}
	for _, packets := range [][2]roce.Packet{{p, onSegment(q)}, {g, onSegment(g)}} {
		for _, packet := range packets {
			saw, err := x.DryRun(dryrun.Packet{Frame: packet.AppendTo(nil)})
			if err != nil {
				return err
			}
			e := trace.Explain(saw, x.Tables())
			if len(e.Missing) != 0 || e.From.Get("proxy QP") == "" {
				return fmt.Errorf("on VLAN %+v: %+v, and %v", packet.Tag, e, e.Missing)
			}
			proxy[e.From.Get("proxy QP")] = true
			if packet.DstIP == groupIP {
				mgid[e.To.Get("MGID")] = true
			}
		}
	}
	if len(proxy) != 2 || len(mgid) != 2 {
		return fmt.Errorf("proxy QPs %v, MGIDs %v; want two of each", proxy, mgid)
	}
	return nil
}

// flooded has hosts of forged addresses flood the second segment with ARP, and a host of the first ask meanwhile.
func (x *crossing) flooded() error {
	ask := func(vlan uint16, n int, target string) []byte {
		mac := frame.MAC{2, 7, 0, byte(n >> 16), byte(n >> 8), byte(n)}
		return frame.AppendARP(nil, frame.Link{MAC: mac, VID: vlan}, frame.Broadcast,
			frame.ARPFields{Op: frame.ARPRequest, SHA: mac, SPA: netip.AddrFrom4([4]byte{10, 9, 0, byte(20 + n%200)}), TPA: netip.MustParseAddr(target)})
	}
	for round := range 20 {
		for n := range 200 {
			if err := x.enter(ask(segmentVLAN, 1000*round+n, "10.9.0.8")); err != nil {
				return err
			}
		}
		if err := x.enter(ask(0, 900_000+round, "10.9.0.7")); err != nil {
			return err
		}
		if err := x.answeredARP(); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
	}
	return nil
}

// answeredARP waits for an answer in the first segment.
func (x *crossing) answeredARP() error {
	var m [1]dpdk.Mbuf
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		if x.ethernet[0].port.RingPort().FromPort(0).Dequeue(m[:]) == 0 {
			time.Sleep(time.Millisecond)
			continue
		}
		f, fault := frame.Open(append([]byte(nil), m[0].Bytes()...))
		m[0].Free()
		if fault == "" && f.Type == frame.TypeARP && f.Tag == nil {
			if a, fault := frame.ParseARP(f.Eth.Src(), f.Payload); fault == "" && a.Op == frame.ARPReply {
				return nil
			}
		}
	}
	return errors.New("the host that asks is not answered while the other segment floods")
}

func TestSegmentsCross(t *testing.T) { logTask(t, "segments-cross") }
