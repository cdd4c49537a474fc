// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"causeway/ibside/ib"
	"causeway/ibside/stamp"
	"causeway/lcore/frame"
	"causeway/lcore/frame/roce"
)

const (
	crowd     = 10_000 // queue pairs of the crowd
	crowdHost = 250    // of one host of it
	crowdAge  = 15 * time.Second
	crowdStep = 200 // queue pairs that send at a time: their packets wait in the bridge for proxy QPs
	// crowdLost is how many messages the guests' kernels may lose among so many queue pairs: rdma_rxe drops packets
	// that it has no memory for, or that are not taken in time. Causeway loses none.
	crowdLost = crowd / 50
)

// TestTenThousandProxyQPs has forty hosts, which answer no ARP, send from ten thousand queue pairs: each gets a proxy
// QP of its own on the device, its message arrives, and the proxy QP ends when it has been idle for long. One that is
// used stays.
func TestTenThousandProxyQPs(t *testing.T) {
	r, _, _ := theRig(t)
	a, c, n := theSecondTopology(t)
	proof := proves(t, "second topology: ten thousand proxy QPs made, received from and aged; one in use stays")
	small := strings.NewReplacer("proxy_qps   = 512",
		fmt.Sprintf("proxy_qps   = 12000\nproxy_qps_per_host = %d\nproxy_qp_depth = 16\nproxy_qps_unconfirmed = 0\nproxy_qp_idle = %d", crowdHost, int(crowdAge.Seconds())), `level = "debug"`, `level = "info"`)
	bridge, stop := startVerbsBridge(t, c, small.Replace(verbsBridge))
	defer stop()
	faithful, err := a.StartUDEnd(within(t, stepTime), fmt.Sprintf("--ip 10.9.0.1 %s --to 10.9.0.7 --qpn 0x123 --gap 1000 --count 1000 send", unicast))
	if err != nil {
		t.Fatal(err)
	}
	defer faithful.Stop()
	awaitGauge(t, bridge, "causeway_proxy_qps", 1)
	listener, err := n.StartUDEnd(within(t, stepTime), fmt.Sprintf("--ip 10.9.0.7 %s --count %d --seconds 240 recv", unicast, crowd-crowdLost))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Stop()
	begin := time.Now()
	for from := 0; from < crowd; from += crowdStep {
		if err := r.Inject(segment, crowdFrames(from, crowdStep, ib.QPN(listener.QPN))...); err != nil {
			t.Fatal(err)
		}
		awaitMade(t, bridge, uint64(1+from+crowdStep))
	}
	made := time.Since(begin)
	events, exit, err := listener.Wait(within(t, 5*stepTime))
	if err != nil || exit != 0 {
		t.Fatalf("the node: exit %d, %v", exit, err)
	}
	proxyQPs := map[uint32]bool{}
	for _, e := range Only(events, "received") {
		proxyQPs[e.SrcQP] = true
	}
	if came := len(Only(events, "received")); len(proxyQPs) != came {
		t.Errorf("%d messages came from %d proxy QPs", came, len(proxyQPs))
	}
	awaitGauge(t, bridge, "causeway_proxy_qps", 1)
	m := settled(t, bridge)
	if got := m["causeway_proxy_qps_aged_total"]; got != crowd || m.Of(roceToIB, "packets_sent_total") < crowd || m["causeway_proxy_qps_rejected_total"] != 0 || len(m.Drops(roceToIB)) > 0 {
		t.Errorf("%d aged, %d denied, dropped %v", got, m["causeway_proxy_qps_rejected_total"], m.Drops(roceToIB))
	}
	proof.add(len(proxyQPs))
	proof.measured("made %d in %v", crowd, made.Round(100*time.Millisecond))
}

// crowdFrames returns a message from each of n queue pairs, from number from on.
func crowdFrames(from, n int, to ib.QPN) (frames [][]byte) {
	bridge, _ := frame.ParseMAC(mac("C", 1)) // cannot fail: mac made it
	for i := from; i < from+n; i++ {
		host := byte(i / crowdHost)
		p := roce.Packet{
			Version: 2, Dst: bridge, Src: frame.MAC{2, 0, 0, 0, 1, host}, SrcIP: netip.AddrFrom4([4]byte{10, 9, 0, 150 + host}),
			DstIP: netip.MustParseAddr("10.9.0.7"), HopLimit: 64, SrcPort: 0xc000, PKey: ib.PKeyDefault,
			DestQP: to, QKey: ib.QKey(groupQKey), SrcQP: ib.QPN(0x1000 + i), Payload: stamp.Message(uint64(i), 64),
		}
		frames = append(frames, p.AppendTo(nil))
	}
	return frames
}

// awaitMade waits until the bridge has made so many proxy QPs.
func awaitMade(t *testing.T, c *GuestCauseway, want uint64) {
	t.Helper()
	ctx := within(t, stepTime)
	for {
		m, err := c.Metrics(ctx)
		if err != nil {
			t.Fatalf("%v; the bridge logged:\n%s", err, lastLines(c.Log()))
		}
		if m["causeway_proxy_qps_made_total"] >= want {
			return
		}
		time.Sleep(pollEvery)
	}
}
