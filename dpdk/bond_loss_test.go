// SPDX-License-Identifier: Apache-2.0

package dpdk

import (
	"runtime"
	"sync"
	"sync/atomic"
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
		const n, underWay = 3000, 64 // frames; there is room for so many
		var changed, got atomic.Int64
		var ended sync.WaitGroup
		stop := make(chan struct{})
		ended.Go(func() {
			for i := range int64(n) {
				for changed.Load() < i || i-got.Load() >= underWay {
					if closed(stop) {
						return
					}
					runtime.Gosched()
				}
				if err := wires[on].send(testFrame(200, 1)); err != nil {
					t.Error(err)
				}
			}
		})
		ended.Go(func() {
			for ; !closed(stop); changed.Add(1) {
				i := changed.Load()
				if err := b.Set(1-on, i%4 > 0, i%4 == 2); err != nil {
					t.Error(err)
				}
				runtime.Gosched()
			}
		})
		for idle := time.Now(); got.Load() < n && time.Since(idle) < 10*time.Second; {
			if k := len(receiveUpTo(p, 32)); k > 0 {
				got.Add(int64(k))
				idle = time.Now()
			}
		}
		close(stop)
		ended.Wait()
		got.Add(int64(len(receiveUpTo(p, 32)))) // one too many
		if got := got.Load(); got != n {
			t.Errorf("member %d: %d of %d frames; inactive %d", on, got, n, b.Count(on).Inactive)
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
