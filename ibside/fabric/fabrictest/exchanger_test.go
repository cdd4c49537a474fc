// SPDX-License-Identifier: Apache-2.0

package fabrictest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"causeway/ibside/fabric"
	"causeway/ibside/ib"
	"causeway/ibside/stamp"
)

const cmPort = 7174

// newFabric returns a subnet whose packets must all be accounted for in the end.
func newFabric(t *testing.T) *fabric.Fabric {
	t.Helper()
	f, err := fabric.New(fabric.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for end := time.Now().Add(time.Minute); !f.Quiet(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("no quiet subnet within ten seconds")
			}
		}
		if sw, ports := f.Stats(); sw.In+sw.Copies != sw.Out+sw.Drops.Sum() || sw.Out != ports.Queued ||
			ports.Queued != ports.Taken+ports.Waiting+ports.Drops.Sum() {
			t.Errorf("switch %+v, ports %+v", sw, ports)
		}
		hcas := []*fabric.HCA{f.SA().HCA()}
		for _, n := range f.Nodes() {
			hcas = append(hcas, n.HCA())
		}
		for _, h := range hcas {
			if s := h.Stats(); s.Received != s.Delivered+s.Drops.Sum() || s.Packets > s.Received {
				t.Errorf("HCA %v: %+v", h.Info().GID, s)
			}
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// newCM returns a connection manager whose requests must all have an answer or wait for one in the end.
func newCM(t *testing.T, h *fabric.HCA) *fabric.CM {
	m := fabric.NewCM(h, fabric.CMConfig{})
	t.Cleanup(func() {
		m.Close()
		if c := m.Counters(); c.Requests != uint64(c.Waiting)+c.Answers.Sum() {
			t.Errorf("%d requests != %d waiting + answers %v", c.Requests, c.Waiting, c.Answers)
		}
	})
	return m
}

func newExchanger(t *testing.T, f *fabric.Fabric, n int, ip string) *Exchanger {
	t.Helper()
	port, err := f.Attach(fabric.PortConfig{Name: fmt.Sprint("talker", n), GUID: ib.GUID(0x100 + n)})
	if err != nil {
		t.Fatal(err)
	}
	node, err := fabric.StartNode(port, fabric.NodeConfig{Name: fmt.Sprint("talker", n), GUID: ib.GUID(0x100 + n)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { node.Close() })
	return &Exchanger{Node: node, CM: newCM(t, node.HCA()), IPs: []netip.Addr{netip.MustParseAddr(ip)}, Count: 10, Size: 100}
}

// TestExchange runs several clients at each of several servers at once, over IPv4 and IPv6.
func TestExchange(t *testing.T) {
	for _, prefix := range []string{"10.9.0.", "fd09::"} {
		t.Run(prefix, func(t *testing.T) {
			f := newFabric(t)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			served := make(chan Exchange, 100)
			var servers, clients []*Exchanger
			for n := range 3 {
				servers = append(servers, newExchanger(t, f, n, fmt.Sprint(prefix, 1+n)))
				if err := servers[n].Serve(ctx, cmPort, func(k Exchange) { served <- k }); err != nil {
					t.Fatal(err)
				}
				clients = append(clients, newExchanger(t, f, 10+n, fmt.Sprint(prefix, 11+n)))
			}
			var all sync.WaitGroup
			for _, c := range clients {
				for _, s := range servers {
					all.Go(func() { wholeTalk(t, c.Connect(ctx, s.Node.HCA().Info().GID, s.IPs[0], cmPort)) })
				}
			}
			all.Wait()
			for range 9 {
				wholeTalk(t, <-served)
			}
		})
	}
}

func wholeTalk(t *testing.T, k Exchange) {
	t.Helper()
	if k.Err != nil || len(k.Received) != 10 {
		t.Errorf("%d messages, %v", len(k.Received), k.Err)
		return
	}
	for i, m := range k.Received {
		if s, v := stamp.Read(m.Payload); v != stamp.Whole || s.Number != uint64(i+1) || len(m.Payload) != 100 || m.SrcQP != k.Remote {
			t.Errorf("message %d, from %v and not %v: number %d, %d bytes, verdict %d", i+1, m.SrcQP, k.Remote, s.Number, len(m.Payload), v)
		}
	}
}

// TestExchangeFails: a failed exchange is never reported as good.
func TestExchangeFails(t *testing.T) {
	f := newFabric(t)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	server, client := newExchanger(t, f, 1, "10.9.0.1"), newExchanger(t, f, 2, "10.9.0.2")
	gid := server.Node.HCA().Info().GID
	served := make(chan Exchange, 10)
	if err := server.Serve(ctx, cmPort, func(k Exchange) { served <- k }); err != nil {
		t.Fatal(err)
	}
	var rejected *fabric.CMRejectedError
	if k := client.Connect(ctx, gid, client.IPs[0], cmPort); !errors.As(k.Err, &rejected) || rejected.Status != ib.SIDRStatusRejected {
		t.Errorf("to somebody else: %v", k.Err)
	}
	if k := client.Connect(ctx, gid, server.IPs[0], 1); !errors.As(k.Err, &rejected) || rejected.Status != ib.SIDRStatusUnsupported {
		t.Errorf("to no service: %v", k.Err)
	}
	if k := client.Connect(ctx, ib.GID{0xfe, 0x80, 14: 9, 0x99}, server.IPs[0], cmPort); k.Err == nil {
		t.Error("to no port")
	}
	client.Count = 9 // one message too few: both wait for the other
	if k := client.Connect(ctx, gid, server.IPs[0], cmPort); !errors.Is(k.Err, context.DeadlineExceeded) {
		t.Errorf("too few messages: %v", k.Err)
	}
	for range 2 { // the first was rejected, as it should be
		if k := <-served; (k.Err == nil) == (k.Local != 0) {
			t.Errorf("served %+v", k)
		}
	}
}
