// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"

	"causeway/ibside/fabric"
	"causeway/ibside/fabric/fabrictest"
	"causeway/ibside/ib"
)

// udaddyRig is a bridge of rdma_cm's example service between hosts A and B and nodes 7 and 8.
type udaddyRig struct {
	*Causeway
	network network
	gid     ib.GID // of the bridge
	a, b    *Guest
	nodes   []*fabrictest.Exchanger
	proof   *proof
}

// newUdaddyRig starts the bridge and the nodes; lose makes faults at node 7.
func newUdaddyRig(t *testing.T, n network, p *proof, lose func(out bool, attr uint16) bool) *udaddyRig {
	t.Helper()
	_, a, b := theRig(t)
	more := fmt.Sprintf("[[service]]\nport = %d\n[[host]]\nip = %q\nip6 = %q\nside = \"ib\"\ngid = \"fe80::2:c903:0:8\"\n", udaddyPort, n.v4+"8", n.v6+"8")
	c, nodes := bridgeWith(t, n.config(more), topology, node7(fabric.RoleNone), fabric.NodeConfig{Name: "node8", GUID: nodeGUID + 1})
	r := &udaddyRig{Causeway: c, network: n, a: a, b: b, proof: p}
	for i, node := range nodes {
		number := fmt.Sprint(7 + i)
		r.nodes = append(r.nodes, node.Exchanger(fabric.CMConfig{Lose: lose}, n.v4+number, n.v6+number))
		t.Cleanup(r.nodes[i].CM.Close)
		lose = nil
	}
	var err error
	if r.gid, err = c.GID(); err != nil {
		t.Fatal(err)
	}
	return r
}

// host returns a host by its address of one family.
func (r *udaddyRig) host(g *Guest, v6 bool) Peer {
	number := map[*Guest]string{r.a: "1", r.b: "2"}[g]
	if v6 {
		return Peer{Guest: g, IP: r.network.v6 + number}
	}
	return Peer{Guest: g, IP: r.network.v4 + number}
}

// serve makes a node a server, and returns the results of its exchanges.
func (r *udaddyRig) serve(t *testing.T, node *fabrictest.Exchanger) chan fabrictest.Exchange {
	t.Helper()
	exchanges := make(chan fabrictest.Exchange, 100)
	if err := node.Serve(within(t, stepTime), udaddyPort, func(k fabrictest.Exchange) { exchanges <- k }); err != nil {
		t.Fatal(err)
	}
	return exchanges
}

// went checks that all exchanges have succeeded.
func (r *udaddyRig) went(t *testing.T, exchanges chan fabrictest.Exchange, count int) {
	t.Helper()
	for range count {
		select {
		case k := <-exchanges:
			if err := exchangeErr(k); err != nil {
				t.Error(err)
			}
			r.proof.add(len(k.Received))
		case <-within(t, stepTime).Done():
			t.Fatal("a server's exchange does not end")
		}
	}
}

// call has a node connect to the example on a host, and exchange messages.
func (r *udaddyRig) call(t *testing.T, node *fabrictest.Exchanger, host Peer) {
	t.Helper()
	k := node.Connect(within(t, stepTime), r.gid, netip.MustParseAddr(host.IP), udaddyPort)
	if err := exchangeErr(k); err != nil {
		t.Errorf("%s to %s: %v", node.Node.Config().Name, host.IP, err)
	}
	r.proof.add(len(k.Received))
}

// toHost has nodes connect to the example at a host, all at once.
func (r *udaddyRig) toHost(t *testing.T, host Peer, nodes ...*fabrictest.Exchanger) {
	t.Helper()
	ctx := within(t, stepTime)
	server, err := host.ServeUdaddy(ctx, len(nodes))
	if err != nil {
		t.Error(err)
		return
	}
	defer server.Stop()
	var all sync.WaitGroup
	for _, node := range nodes {
		all.Go(func() { r.call(t, node, host) })
	}
	all.Wait()
	if err := host.endsUdaddy(ctx, server); err != nil {
		t.Error(err)
	}
	r.proof.add(len(nodes) * udaddyCount)
}

