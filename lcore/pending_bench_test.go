// SPDX-License-Identifier: Apache-2.0

package lcore_test

import (
	"fmt"
	"testing"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/lcore/frame/roce"
)

// BenchmarkPending measures what packets of 64 bytes of a queue pair that has a proxy QP cost a worker while others wait for
// management: nobody, one, and as many as there is room for, as in a flood of unknown senders.
func BenchmarkPending(b *testing.B) {
	const burst = 32
	for _, waiting := range []int{0, 1, 2048} {
		b.Run(fmt.Sprint(waiting, " wait"), func(b *testing.B) {
			w := smallFixture()
			w.addHost(newcomerIP, lcore.V2)
			s := newRig(b, w)
			for i := range waiting {
				s.fromRoCE(v4(fromNewcomer(newcomerIP), func(p *roce.Packet) { p.SrcQP = senderQPN + ib.QPN(i) }))
			}
			defer func() {
				for _, f := range s.takePunted() {
					f.Pending.Drop(lcore.DropSourceRefused)
				}
				s.work()
			}()
			frames := make([][]byte, burst)
			for i := range frames {
				frames[i] = v4()
			}
			var took time.Duration
			packets := 0
			for b.Loop() {
				s.arrive(0, frames...)
				began := time.Now()
				s.workers[0].Step()
				took += time.Since(began)
				packets += len(s.toIB(0))
			}
			if packets != b.N*burst {
				b.Errorf("%d packets were sent of %d", packets, b.N*burst)
			}
			b.ReportMetric(float64(took.Nanoseconds())/float64(packets), "ns/packet")
		})
	}
}
