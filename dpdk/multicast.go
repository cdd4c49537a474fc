// SPDX-License-Identifier: Apache-2.0

package dpdk

// #include "dpdk.h"
import "C"

// MulticastFilter is how a port tells the multicast frames it wants from the others.
type MulticastFilter int

const (
	MulticastList        MulticastFilter = iota // exactly the listed addresses
	MulticastAll                                // every multicast frame
	MulticastPromiscuous                        // every frame; also where a device cannot filter
)

func (f MulticastFilter) String() string {
	return [...]string{"list", "allmulticast", "promiscuous"}[f]
}

// SetMulticast makes the port receive frames to these multicast addresses, and answers by what means: the
// device's list of addresses, else all multicast frames, else all frames. With a list, the port no longer receives all
// that SetAllMulticast asked for.
func (p *Port) SetMulticast(macs [][6]byte) (MulticastFilter, error) {
	list := make([]C.struct_dpdk_mac, len(macs)+1) // one more: its address is taken even when there are none
	for i, mac := range macs {
		if mac[0]&1 == 0 {
			return 0, portError(p.name, "%x is no multicast address", mac)
		}
		for j, b := range mac {
			list[i].b[j] = C.uint8_t(b)
		}
	}
	if p.plan.waits || p.bond != nil {
		return p.SetAllMulticast()
	}
	clearLog()
	err := errno(C.dpdk_port_multicast_list(p.id, &list[0], C.uint(len(macs))))
	if err != nil {
		return p.SetAllMulticast()
	}
	if p.allMulticast {
		if err := errno(C.dpdk_port_allmulticast(p.id, false)); err != nil {
			return 0, portError(p.name, "allmulticast mode does not end: %w", why(err))
		}
		p.allMulticast = false
	}
	return MulticastList, nil
}

// SetAllMulticast makes the port receive all multicast frames, or else all frames.
func (p *Port) SetAllMulticast() (MulticastFilter, error) {
	if p.bond != nil {
		return MulticastPromiscuous, nil // all members, since it was opened
	}
	if p.plan.waits {
		p.config.Promiscuous = true // as af_packet will be, which has nothing less
		return MulticastPromiscuous, nil
	}
	clearLog()
	err := errno(C.dpdk_port_allmulticast(p.id, true))
	if err == nil {
		p.allMulticast = true
		return MulticastAll, nil
	}
	if err = errno(C.dpdk_port_promiscuous(p.id, true)); err == nil {
		p.config.Promiscuous = true // for Close
		return MulticastPromiscuous, nil
	}
	return 0, portError(p.name, "neither a multicast list nor allmulticast nor promiscuous mode: %w", why(err))
}
