// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"sync"
	"testing"
	"time"

	"causeway/ibside/fabric"
	"causeway/ibside/fabric/fabrictest"
	"causeway/ibside/ib"
)

// loss loses the next datagram of one kind at node 7.
type loss struct {
	mu   sync.Mutex
	out  bool
	attr uint16
	left int
}

// lose is used as the function of that name in fabric.CMConfig.
func (l *loss) lose(out bool, attr uint16) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left == 0 || out != l.out || attr != l.attr {
		return false
	}
	l.left--
	return true
}

func (l *loss) next(out bool, attr uint16) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.out, l.attr, l.left = out, attr, 1
}

func (l *loss) waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.left
}

const (
	// cutFor is how long a host's cable is unplugged: longer than one request or reply is under way, and shorter than
	// the four seconds that the kernel waits before it repeats one.
	cutFor = 1500 * time.Millisecond
	// kernelPatience is less than the kernel's wait before a repetition: a faster connection has lost no datagram.
	kernelPatience = 3 * time.Second
)

// lossyRig can lose datagrams between the bridge and a host, and between the bridge and node 7.
type lossyRig struct {
	*udaddyRig
	rig  *Rig
	loss loss
	host Peer
	node *fabrictest.Exchanger
}

// cut unplugs the host's cable for a moment.
func (r *lossyRig) cut(t *testing.T) (mended chan struct{}) {
	if err := r.rig.Unplug(r.a); err != nil {
		t.Error(err)
	}
	mended = make(chan struct{})
	time.AfterFunc(cutFor, func() {
		defer close(mended)
		if err := r.rig.Plug(r.a, 0); err != nil {
			t.Error(err)
		}
	})
	return mended
}

// askedOnce has the host connect to the node, which must be asked only once. The connection must take at least so long.
func (r *lossyRig) askedOnce(t *testing.T, exchanges chan fabrictest.Exchange, atLeast time.Duration) {
	t.Helper()
	before, start := r.node.CM.Counters().Requests, time.Now()
	r.together(t, calling(r.host, "10.9.0.7"))
	r.went(t, exchanges, 1)
	if n := r.node.CM.Counters().Requests - before; n != 1 || time.Since(start) < atLeast || r.loss.waiting() != 0 {
		t.Errorf("the node was asked %d times; connected after %v; %d datagrams still to be lost", n, time.Since(start), r.loss.waiting())
	}
}

// TestUdaddyLost loses one request or one reply in each place on the way. The connection is established all the same,
// and the server is asked once.
func TestUdaddyLost(t *testing.T) {
	proof := proves(t, "udaddy: a request or a reply of SIDR is lost, in each place on the way")
	r := &lossyRig{}
	r.udaddyRig = newUdaddyRig(t, networks[0], proof, r.loss.lose)
	r.rig, _, _ = theRig(t)
	r.host, r.node = r.udaddyRig.host(r.a, false), r.nodes[0]
	r.askedOnce(t, r.serve(t, r.node), 0) // so that no MAC address is resolved later, and the cut loses a request
	for _, x := range []struct {
		name string
		out  bool
		attr uint16
	}{{"request", false, ib.AttrSIDRReq}, {"reply", true, ib.AttrSIDRRep}} {
		t.Run("to the node, "+x.name, func(t *testing.T) {
			r.loss.next(x.out, x.attr)
			r.askedOnce(t, r.serve(t, r.node), 0)
		})
		t.Run("from the node, "+x.name, func(t *testing.T) {
			r.loss.next(!x.out, x.attr)
			r.toHost(t, r.host, r.node)
			if r.loss.waiting() != 0 {
				t.Error("nothing was lost")
			}
		})
	}
	t.Run("from the host, request", func(t *testing.T) {
		exchanges, mended := r.serve(t, r.node), r.cut(t)
		r.askedOnce(t, exchanges, kernelPatience)
		<-mended
	})
	t.Run("to the host, reply", r.replyToHost)
	t.Run("to the host, request", r.requestToHost)
	r.allConnected(t, 5, 3)
}

// replyToHost loses the bridge's reply to the host, when the node has already answered.
func (r *lossyRig) replyToHost(t *testing.T) {
	exchanges, mended := make(chan fabrictest.Exchange, 10), make(chan chan struct{}, 10)
	err := r.node.CM.Serve([]fabric.CMPorts{{First: udaddyPort, Last: udaddyPort}}, func(q *fabric.CMRequest) {
		mended <- r.cut(t) // before there is an answer
		exchanges <- r.node.Answer(within(t, stepTime), q)
	})
	if err != nil {
		t.Fatal(err)
	}
	r.askedOnce(t, exchanges, kernelPatience)
	<-<-mended
}

// requestToHost loses the bridge's request to the host.
func (r *lossyRig) requestToHost(t *testing.T) {
	ctx := within(t, stepTime)
	server, err := r.host.ServeUdaddy(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	start, mended := time.Now(), r.cut(t)
	r.call(t, r.node, r.host)
	<-mended
	if time.Since(start) < cutFor {
		t.Errorf("connected after %v: nothing was lost", time.Since(start))
	}
	if err := r.host.endsUdaddy(ctx, server); err != nil {
		t.Error(err)
	}
	r.proof.add(udaddyCount)
}
