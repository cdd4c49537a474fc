// SPDX-License-Identifier: Apache-2.0

package lcore_test

import (
	"context"
	"testing"
	"time"

	"causeway/lcore"
)

// A sampled mirror gets few of many packets and the number of all, and delays no packet.
func TestSampled(t *testing.T) {
	s := newRig(t, smallFixture())
	ctx, stop := context.WithCancel(context.Background())
	began, gone := make(chan struct{}), make(chan uint64)
	n := 0
	go func() {
		w := lcore.MirrorOptions{Filter: lcore.Filter{Point: lcore.Received}, Snap: 20, Sampled: true, Began: func() { close(began) }}
		missed, _ := s.datapath.Mirror(ctx, w, func(lcore.MirroredPacket) bool { n++; return true })
		gone <- missed
	}()
	<-began
	const bursts, burst = 50, 100
	start := time.Now()
	for range bursts {
		s.fromRoCE(repeat(v4(), burst)...)
		want(t, "crossed", len(s.toIB(0)), burst)
	}
	looks := int(time.Since(start)/time.Millisecond) + 2
	stop()
	missed := <-gone
	want(t, "all", n+int(missed), bursts*burst)
	if n == 0 || n > 64*looks {
		t.Errorf("saw %d in %d looks", n, looks)
	}
}
