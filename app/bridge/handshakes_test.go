// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"causeway/app/slowtest"
	"causeway/config"
	"causeway/dpdk"
	"causeway/ibside/fabric"
	"causeway/ibside/ib"
	"causeway/lcore/frame/roce"
	"causeway/tables"
)

func init() { tasks["handshakes"] = taskHandshakes }

const (
	handshakes      = 3000
	handshakesAtOne = 256 // under way: half of what one host or node may have
	// handshakesIn is four times what a thousand a second takes: other tests may use most of this machine.
	handshakesIn = 4 * handshakes * time.Millisecond
)

// serverQPN is the queue pair that a server gives to a client that asks from a port.
func serverQPN(port int) ib.QPN { return ib.QPN(0x1000 + port) }

// datagrams takes the connection manager's datagrams that have come for the hosts.
func (b *Bridge) datagrams(each func(p *roce.Packet, mad ib.MAD) error) error {
	var m [1]dpdk.Mbuf
	for b.ethernet[0].port.RingPort().FromPort(0).Dequeue(m[:]) == 1 {
		x := append([]byte(nil), m[0].Bytes()...)
		m[0].Free()
		p, err := roce.Parse(x)
		if err != nil || p.DestQP != ib.QP1 { // ARP, reports
			continue
		}
		if mad, ok := ib.AsMAD(p.Payload); ok {
			if err := each(&p, mad); err != nil {
				return err
			}
		}
	}
	return nil
}

// hostsAsk sends requests of the RoCE host for the node's service.
func (b *Bridge) hostsAsk() error {
	asked, answered := 0, map[uint32]bool{}
	for begun := time.Now(); len(answered) < handshakes; {
		for ; asked < handshakes && asked-len(answered) < handshakesAtOne; asked++ {
			x := sidrFrame(b, asked, hostIP)
			if err := b.enter(x); err != nil {
				return err
			}
		}
		err := b.datagrams(func(p *roce.Packet, mad ib.MAD) error {
			rep, ok := ib.AsSIDRRep(p.Payload[ib.MADHdrLen:])
			id := rep.RequestID()
			if !ok || mad.AttrID() != ib.AttrSIDRRep || rep.Status() != ib.SIDRStatusOK || rep.QPN() != serverQPN(int(id)) || answered[id] {
				return fmt.Errorf("an answer is %+v", rep.Fields())
			}
			answered[id] = true
			return nil
		})
		if err != nil {
			return err
		}
		if slowtest.Late(time.Since(begun), handshakesIn) {
			return fmt.Errorf("%d of %d hosts' requests have an answer after %v: %+v", len(answered), handshakes, handshakesIn, b.Status())
		}
		time.Sleep(50 * time.Microsecond)
	}
	return nil
}

// nodesAsk sends requests of the node for the RoCE host's service, which this test answers.
func (b *Bridge) nodesAsk(client *fabric.CM, given []fabric.CMAnswer) error {
	ctx, stop := context.WithTimeout(context.Background(), time.Duration(slowtest.Factor()*float64(handshakesIn)))
	defer stop()
	ports, ended := make(chan int, handshakes), make(chan error, handshakes)
	for i := range handshakes {
		ports <- i
	}
	close(ports)
	for range handshakesAtOne {
		go func() {
			for port := range ports {
				ended <- b.nodeAsks(ctx, client, port, given)
			}
		}()
	}
	for done := 0; done < handshakes; {
		err := b.datagrams(func(p *roce.Packet, mad ib.MAD) error {
			req, _ := ib.AsSIDRReq(p.Payload[ib.MADHdrLen:])
			cma, ok := ib.AsCMAHeader(req.Private())
			if !ok || mad.AttrID() != ib.AttrSIDRReq || cma.Src() != nodeIP || p.DstIP != hostIP {
				return fmt.Errorf("a request is %+v", req.Fields())
			}
			return b.hostAnswers(p, mad, serverQPN(int(cma.SrcPort())))
		})
		for ; err == nil && len(ended) > 0; done++ {
			err = <-ended
		}
		if err != nil {
			return fmt.Errorf("after %d nodes' requests: %w", done, err)
		}
		time.Sleep(50 * time.Microsecond)
	}
	return nil
}

// hostAnswers has the RoCE host answer a request.
func (b *Bridge) hostAnswers(p *roce.Packet, mad ib.MAD, qpn ib.QPN) error {
	a := b.hostAnswer(p, mad, qpn)
	return b.enter(a.AppendTo(nil))
}