// together runs clients of the example at once.
func (r *udaddyRig) together(t *testing.T, calls ...func(context.Context) error) {
	t.Helper()
	var all sync.WaitGroup
	for _, call := range calls {
		all.Go(func() {
			if err := call(within(t, stepTime)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	r.proof.add(len(calls) * udaddyCount)
}

func calling(client Peer, server string) func(context.Context) error {
	return func(ctx context.Context) error { return client.CallUdaddy(ctx, server) }
}

// families runs a test for IPv4 and IPv6.
func (r *udaddyRig) families(t *testing.T, test func(t *testing.T, v6 bool, prefix string)) {
	t.Run("v4", func(t *testing.T) { test(t, false, r.network.v4) })
	t.Run("v6", func(t *testing.T) { test(t, true, r.network.v6) })
}

// allConnected checks that the bridge has made so many connections of hosts and of nodes, and lost nothing on the way.
func (r *udaddyRig) allConnected(t *testing.T, ofHosts, ofNodes uint64) {
	t.Helper()
	awaitMetrics(t, r.Causeway, func(m Metrics) error { return connected(m, ofHosts, ofNodes) })
}

// connected checks a bridge's counters of connections. It must have dropped only what it has answered itself, and the
// segment's noise.
func connected(m Metrics, ofHosts, ofNodes uint64) error {
	var wrong []error
	for name, want := range map[string]uint64{
		`causeway_ib_service_connects_total{result="ok"}`:       ofHosts,
		`causeway_ib_service_requests_total{result="accepted"}`: ofNodes,
		`causeway_sidr_pending{direction="roce_to_ib"}`:         0,
		`causeway_sidr_pending{direction="ib_to_roce"}`:         0,
	} {
		if got := m[name]; got != want {
			wrong = append(wrong, fmt.Errorf("%s is %d, want %d", name, got, want))
		}
	}
	for _, direction := range []string{roceToIB, ibToRoCE} {
		drops, _ := withoutNoise(m.Drops(direction))
		delete(drops, "mad_served")
		if len(drops) > 0 || len(m.Lost(direction)) > 0 {
			wrong = append(wrong, fmt.Errorf("%s: dropped %v, lost by the port %v", direction, drops, m.Lost(direction)))
		}
	}
	return errors.Join(wrong...)
}

// TestUdaddy: the example, as Debian packages it, on a host finds its server at a node by IP address, and the other way
// round.
func TestUdaddy(t *testing.T) {
	proof := proves(t, "udaddy at a host and a node that runs the same protocol, connected by IP address: each as client and as server")
	for _, n := range networks {
		t.Run(n.name, func(t *testing.T) {
			r := newUdaddyRig(t, n, proof, nil)
			r.families(t, func(t *testing.T, v6 bool, prefix string) {
				exchanges := r.serve(t, r.nodes[0])
				r.together(t, calling(r.host(r.a, v6), prefix+"7"))
				r.went(t, exchanges, 1)
				r.toHost(t, r.host(r.a, v6), r.nodes[0])
			})
			r.allConnected(t, 2, 2)
		})
	}
}

// TestUdaddyMany: several clients at one server, and one client at several servers, all at once.
func TestUdaddyMany(t *testing.T) {
	proof := proves(t, "udaddy: several clients of one server, one client of several servers, at once; both ways")
	r := newUdaddyRig(t, networks[0], proof, nil)
	r.families(t, func(t *testing.T, v6 bool, prefix string) {
		a, b := r.host(r.a, v6), r.host(r.b, v6)
		t.Run("four clients at hosts, one node", func(t *testing.T) {
			exchanges := r.serve(t, r.nodes[0])
			r.together(t, calling(a, prefix+"7"), calling(a, prefix+"7"), calling(b, prefix+"7"), calling(b, prefix+"7"))
			r.went(t, exchanges, 4)
		})
		t.Run("one host, two nodes", func(t *testing.T) {
			first, second := r.serve(t, r.nodes[0]), r.serve(t, r.nodes[1])
			r.together(t, calling(a, prefix+"7"), calling(a, prefix+"8"))
			r.went(t, first, 1)
			r.went(t, second, 1)
		})
		t.Run("four clients at nodes, one host", func(t *testing.T) {
			r.toHost(t, a, r.nodes[0], r.nodes[1], r.nodes[0], r.nodes[1])
		})
		t.Run("one node, two hosts", func(t *testing.T) {
			var all sync.WaitGroup
			for _, host := range []Peer{a, b} {
				all.Go(func() { r.toHost(t, host, r.nodes[0]) })
			}
			all.Wait()
		})
	})
	r.allConnected(t, 12, 12)
}

// TestUdaddyRestart: a server that was restarted has other queue pairs; a client gets the new ones. Where nobody
// listens, the client is told so at once.
func TestUdaddyRestart(t *testing.T) {
	proof := proves(t, "udaddy: servers started anew, and away")
	r := newUdaddyRig(t, networks[0], proof, nil)
	host, node := r.host(r.a, false), r.nodes[0]
	for range 2 {
		exchanges := r.serve(t, node)
		r.together(t, calling(host, "10.9.0.7"))
		r.went(t, exchanges, 1)
		r.toHost(t, host, node)
		k := node.Connect(within(t, stepTime), r.gid, netip.MustParseAddr(host.IP), udaddyPort)
		var rejected *fabric.CMRejectedError
		if !errors.As(k.Err, &rejected) || rejected.Status != ib.SIDRStatusUnsupported {
			t.Errorf("the node's client without a server: %v", k.Err)
		}
		if err := node.CM.Serve(nil, func(*fabric.CMRequest) {}); err != nil {
			t.Fatal(err)
		}
		out, exit, err := host.Run(within(t, stepTime), "udaddy -b 10.9.0.1 -s 10.9.0.7")
		if err != nil || exit == 0 {
			t.Errorf("the host's client without a server: exit %d, %v: %s", exit, err, out)
		}
	}
	r.allConnected(t, 2, 2)
}
