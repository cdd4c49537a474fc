// SPDX-License-Identifier: Apache-2.0

package dpdk

import (
	"sync"
	"testing"
	"time"
)

// TestAFPacketStrangers opens a port while frames come to another interface: none of them may come out of the port. A
// packet socket receives from all interfaces until it is bound.
func TestAFPacketStrangers(t *testing.T) {
	ownNetwork(t)
	veth(t, "ours", "theirs", "1500")
	veth(t, "near", "far", "1500")
	from, pool := kernelEnd(t, "far"), newPool(t)
	stop := make(chan struct{})
	var sending sync.WaitGroup
	sending.Go(func() {
		for frame := testFrame(200, 7); ; {
			select {
			case <-stop:
				return
			default:
				_ = from.send(frame) // there may be no room
			}
		}
	})
	defer sending.Wait()
	defer close(stop)
	for range 5 {
		before := counted(t, "near").RxPackets
		p, err := OpenPort("af_packet:ours", PortConfig{Pool: pool})
		if err != nil {
			t.Fatal(err)
		}
		for counted(t, "near").RxPackets < before+100 { // the sender has its turn
			time.Sleep(time.Millisecond)
		}
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		receiveAll(p)
		if s := stats(t, p); s.RxPackets != 0 {
			t.Errorf("%d frames of another interface came", s.RxPackets)
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
