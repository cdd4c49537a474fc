// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"causeway/ibside"
	"causeway/ibside/fabricport/porttest"
	"causeway/ibside/ib"
)

var (
	peerFlag    = flag.String("peer", "", "addresses of another host, with commas between, whose queue pair -peer-qpn sends back what comes to it (Q_Key 0x11111111)")
	peerQPNFlag = flag.Uint("peer-qpn", 0, "see -peer")
	udaddyFlag  = flag.Bool("udaddy", false, "the host of -peer runs a udaddy server at each of its addresses and, once the test is ready, a client from each")
	groupFlag   = flag.String("group", "", "IPv4 group that another host sends numbered messages to, with Q_Key 0x01234567")
)

// TestPeer exchanges messages with another kernel. The port finds out by itself from which of its addresses.
func TestPeer(t *testing.T) {
	if *peerFlag == "" {
		t.Skip("needs another host: give -peer and -peer-qpn; app/e2e's TestVerbsPort has one")
	}
	a := newSide(t, Config{})
	const proxyQPs = 4
	sizes := []int{0, 1, 63, 64, 65, 1024, 4095, 4096}
	peers := strings.Split(*peerFlag, ",")
	greetings := 0
	for _, peer := range peers {
		for i := range proxyQPs {
			qp, qpn := a.proxyQP(t, 0, testQKey)
			if i == 0 {
				s := a.to(qp, ib.QPN(*peerQPNFlag), 0, porttest.SendGRH)
				s.DGID = gid(peer)
				greetings += greet(t, a, s)
			}
			for n, size := range sizes {
				s := a.to(qp, ib.QPN(*peerQPNFlag), uint32(n), porttest.SendGRH|porttest.SendImm)
				s.DGID = gid(peer)
				exchange(t, a, s, qpn, pattern(size, n+i))
			}
		}
	}
	if c := a.quiet(t); c.SendDrops.Sum() != 0 || c.Sent != uint64(greetings+len(peers)*proxyQPs*len(sizes)) {
		t.Errorf("counters %+v", c)
	}
}

// greet sends until an answer comes, and returns how often: the kernels may lose messages that they cannot send at
// once, while they resolve each other's MAC addresses.
func greet(t *testing.T, a *side, s porttest.Send) int {
	t.Helper()
	const tries = 8
	for n := 1; n <= tries; n++ {
		s.Mbuf = a.alloc(t, []byte("hello"))
		a.post(t, 0, s)
		if got, _ := a.poll(0, 1, 2*time.Second); len(got) == 1 {
			a.poll(0, n-1, time.Second) // answers that were only late
			return n
		}
	}
	t.Fatalf("%v has answered none of %d messages: %+v", s.DGID, tries, a.counters())
	return 0
}

// exchange sends a message and checks the answer.
func exchange(t *testing.T, a *side, s porttest.Send, qpn ib.QPN, want []byte) {
	t.Helper()
	s.Mbuf = a.alloc(t, want)
	a.post(t, 0, s)
	got, all := a.poll(0, 1, 10*time.Second)
	if len(got) != 1 {
		t.Fatalf("%d bytes to %v did not come back: %+v", len(want), s.DGID, a.counters())
	}
	if got[0].SrcQP != s.DestQP || got[0].QPN != qpn || !bytes.Equal(all[0][areaLen:], want) {
		t.Errorf("%d bytes came back as %+v, %d bytes; want from %v to %v", len(want), got[0], len(all[0])-areaLen, s.DestQP, qpn)
	}
	from := ib.GIDFromAddr(netip.AddrFrom4([4]byte(all[0][32:36]))) // of an IPv4 header
	if !s.DGID.IsIPv4Mapped() {
		grh, _ := ib.AsGRH(all[0])
		from = grh.SGID()
	}
	if from != s.DGID {
		t.Errorf("the answer is from %v, want %v: %x", from, s.DGID, all[0][:areaLen])
	}
}

// TestPeerGroup receives what another kernel sends to a group. It prints a line when it is ready.
func TestPeerGroup(t *testing.T) {
	if *groupFlag == "" {
		t.Skip("needs another host that sends to a group: give -group; app/e2e's TestVerbsPort has one")
	}
	const count = 20
	a := newSide(t, Config{})
	_, err := a.Join(t.Context(), ibside.Join{MGID: gid(*groupFlag), QKey: groupQKey, PKey: ib.PKeyDefault, Receive: true})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("verbs: ready for the group")
	got, _ := a.poll(0, count, 30*time.Second)
	if len(got) != count {
		t.Fatalf("%d of %d messages came", len(got), count)
	}
	for _, r := range got {
		if !slices.Contains(a.groupQPNs(), r.QPN) || r.Flags&porttest.RecvGRH == 0 {
			t.Errorf("received %+v, want on one of %v", r, a.groupQPNs())
		}
	}
}

const (
	udaddyMessages = 10  // each way
	udaddySize     = 100 // bytes of each
)

