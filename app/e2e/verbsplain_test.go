// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"maps"
	"testing"
)

// The group of plain UDP: on Ethernet programs use it by sockets.
const (
	plainGroup  = "239.1.2.8"
	plainPort   = 4711
	plainConfig = `
[[group]]
ip       = "239.1.2.8"
ethernet = "udp:4711"
ttl      = 5
[[group]]
ip       = "239.1.2.9"
ethernet = "udp:4711"
`
)

// TestPlainUDPGroups: host A uses sockets alone, and N verbs and rdma_cm; between them a bridge with groups of plain
// UDP.
func TestPlainUDPGroups(t *testing.T) {
	a, c, n := theSecondTopology(t)
	proof := proves(t, "second topology: plain UDP of host A's sockets, and mckey and udend at N; both ways, each byte")
	bridge, stop := startVerbsBridge(t, c, verbsBridge+plainConfig)
	defer stop()
	host, node := Peer{Guest: a, IP: "10.9.0.1"}, Peer{Guest: n, IP: "10.9.0.7"}
	t.Run("socket to udend", func(t *testing.T) { proof.add(plainToNode(t, bridge, host, node)) })
	t.Run("udend to socket", func(t *testing.T) { proof.add(plainToHost(t, bridge, host, node)) })
	t.Run("socket to mckey", func(t *testing.T) { proof.add(socketToMckey(t, host, node)) })
	t.Run("mckey to socket", func(t *testing.T) { proof.add(mckeyToSocket(t, host, node)) })
	t.Run("what does not cross", func(t *testing.T) { proof.add(plainDrops(t, bridge, host)) })
}

// plainSizes are lengths of datagrams, up to the largest message of InfiniBand.
var plainSizes = []int{0, 1, 17, 18, 19, 64, 1473, 4096}

// plainSend has the host send datagrams of these sizes.
func plainSend(t *testing.T, host Peer, group string, port int, sizes []int) {
	t.Helper()
	ctx := within(t, stepTime)
	u, err := host.StartUDPEnd(ctx, fmt.Sprintf("%s %s %d send %d %s", host.IP, group, port, len(sizes), commas(sizes)))
	if err != nil {
		t.Fatal(err)
	}
	if _, exit, err := u.Wait(ctx); err != nil || exit != 0 {
		t.Fatalf("udpend: exit %d, %v", exit, err)
	}
}

// cameIntact checks that messages of these sizes came, in order and undamaged.
func cameIntact(t *testing.T, events []Event, sizes []int) {
	t.Helper()
	received := Only(events, "received")
	if len(received) != len(sizes) {
		t.Errorf("%d messages came, want %d: %+v", len(received), len(sizes), events)
		return
	}
	for i, e := range received {
		if !e.Intact || e.Length != sizes[i] {
			t.Errorf("message %d: %+v, want %d bytes", i, e, sizes[i])
		}
	}
}

func plainToNode(t *testing.T, bridge *GuestCauseway, host, node Peer) int {
	ctx := within(t, stepTime)
	plainSend(t, host, plainGroup, plainPort, []int{64}) // later ones may overtake it while the proxy QP is created
	before := settled(t, bridge)
	u, err := node.StartUDEnd(ctx, fmt.Sprintf("%s %s --mgid %s --count %d --seconds 30 recv", node.udendArgs(), unicast, plainGroup, len(plainSizes)))
	if err != nil {
		t.Fatal(err)
	}
	defer u.Stop()
	plainSend(t, host, plainGroup, plainPort, plainSizes)
	events, _, err := u.Wait(ctx)
	if err != nil {
		t.Fatal(err)
	}
	cameIntact(t, events, plainSizes)
	countsOfMany(t, settled(t, bridge).Since(before), roceToIB, len(plainSizes))
	return len(plainSizes)
}

func plainToHost(t *testing.T, bridge *GuestCauseway, host, node Peer) int {
	ctx := within(t, stepTime)
	before := settled(t, bridge)
	u, err := host.StartUDPEnd(ctx, fmt.Sprintf("%s %s %d recv %d 30", host.IP, plainGroup, plainPort, len(plainSizes)))
	if err != nil {
		t.Fatal(err)
	}
	defer u.Stop()
	_, err = node.RunUDEnd(ctx, fmt.Sprintf("%s %s --to %s --qpn 0xffffff --seq 0 --count %d --size %s --gap 4 send",
		node.udendArgs(), unicast, plainGroup, len(plainSizes), commas(plainSizes)))
	if err != nil {
		t.Fatal(err)
	}
	events, _, err := u.Wait(ctx)
	if err != nil {
		t.Fatal(err)
	}
	cameIntact(t, events, plainSizes)
	for _, e := range Only(events, "received") { // the node's address, the group's port and TTL
		if want := fmt.Sprintf("%s:%d", node.IP, plainPort); e.From != want || e.TTL != 5 {
			t.Errorf("from %s with TTL %d, want %s and 5", e.From, e.TTL, want)
		}
	}
	countsOfMany(t, settled(t, bridge).Since(before), ibToRoCE, len(plainSizes))
	return len(plainSizes)
}

// mckeyMessages is how many messages mckey sends or waits for, each of mckeySize bytes.
const (
	mckeyMessages = 10
	mckeySize     = 100
)

func socketToMckey(t *testing.T, host, node Peer) int {
	ctx := within(t, stepTime)
	c, err := node.Start(fmt.Sprintf("exec mckey -m %s -b %s", plainGroup, node.IP))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Stop()
	if _, err := c.AwaitText(ctx, "joined dgid"); err != nil {
		t.Fatal(err)
	}
	sizes := make([]int, mckeyMessages)
	for i := range sizes {
		sizes[i] = mckeySize
	}
	plainSend(t, host, plainGroup, plainPort, sizes)
	mckeySucceeds(t, c)
	return mckeyMessages
}

func mckeyToSocket(t *testing.T, host, node Peer) int {
	ctx := within(t, stepTime)
	u, err := host.StartUDPEnd(ctx, fmt.Sprintf("%s %s %d recv %d 30", host.IP, plainGroup, plainPort, mckeyMessages))
	if err != nil {
		t.Fatal(err)
	}
	defer u.Stop()
	if err := node.Must(ctx, fmt.Sprintf("mckey -m %s -b %s -s", plainGroup, node.IP)); err != nil {
		t.Fatal(err)
	}
	events, _, err := u.Wait(ctx)
	if err != nil {
		t.Fatal(err)
	}
	received := Only(events, "received")
	for _, e := range received { // mckey's messages have no stamp
		if e.Length != mckeySize {
			t.Errorf("%+v", e)
		}
	}
	if len(received) != mckeyMessages {
		t.Errorf("%d datagrams came, want %d", len(received), mckeyMessages)
	}
	return len(received)
}

// plainDrops sends what does not cross: to a port that is no group's, and more than InfiniBand carries. Fragments are
// not here: virtual NICs carry large datagrams whole.
func plainDrops(t *testing.T, bridge *GuestCauseway, host Peer) int {
	before := settled(t, bridge)
	plainSend(t, host, plainGroup, plainPort+1, []int{64, 64, 64})
	plainSend(t, host, plainGroup, plainPort, []int{4097})
	moved := settled(t, bridge).Since(before)
	want := map[string]uint64{"not_roce": 3, "mtu_exceeded": 1}
	if got := moved.Drops(roceToIB); !maps.Equal(got, want) || moved.Of(roceToIB, "packets_sent_total") != 0 {
		t.Errorf("dropped %v, want %v", got, want)
	}
	return 4
}
