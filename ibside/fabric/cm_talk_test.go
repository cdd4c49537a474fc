// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"causeway/ibside/ib"
)

func newTalker(t *testing.T, f *Fabric, n int, ip string) *Talker {
	t.Helper()
	port, err := f.Attach(PortConfig{Name: fmt.Sprint("talker", n), GUID: ib.GUID(0x100 + n)})
	if err != nil {
		t.Fatal(err)
	}
	node, err := StartNode(port, NodeConfig{Name: fmt.Sprint("talker", n), GUID: ib.GUID(0x100 + n)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { node.Close() })
	return &Talker{Node: node, CM: newTestCM(t, node.HCA(), CMConfig{}), IPs: []netip.Addr{netip.MustParseAddr(ip)}, Count: 10, Size: 100}
}

// TestTalk has several clients at each of several servers at once, over IPv4 and IPv6.
func TestTalk(t *testing.T) {
	for _, prefix := range []string{"10.9.0.", "fd09::"} {
		t.Run(prefix, func(t *testing.T) {
			f := newFabric(t, Config{})
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			served := make(chan Talk, 100)
			var servers, clients []*Talker
			for n := range 3 {
				servers = append(servers, newTalker(t, f, n, fmt.Sprint(prefix, 1+n)))
				if err := servers[n].Serve(ctx, cmPort, func(k Talk) { served <- k }); err != nil {
					t.Fatal(err)
				}
				clients = append(clients, newTalker(t, f, 10+n, fmt.Sprint(prefix, 11+n)))
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

func wholeTalk(t *testing.T, k Talk) {
	t.Helper()
	if k.Err != nil || len(k.Received) != 10 {
		t.Errorf("%d messages, %v", len(k.Received), k.Err)
		return
	}
	for i, m := range k.Received {
		if number, _, whole := ReadStamp(m.Payload); !whole || number != uint64(i+1) || len(m.Payload) != 100 || m.SrcQP != k.Remote {
			t.Errorf("message %d, from %v and not %v: number %d, %d bytes, whole %v", i+1, m.SrcQP, k.Remote, number, len(m.Payload), whole)
		}
	}
}

// TestTalkFails: no talk is reported as good that was not.
func TestTalkFails(t *testing.T) {
	f := newFabric(t, Config{})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	server, client := newTalker(t, f, 1, "10.9.0.1"), newTalker(t, f, 2, "10.9.0.2")
	gid := server.Node.HCA().Info().GID
	served := make(chan Talk, 10)
	if err := server.Serve(ctx, cmPort, func(k Talk) { served <- k }); err != nil {
		t.Fatal(err)
	}
	var refused *CMRefusedError
	if k := client.Connect(ctx, gid, client.IPs[0], cmPort); !errors.As(k.Err, &refused) || refused.Status != ib.SIDRStatusRejected {
		t.Errorf("to somebody else: %v", k.Err)
	}
	if k := client.Connect(ctx, gid, server.IPs[0], 1); !errors.As(k.Err, &refused) || refused.Status != ib.SIDRStatusUnsupported {
		t.Errorf("to no service: %v", k.Err)
	}
	if k := client.Connect(ctx, mustGID("fe80::999"), server.IPs[0], cmPort); k.Err == nil {
		t.Error("to no port")
	}
	client.Count = 9 // one message too few: both wait for the other
	if k := client.Connect(ctx, gid, server.IPs[0], cmPort); !errors.Is(k.Err, context.DeadlineExceeded) {
		t.Errorf("too few messages: %v", k.Err)
	}
	for range 2 { // the first was refused, and well so
		if k := <-served; (k.Err == nil) == (k.Local != 0) {
			t.Errorf("served %+v", k)
		}
	}
}
