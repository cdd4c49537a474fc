// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore"
)

// taskCounts checks that packets to a group are counted under the group, and that the port's own counters are reported.
func taskCounts() (string, error) {
	h, err := built()
	if err != nil {
		return "", err
	}
	const n = 20
	group := netip.MustParseAddr("239.1.2.3")
	err = running(h, func() error {
		for i := range n {
			p := message(h, group, ib.QPMulticast, i+1)
			if err := h.enter(p.AppendTo(nil)); err != nil {
				return err
			}
		}
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			g := h.Groups()[GroupPlace{IP: group}]
			s, up := h.Ethernet()
			lost := h.Lost()[lcore.RoCEToIB]
			if len(lost) == 0 && g.Packets == [2]uint64{n, 0} && g.Bytes == [2]uint64{200 * n, 0} && s.RxPackets == n && up {
				return nil
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("counted %+v, lost %v, and the port %+v, link %v", g, lost, s, up)
			}
		}
	})
	if len(h.Groups()) != 0 {
		err = errors.Join(err, errors.New("closed, and still counts groups"))
	}
	return fmt.Sprintf("%d to %v", n, group), err
}
