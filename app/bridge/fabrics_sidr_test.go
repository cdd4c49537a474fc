// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"causeway/app/slowtest"
	"causeway/dpdk"
	"causeway/ibside/fabric"
	"causeway/ibside/ib"
	"causeway/ibside/stamp"
	"causeway/lcore/frame/roce"
)

func init() { tasks["fabrics-sidr"] = taskFabricsSIDR }

// TestFabricsSIDR: a host resolves a service of a node that has a port on each of two fabrics, with another queue pair on
// each. Something ends the conversation on the first: the host's next request makes one on the second. The bridge is cut
// off, or the node's port there is gone, which the bridge is told of; or only the server there answers no more: then nothing
// but the question on the second fabric helps, after the first one's share of the time.
func TestFabricsSIDR(t *testing.T) {
	t.Parallel()
	for _, event := range []string{"cut", "gone", "silent"} {
		t.Run(event, func(t *testing.T) {
			t.Parallel()
			logTask(t, "fabrics-sidr", "EVENT="+event)
		})
	}
}

// resolvedIn is some times what it takes, and much less than one fabric's share of a request's time, after which the next is
// asked in any case.
const resolvedIn = 3 * time.Second

// resolved is two fabrics with a server on each of the node's ports.
type resolved struct {
	*twoFabrics
	servers []*fabricsServer
	number  uint64
}

// fabricsServer is a service's queue pair on one fabric.
type fabricsServer struct {
	cm   *fabric.CM
	qp   *fabric.QP
	recv *fabric.RecvQueue
}

func newFabricsServer(e *fabricsEnd, i int) (*fabricsServer, error) {
	s := &fabricsServer{recv: fabric.NewRecvQueue(64)}
	qpn := ib.QPN(0x177 + 0x100*i)
	var err error
	if s.qp, err = e.hca.CreateQP(fabric.QPConfig{QPN: qpn, QKey: ib.QKeyRDMAUDP, Recv: s.recv}); err != nil {
		return nil, err
	}
	s.cm = fabric.NewCM(e.hca, fabric.CMConfig{})
	return s, s.cm.Serve([]fabric.CMPorts{{First: floodPort, Last: floodPort}}, func(r *fabric.CMRequest) { _ = r.Accept(qpn, ib.QKeyRDMAUDP, nil) })
}

// resolve has the host ask for the service. The answer must be the queue pair on that fabric.
func (x *resolved) resolve(on int) error {
	x.asked++
	if err := x.enter(sidrFrame(x.Bridge, x.asked, hostIP)); err != nil {
		return err
	}
	answered := false
	return x.until(func() bool { return answered }, func(p *roce.Packet, mad ib.MAD) error {
		rep, ok := ib.AsSIDRRep(p.Payload[ib.MADHdrLen:])
		answered = true
		if want := x.servers[on].qp.QPN(); !ok || rep.Status() != ib.SIDRStatusOK || rep.RequestID() != uint32(x.asked) || rep.QPN() != want || p.SrcIP != nodeIP {
			return fmt.Errorf("request %d is answered by %v: %+v; want QPN %v", x.asked, p.SrcIP, rep.Fields(), want)
		}
		return nil
	})
}

// converse sends a message to the queue pair on a fabric, which answers it.
func (x *resolved) converse(on int) error {
	x.number++
	s := x.servers[on]
	p := message(x.Bridge, nodeIP, s.qp.QPN(), int(x.number))
	if err := x.enter(p.AppendTo(nil)); err != nil {
		return err
	}
	var one [1]fabric.Received
	for deadline := time.Now().Add(time.Minute); s.recv.Poll(one[:]) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("message %d has not come by fabric %d: %+v", x.number, on, x.Fabrics())
		}
	}
	r := one[0]
	if why := s.qp.Send(&fabric.Send{AH: fabric.AH{DLID: r.SLID}, DestQP: r.SrcQP, QKey: ib.QKeyRDMAUDP, Payload: r.Payload}); why != "" {
		return fmt.Errorf("answer %d: %s", x.number, why)
	}
	return x.answer(s.qp.QPN())
}

// answer takes the answer at the host.
func (x *resolved) answer(from ib.QPN) error {
	var m [1]dpdk.Mbuf
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		if x.ethernet[0].port.RingPort().FromPort(0).Dequeue(m[:]) == 0 {
			time.Sleep(time.Millisecond)
			continue
		}
		p, err := roce.Parse(append([]byte(nil), m[0].Bytes()...))
		m[0].Free()
		if err != nil || p.DestQP == ib.QP1 { // ARP, reports
			continue
		}
		s, verdict := stamp.Read(p.Payload)
		if verdict != stamp.Whole || s.Number != x.number || p.SrcQP != from || p.SrcIP != nodeIP || p.DestQP != 0x55 {
			return fmt.Errorf("the host got message %d, %+v; want %d from QPN %v", s.Number, p, x.number, from)
		}
		return nil
	}
	return fmt.Errorf("answer %d has not come: %+v", x.number, x.Fabrics())
}

// breaks ends the conversation on the first fabric.
func (x *resolved) breaks(event string) error {
	if event == "cut" {
		return x.subnets[0].Cut(bridgeGUID, true)
	}
	x.servers[0].cm.Close()
	if event == "silent" { // the node is there, and only the other fabric's answers
		return nil
	}
	return x.ends[0].hca.Close()
}

func taskFabricsSIDR() (said string, err error) {
	event := os.Getenv("EVENT")
	x := &resolved{twoFabrics: &twoFabrics{}}
	end, err := x.build(fmt.Sprintf("[[service]]\nport = %d\n", floodPort))
	defer end()
	if err != nil {
		return "", err
	}
	for i, e := range x.ends {
		s, err := newFabricsServer(e, i)
		if err != nil {
			return "", err
		}
		defer s.cm.Close()
		x.servers = append(x.servers, s)
	}
	took := time.Duration(0)
	err = running(x.Bridge, func() error {
		if err := errors.Join(x.resolve(0), x.converse(0)); err != nil {
			return err
		}
		if err := x.breaks(event); err != nil {
			return err
		}
		begun := time.Now()
		if err := errors.Join(x.resolve(1), x.converse(1)); err != nil {
			return err
		}
		if took = time.Since(begun); event != "silent" && slowtest.Late(took, resolvedIn) {
			return fmt.Errorf("the next request and its first answer took %v", took)
		}
		if event == "cut" {
			if err := x.subnets[0].Cut(bridgeGUID, false); err != nil {
				return err
			}
		}
		return errors.Join(x.resolve(1), x.converse(1), x.balances()) // without a preferred port nothing returns
	})
	return fmt.Sprintf("the next request and its first answer took %v", took), err
}