// TestPeerServices connects to udaddy servers of another host, and exchanges messages with them as udaddy's client
// does.
func TestPeerServices(t *testing.T) {
	needUdaddy(t)
	a := newSide(t, Config{})
	for _, peer := range strings.Split(*peerFlag, ",") {
		to := netip.MustParseAddr(peer)
		c, err := a.sidr.connectOnce(t.Context(), ibside.ServiceConnect{To: to, Port: testPort})
		if err != nil {
			t.Fatal(err)
		}
		if c.QPN == 0 || c.QKey != ib.QKeyRDMAUDP || len(c.Private) != maxAnswerPrivate {
			t.Errorf("connected to %v: %+v", to, c)
		}
		qp, qpn := a.proxyQP(t, 0, ib.QKeyRDMAUDP)
		sendTen(t, a, qp, qpn, c.QPN, gid(peer))
		got, _ := a.poll(0, udaddyMessages, 10*time.Second)
		if len(got) != udaddyMessages || got[0].SrcQP != c.QPN || got[0].QPN != qpn {
			t.Errorf("%d answers came: %+v", len(got), got)
		}
	}
}

// TestPeerClients serves udaddy clients of another host. It prints a line when it is ready.
func TestPeerClients(t *testing.T) {
	needUdaddy(t)
	a := newSide(t, Config{})
	peers := strings.Split(*peerFlag, ",")
	qp, qpn := a.proxyQP(t, 0, ib.QKeyRDMAUDP)
	requests := make(chan ibside.ServiceRequest, len(peers))
	l, err := a.sidr.listen(testPort, usualLimits, func(r ibside.ServiceRequest) {
		if err := r.Answer(ibside.ServiceAnswer{QPN: qpn, QKey: ib.QKeyRDMAUDP}); err != nil {
			t.Error(err)
		}
		requests <- r
	})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	fmt.Println("verbs: ready for udaddy")
	for range peers {
		var r ibside.ServiceRequest
		select {
		case r = <-requests:
		case <-time.After(30 * time.Second):
			t.Fatalf("no request came: %+v", a.counters())
		}
		if !slices.Contains(peers, r.From.String()) || r.Port != testPort {
			t.Errorf("the request was %+v", r)
		}
		got, all := a.poll(0, udaddyMessages, 10*time.Second)
		if len(got) != udaddyMessages || len(all[0]) != areaLen+udaddySize || got[0].Imm != uint32(got[0].SrcQP) {
			t.Fatalf("from %v came %+v", r.From, got)
		}
		sendTen(t, a, qp, qpn, got[0].SrcQP, ib.GIDFromAddr(r.From))
	}
	if c := a.quiet(t); c.Answers[requestAccepted] != uint64(len(peers)) || c.Sent != uint64(udaddyMessages*len(peers)) {
		t.Errorf("counters %+v", c)
	}
}

func needUdaddy(t *testing.T) {
	t.Helper()
	if !*udaddyFlag || *peerFlag == "" {
		t.Skip("needs another host that runs udaddy: give -peer and -udaddy; app/e2e's TestVerbsPort has one")
	}
	leavesNothing(t)
}

// sendTen sends as udaddy does: the immediate data is the sender's queue pair number.
func sendTen(t *testing.T, a *side, qp uint32, qpn, to ib.QPN, dgid ib.GID) {
	t.Helper()
	before := a.counters().Sent
	for range udaddyMessages {
		s := a.to(qp, to, uint32(qpn), porttest.SendGRH|porttest.SendImm)
		s.DGID, s.QKey, s.Mbuf = dgid, ib.QKeyRDMAUDP, a.alloc(t, make([]byte, udaddySize))
		a.post(t, 0, s)
	}
	if !until(5*time.Second, func() bool { return a.counters().Sent == before+udaddyMessages }, a) {
		t.Fatalf("not all was sent: %+v", a.counters())
	}
}

var removeFlag = flag.Bool("remove", false, "let TestDeviceGone take the device away; it is gone when the process ends")

// TestDeviceGone removes the device under a port that is a member of a group. The kernel does not release it before the
// process ends; the port reports the removal, and works till then.
func TestDeviceGone(t *testing.T) {
	if !*removeFlag {
		t.Skip("takes the RDMA device away for good: give -remove; app/e2e's TestVerbsPort does, and makes it anew")
	}
	gone := make(chan struct{})
	var once sync.Once
	a := newSide(t, Config{OnLoss: func(error) { once.Do(func() { close(gone) }) }})
	b := newSide(t, Config{})
	if _, err := a.Join(t.Context(), ibside.Join{MGID: groupGID(1), QKey: groupQKey, PKey: ib.PKeyDefault, Receive: true}); err != nil {
		t.Fatal(err)
	}
	qp, _ := a.proxyQP(t, 0, testQKey)
	_, dst := b.proxyQP(t, 0, testQKey)
	flow(t, a, b, qp, dst, 5*time.Second)
	asked, connected := make(chan ibside.ServiceRequest, 1), make(chan error, 1)
	b.mustListen(t, usualLimits, func(r ibside.ServiceRequest) { asked <- r })
	go func() {
		_, err := a.ask(t.Context(), a.portInfo().GID.Addr(), "")
		connected <- err
	}()
	if r := <-asked; r.Port != testPort { // it gets no answer
		t.Errorf("asked for port %d", r.Port)
	}
	// It returns when this process has ended.
	if err := exec.Command("rdma", "link", "delete", *deviceFlag).Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-gone:
	case <-time.After(5 * time.Second):
		t.Fatalf("nothing reported that the device is to go: %+v", a.counters())
	}
	select {
	case err := <-connected:
		var e *connectError
		if !errors.As(err, &e) || e.Cause != connectClosed {
			t.Errorf("a connection under way ended with %v", err)
		}
	case <-time.After(5 * time.Second):
		t.Error("a connection under way does not notice that the device is to go")
	}
	flow(t, a, b, qp, dst, time.Second)
}