// hostAnswer is the answer of a RoCE host to a request.
func (b *Bridge) hostAnswer(p *roce.Packet, mad ib.MAD, qpn ib.QPN) roce.Packet {
	req, _ := ib.AsSIDRReq(p.Payload[ib.MADHdrLen:]) // the caller has checked it
	a := message(b, p.SrcIP, ib.QP1, 0)
	a.SrcQP, a.QKey, a.Payload = ib.QP1, ib.QKeyGSI, make([]byte, ib.MADLen)
	ib.PutMAD(a.Payload, ib.MADFields{
		Class: ib.ClassCM, ClassVersion: ib.ClassVersionCM, Method: ib.MethodSend, TID: mad.TID(), AttrID: ib.AttrSIDRRep,
	})
	ib.PutSIDRRep(a.Payload[ib.MADHdrLen:], ib.SIDRRepFields{
		RequestID: req.RequestID(), QPN: qpn, ServiceID: req.ServiceID(), QKey: ib.QKeyRDMAUDP,
	})
	return a
}

// nodeAsks sends a node's request and records the queue pair in the answer.
func (b *Bridge) nodeAsks(ctx context.Context, client *fabric.CM, port int, given []fabric.CMAnswer) error {
	a, err := client.Connect(ctx, fabric.CMConnect{
		Route: fabric.MADAddress{LID: b.ibPort.Own().LID}, From: nodeIP, To: hostIP, FromPort: uint16(port), Port: floodPort,
	})
	if err != nil {
		return err
	}
	given[port] = a
	return nil
}

// checkGiven checks that each node was given the proxy QP of the queue pair that the host gave. It may run only when
// management has ended, which owns the tables while it runs.
func (b *Bridge) checkGiven(given []fabric.CMAnswer) error {
	for port, a := range given {
		s, _, there := b.tables.ProxyQPs.Find(tables.HostQP{Host: hostIP, HostQPN: serverQPN(port)})
		if !there || s.QPN != a.QPN || a.QKey != ib.QKeyRDMAUDP {
			return fmt.Errorf("port %d: answered %+v, and the proxy QP is %+v (%v)", port, a, s, there)
		}
	}
	return nil
}

// served builds a bridge on a subnet with a node that has a connection manager; more is added to its configuration.
func served(more string) (*Bridge, *fabric.CM, func() error, error) {
	f, err := fabric.New(fabric.Config{})
	if err != nil {
		return nil, nil, nil, err
	}
	port, err := f.Attach(fabric.PortConfig{Name: "server", GUID: 7})
	if err != nil {
		return nil, nil, nil, errors.Join(err, f.Close())
	}
	hca := fabric.NewHCA(port)
	cm := fabric.NewCM(hca, fabric.CMConfig{})
	end := func() error { cm.Close(); return errors.Join(hca.Close(), f.Close()) }
	cfg, err := servedConfig(more)
	if err != nil {
		return nil, nil, nil, errors.Join(err, end())
	}
	h, err := Build(cfg, Options{Log: slog.New(slog.DiscardHandler), NoHuge: true, Subnet: f})
	if err != nil {
		return nil, nil, nil, errors.Join(err, end())
	}
	return h, cm, end, nil
}

func servedConfig(more string) (*config.Config, error) {
	// Room for the host's proxy QPs is promised when it is answered, beside those of its own services.
	text := strings.Replace(wide("proxy_qps = 8192\nproxy_qps_per_host = 8192"), "[[group]]",
		"[[host]]\nip = \"10.9.0.1\"\nside = \"roce\"\nmac = \"02:00:00:00:00:01\"\n[[group]]", 1)
	return config.Parse("bridge", []byte(text+fmt.Sprintf("[[service]]\nport = %d\n", floodPort)+more))
}

// taskHandshakes checks that each request gets its answer, both ways, at a thousand a second.
func taskHandshakes() (string, error) {
	h, cm, end, err := served("")
	if err != nil {
		return "", err
	}
	err = cm.Serve([]fabric.CMPorts{{First: floodPort, Last: floodPort}}, func(r *fabric.CMRequest) {
		_ = r.Accept(serverQPN(int(r.FromPort)), ib.QKeyRDMAUDP, nil) // fails only when the test is over
	})
	given := make([]fabric.CMAnswer, handshakes)
	h.teardown.add(func() error { return h.checkGiven(given) })
	var there, back time.Duration
	err = errors.Join(err, running(h, func() error {
		start := time.Now()
		if err := h.hostsAsk(); err != nil {
			return err
		}
		there = time.Since(start)
		start = time.Now()
		err := h.nodesAsk(cm, given)
		back = time.Since(start)
		return err
	}), end())
	if err == nil && slowtest.Late(max(there, back), handshakesIn) {
		err = fmt.Errorf("%d took %v and %v", handshakes, there, back)
	}
	return fmt.Sprintf("%d each way: hosts ask %.0f a second, nodes %.0f", handshakes, handshakes/there.Seconds(), handshakes/back.Seconds()), err
}

func TestHandshakes(t *testing.T) {
	logTask(t, "handshakes")
}
