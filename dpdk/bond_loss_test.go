// SPDX-License-Identifier: Apache-2.0

package dpdk

import (
	"sync"
	"testing"
	"time"
)

// TestBondLoses checks that what comes by a member that carries frames is received or counted, whatever another does.
func TestBondLoses(t *testing.T) {
	ownNetwork(t)
	cables(t, "1500")
	p := open(t, bondOfVeths, PortConfig{Pool: newPool(t), RxDescs: 256, TxDescs: 64})
	b := p.Bond()
	wires := []end{kernelEnd(t, "theirs0"), kernelEnd(t, "theirs1")}
	for on := range wires {
		setMembers(t, b, true, true)
		before := stats(t, p).RxMissed
		var sender sync.WaitGroup
		const n = 3000
		sender.Go(func() {
			for range n {
				if err := wires[on].send(testFrame(200, 1)); err != nil {
					t.Error(err)
				}
				time.Sleep(50 * time.Microsecond)
			}
		})
		sender.Go(func() {
			for i := range n {
				if err := b.Set(1-on, i%4 > 0, i%4 == 2); err != nil {
					t.Error(err)
				}
				time.Sleep(50 * time.Microsecond)
			}
		})
		sent := make(chan struct{})
		go func() { sender.Wait(); close(sent) }()
		got, idle := 0, time.Now()
		for !closed(sent) || time.Since(idle) < 300*time.Millisecond {
			if k := len(receiveUpTo(p, 32)); k > 0 {
				got, idle = got+k, time.Now()
			}
		}
		if missed := stats(t, p).RxMissed - before; got+int(missed) != n { // on a busy machine this reader comes too late for some
			t.Errorf("member %d: %d of %d frames, %d missed; inactive %d", on, got, n, missed, b.Count(on).Inactive)
		}
	}
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
