// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"testing"

	"causeway/config"
)

// TestRooms checks that packets that wait leave ports the buffers that they receive into, and some to pass, however few
// there are; and that by default there is room for the first messages of a large program.
func TestRooms(t *testing.T) {
	hca, software := config.IBPort{Device: "mlx5_0", Num: 1}, config.IBPort{Fabric: true}
	for _, c := range []struct {
		name string
		port string
		ib   config.IBPort
		w    config.Workers
		want rooms
	}{
		{"as it was always, with an HCA", "mlx5", hca, config.Workers{LCores: []int{1}, Mbufs: 16384 + 8192 + 2048, RxDescs: 1024, TxDescs: 1024}, rooms{4095, 4096, 4096}},
		{"by default", "mlx5", hca, config.Workers{LCores: []int{1}, Mbufs: 16384 + 8192, RxDescs: 1024, TxDescs: 1024}, rooms{3584, 3584, 3584}},
		{"by default, on a packet socket", "af_packet", software, config.Workers{LCores: []int{1}, Mbufs: 16384, RxDescs: 8192, TxDescs: 1024}, rooms{4095, 4096, 4096}},
		{"a small pool", "ring", software, config.Workers{LCores: []int{1}, Mbufs: 2048, RxDescs: 256, TxDescs: 512}, rooms{320, 320, 320}},
		{"a small pool with an HCA", "af_packet", hca, config.Workers{LCores: []int{1, 2}, Mbufs: 3000, RxDescs: 8192}, rooms{250, 500, 250}},
		{"receive buffers as configured", "af_packet", hca, config.Workers{LCores: []int{1, 2}, Mbufs: 3000, RecvBuffers: 1000}, rooms{125, 250, 125}},
		{"none to spare", "mlx5", hca, config.Workers{LCores: []int{1, 2}, Mbufs: 4096, RxDescs: 512, TxDescs: 512, RecvBuffers: 1024}, rooms{32, 64, 32}},
		{"many workers", "mlx5", hca, config.Workers{LCores: []int{1, 2, 3, 4}, Mbufs: 4 * 24576, RxDescs: 1024, TxDescs: 1024}, rooms{3584, 4096, 3584}},
	} {
		cfg := &config.Config{Workers: c.w}
		cfg.RoCE.Port.Driver, cfg.IB.Port = c.port, c.ib
		got := roomsOf(cfg)
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
		n := len(c.w.LCores)
		spare := c.w.Mbufs - keptByPorts(cfg)
		if held := n*(got.punted+got.handles) + got.waiting; held > max(3*spare/4, 3*leastRoom*n) {
			t.Errorf("%s: %d buffers wait, of %d that are nobody's", c.name, held, spare)
		}
	}
}
