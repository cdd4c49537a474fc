// SPDX-License-Identifier: Apache-2.0

package dpdk

// Waiting reports whether the port waits for its interface to be set up, and Reopen is to be called then. Before Linux
// 6.14, packet sockets cannot share the frames of an interface that is not up (packet(7), PACKET_FANOUT: EINVAL), and
// the PMD opens no others. So an af_packet port has a device of rings until then, with its interface's address, which
// receives nothing and takes nothing to send.
func (p *Port) Waiting() bool { return p.plan.waits }

// plugWaiting plugs in the rings. Those of frames to send are full.
func (p *Port) plugWaiting() error {
	config := p.config
	p.config.RxDescs, p.config.TxDescs = 1, 1
	err := p.plugRings()
	p.config = config
	if err != nil {
		return err
	}
	for _, ring := range p.rings.from {
		m, err := config.Pool.Alloc([]byte{0})
		if err != nil {
			p.unplugLocked()
			return err
		}
		ring.Enqueue([]Mbuf{m})
	}
	return nil
}
