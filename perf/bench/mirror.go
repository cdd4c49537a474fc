// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"

	"causeway/lcore"
)

// snapBytes is how much a mirror keeps of each packet.
const snapBytes = 128

// mirrorRows compares a worker whose packets are mirrored, as captures and traces do, with one without a mirror. Only
// the mirror of one host has a gate: the others tell users what they cost.
func mirrorRows(cfg *Config) ([]Row, error) {
	none := square(Small)
	with := func(f lcore.Filter) shape {
		s := none
		s.mirror = &lcore.MirrorOptions{Filter: f, Snap: snapBytes}
		return s
	}
	top := with(lcore.Filter{Point: lcore.Received})
	top.mirror.Sampled = true
	return compare(cfg, 0, []variant{
		{what: "no mirror", shape: none},
		{what: "mirror: drops", shape: with(lcore.Filter{AnyDrop: true})},
		{what: "mirror: 1 host of 1 k", shape: with(lcore.Filter{Host: none.hostIP(1)}), limit: hostLimit},
		{what: "mirror: 1 node of 1 k", shape: with(lcore.Filter{Host: none.nodeIP(1)}), limit: hostLimit},
		{what: "mirror: all", shape: with(lcore.Filter{})},
		{what: "mirror: top (sampled)", shape: top},
	})
}

// mirror starts the shape's mirror, which lasts until the rig is closed.
func (r *rig) mirror() error {
	ctx, cancel := context.WithCancel(context.Background())
	began, ended := make(chan struct{}), make(chan error, 1)
	w := *r.shape.mirror
	w.Began = func() { close(began) }
	go func() {
		_, err := r.datapath.Mirror(ctx, w, func(lcore.MirroredPacket) bool { return true })
		ended <- err
	}()
	r.onClose(func() error {
		cancel()
		return <-ended
	})
	select {
	case <-began:
		return nil
	case err := <-ended:
		ended <- err
		return err
	}
}
