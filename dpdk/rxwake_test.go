// SPDX-License-Identifier: Apache-2.0

package dpdk

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// sleeping is an epoll instance on a queue's RxWake.
func sleeping(t *testing.T, p *Port, queue int) (woken func(ms int) bool) {
	t.Helper()
	r, err := p.RxWake(queue)
	if err != nil {
		t.Fatal(err)
	}
	epoll, err := unix.EpollCreate1(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(epoll) })
	for _, fd := range r.FDs {
		if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET}); err != nil {
			t.Fatal(err)
		}
	}
	return func(ms int) bool {
		n, err := unix.EpollWait(epoll, make([]unix.EpollEvent, 1), ms)
		return err == nil && n == 1
	}
}

// wakes checks that each frame wakes whoever waits for its queue, also while others lie there, and that nothing else
// does.
func wakes(t *testing.T, p *Port, wire end) {
	t.Helper()
	receiveAll(p)
	woken := sleeping(t, p, 0)
	for woken(0) { // by what came before
	}
	for round := range 50 {
		if woken(0) {
			t.Fatalf("round %d: woken by nothing", round)
		}
		for range 1 + round%3 {
			if err := wire.send(testFrame(200, uint64(round))); err != nil {
				t.Fatal(err)
			}
			if !woken(10_000) {
				t.Fatalf("round %d: a frame has come, and woke nobody", round)
			}
		}
		receiveAll(p)
	}
}

func TestAFPacketWakes(t *testing.T) {
	ownNetwork(t)
	veth(t, "ours", "theirs", "1500")
	p := open(t, "af_packet:ours", PortConfig{Pool: newPool(t), RxDescs: 64, TxDescs: 64, RxInterrupts: true})
	wakes(t, p, kernelEnd(t, "theirs"))
}

// TestAFPacketWakesByQueue checks that each queue has a socket of its own: the one that its frames come to.
func TestAFPacketWakesByQueue(t *testing.T) {
	ownNetwork(t)
	veth(t, "ours", "theirs", "1500")
	const queues = 4
	p := open(t, "af_packet:ours", PortConfig{Pool: newPool(t), RxQueues: queues, TxQueues: queues, RxDescs: 64, TxDescs: 64})
	var woken [queues]func(int) bool
	for q := range woken {
		woken[q] = sleeping(t, p, q)
		woken[q](0)
	}
	wire, used := kernelEnd(t, "theirs"), map[int]bool{}
	for source := range byte(40) {
		frame := ipv4Fragment(0, false, 'a')
		frame[29] = source
		if err := wire.send(frame); err != nil {
			t.Fatal(err)
		}
		told := -1
		for q := 0; told < 0; q = (q + 1) % queues {
			if woken[q](1) {
				told = q
			}
		}
		var burst [8]Mbuf
		if n := p.Rx(told, burst[:]); n != 1 {
			t.Fatalf("source %d: queue %d was woken, and has %d frames", source, told, n)
		}
		burst[0].Free()
		used[told] = true
	}
	if len(used) < 2 {
		t.Errorf("all frames came to one queue: nothing was tested")
	}
}

func TestTapWakes(t *testing.T) {
	ownNetwork(t)
	p := open(t, "tap:dtap9", PortConfig{Pool: newPool(t), RxDescs: 64, TxDescs: 64, RxInterrupts: true})
	ip(t, "link set dtap9 up")
	wakes(t, p, kernelEnd(t, "dtap9"))
}

// TestNoRxWake checks that ports that cannot wake anybody say so.
func TestNoRxWake(t *testing.T) {
	for _, name := range []string{"ring", "null", "memif:" + filepath.Join(t.TempDir(), "m.sock") + ",role=server"} {
		p := open(t, name, PortConfig{Pool: newPool(t), RxInterrupts: true})
		_, err := p.RxWake(0)
		if !errors.Is(err, ErrNoRxWake) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
