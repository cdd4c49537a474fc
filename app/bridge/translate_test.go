// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"causeway/ibside/fabric"
	"causeway/ibside/ib"
	"causeway/lcore/frame/roce"
)

func init() { tasks["translated"] = taskTranslated }

// The addresses of the host and the node of these tests on InfiniBand.
const translateTable = "[[translate]]\nroce = \"10.9.0.0/24\"\nib = \"10.10.9.0/24\"\n"

var hostThere, nodeThere = netip.MustParseAddr("10.10.9.1"), netip.MustParseAddr("10.10.9.7")

const translatedPort = 5 // the asker's own, by which serverQPN knows it

// hostConnects sends the RoCE host's request for the node's service, and checks that the answer comes from the address
// that it asked.
func (b *Bridge) hostConnects() error {
	if err := b.enter(sidrFrame(b, translatedPort, hostIP)); err != nil {
		return err
	}
	answered := false
	return b.until(func() bool { return answered }, func(p *roce.Packet, mad ib.MAD) error {
		rep, ok := ib.AsSIDRRep(p.Payload[ib.MADHdrLen:])
		answered = true
		if !ok || rep.Status() != ib.SIDRStatusOK || rep.QPN() != serverQPN(translatedPort) || p.SrcIP != nodeIP || p.DstIP != hostIP {
			return fmt.Errorf("%v is answered by %v: %+v", p.DstIP, p.SrcIP, rep.Fields())
		}
		return nil
	})
}

// nodeConnects sends the node's request for the RoCE host's service, and checks that the host is asked with the
// addresses that it knows.
func (b *Bridge) nodeConnects(client *fabric.CM, from, to netip.Addr) error {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	var answer fabric.CMAnswer
	ended := make(chan error, 1)
	go func() {
		var err error
		answer, err = client.Connect(ctx, fabric.CMConnect{
			Route: fabric.MADAddress{LID: b.ibPort.Own().LID}, From: from, To: to, FromPort: translatedPort, Port: floodPort,
		})
		ended <- err
	}()
	err := b.until(func() bool { return len(ended) > 0 }, func(p *roce.Packet, mad ib.MAD) error {
		req, _ := ib.AsSIDRReq(p.Payload[ib.MADHdrLen:])
		cma, ok := ib.AsCMAHeader(req.Private())
		if !ok || cma.Src() != nodeIP || cma.Dst() != hostIP || p.SrcIP != nodeIP || p.DstIP != hostIP {
			return fmt.Errorf("the host is asked by IP %v to %v, %+v", p.SrcIP, p.DstIP, req.Fields())
		}
		return b.hostAnswers(p, mad, serverQPN(translatedPort))
	})
	if err == nil {
		err = <-ended
	}
	switch {
	case err != nil:
		return fmt.Errorf("%v to %v: %w", from, to, err)
	case answer.QKey != ib.QKeyRDMAUDP || answer.QPN <= ib.QP1:
		return fmt.Errorf("%v to %v: answered %+v", from, to, answer)
	}
	return nil
}

// until takes the connection manager's datagrams until done reports true.
func (b *Bridge) until(done func() bool, each func(p *roce.Packet, mad ib.MAD) error) error {
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(time.Millisecond) {
		if err := b.datagrams(each); err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not done in time: %+v", b.Status())
		}
	}
	return nil
}

// taskTranslated has a host and a node connect, both ways, that know each other by addresses of their own sides; then
// the translation is removed, the addresses are the same on both sides, and they connect again.
func taskTranslated() (string, error) {
	h, cm, end, err := served(translateTable)
	if err != nil {
		return "", err
	}
	var same atomic.Bool
	err = cm.Serve([]fabric.CMPorts{{First: floodPort, Last: floodPort}}, func(r *fabric.CMRequest) {
		if same.Load() && (r.From != hostIP || r.To != nodeIP) || !same.Load() && (r.From != hostThere || r.To != nodeThere) {
			_ = r.Reject(ib.SIDRStatusRejected, nil) // the host says so
			return
		}
		_ = r.Accept(serverQPN(int(r.FromPort)), ib.QKeyRDMAUDP, nil)
	})
	return "translated", errors.Join(err, running(h, func() error {
		if err := errors.Join(h.hostConnects(), h.nodeConnects(cm, nodeThere, hostThere)); err != nil {
			return err
		}
		var rejected *fabric.CMRejectedError
		if err := h.nodeConnects(cm, nodeIP, hostIP); !errors.As(err, &rejected) {
			return fmt.Errorf("addresses of the RoCE side, on InfiniBand: %v", err)
		}
		without, err := servedConfig("")
		if err != nil {
			return err
		}
		if changes, err := h.Reload(context.Background(), without); err != nil || len(changes) != 1 {
			return fmt.Errorf("the reload: %v, %w", changes, err)
		}
		same.Store(true)
		return errors.Join(h.hostConnects(), h.nodeConnects(cm, nodeIP, hostIP))
	}), end())
}

func TestTranslated(t *testing.T) {
	if _, err := task(t, "translated"); err != nil {
		t.Fatal(err)
	}
}
