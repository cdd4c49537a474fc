// SPDX-License-Identifier: Apache-2.0

package lcore

// #include "mirror/mirror.h"
// #include "worker.h"
import "C"

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"causeway/ibside/ib"
)

// A Side is a side of the bridge.
type Side uint8

// The two sides, and either.
const (
	AnySide  Side = 0
	RoCESide Side = C.MIRROR_ROCE
	IBSide   Side = C.MIRROR_IB
)

// String returns the side as filters write it.
func (s Side) String() string { return [...]string{"any", "roce", "ib"}[s%3] }

// A Point is where a packet was mirrored; 0 is any.
type Point uint8

// The points.
const (
	Received     Point = C.MIRROR_RECEIVED   // as it came, from either side
	Sent         Point = C.MIRROR_SENT       // taken by the other port
	Dropped      Point = C.MIRROR_DROPPED    // as it was when it was dropped
	ToManagement Point = C.MIRROR_MANAGEMENT // ARP and the like, and requests for the bridge's own services
	Waiting      Point = C.MIRROR_WAITING    // for a proxy QP
	Handoffs     Point = C.MIRROR_HANDOFF    // to the worker that owns its proxy QP
	Own          Point = C.MIRROR_OWN        // a frame that management sends
)

var pointNames = [C.MIRROR_POINTS]string{"any", "received", "sent", "dropped", "management", "waiting", "handoff", "own"}

// String returns the point as filters and reports write it.
func (p Point) String() string {
	if int(p) >= len(pointNames) {
		return "unknown"
	}
	return pointNames[p]
}

// A Way is one direction, or both.
type Way uint8

// The ways; wayOf makes one of a direction.
const (
	BothWays Way = iota
	OnlyRoCEToIB
	OnlyIBToRoCE
)

// wayOf returns the way that is this direction alone.
func wayOf(d Direction) Way { return Way(d + 1) }

// A Filter says which packets a mirror copies. The zero value means all; all conditions that are set must hold.
//
// Host, Group and QPN are compared with all addresses and QPNs of the packet's two endpoints on both fabrics: an
// InfiniBand node has its GID and the IP addresses that the bridge knows for it, a RoCE host's queue pair has its own
// QPN and that of its proxy QP. So one filter finds a packet on both sides of the bridge. A packet that cannot be
// parsed that far has no endpoints.
type Filter struct {
	Direction Way
	Side      Side
	Point     Point
	Host      netip.Addr // IP address or GID, of either endpoint
	Group     netip.Addr // IP group or MGID
	QPN       ib.QPN     // of either endpoint; 0: any
	VLAN      uint16     // of a frame, or of the segment that a message is of; 0: untagged
	ByVLAN    bool       // VLAN counts
	Port      uint8      // of a frame the index of its Ethernet port, of a message that of the segment that it is of
	ByPort    bool       // Port counts
	Drop      Drop       // dropped for this reason; 0: any
	AnyDrop   bool       // dropped
}

// The words of filters, in the order in which String writes them.
var filterWords = []struct {
	word, example string
	set           func(*Filter, string) error
	text          func(*Filter) string // "": not set
}{
	{"host", "ADDRESS or GID", (*Filter).setHost, func(f *Filter) string { return addrText(f.Host) }},
	{"group", "ADDRESS or MGID", (*Filter).setGroup, func(f *Filter) string { return addrText(f.Group) }},
	{"qpn", "NUMBER", (*Filter).setQPN, (*Filter).qpnText},
	{"vlan", "NUMBER", (*Filter).setVLAN, (*Filter).vlanText},
	{"port", "NUMBER", (*Filter).setPort, (*Filter).portText},
	{"direction", "roce_to_ib|ib_to_roce", (*Filter).setDirection, (*Filter).directionText},
	{"side", "roce|ib", (*Filter).setSide, (*Filter).sideText},
	{"point", strings.Join(pointNames[1:], "|"), (*Filter).setPoint, (*Filter).pointText},
	{"drop", "REASON|any", (*Filter).setDrop, (*Filter).dropText},
}

// filterUsage says in one line what a filter can be.
func filterUsage() string {
	var all []string
	for _, w := range filterWords {
		all = append(all, "["+w.word+" "+w.example+"]")
	}
	return strings.Join(all, " ")
}

// ParseFilter reads pairs of words, such as "host 10.9.0.7 direction roce_to_ib qpn 0x11 drop icrc side roce".
func ParseFilter(words []string) (Filter, error) {
	var f Filter
	said := map[string]bool{}
	for i := 0; i < len(words); i += 2 {
		w := slices.IndexFunc(filterWords, func(x struct {
			word, example string
			set           func(*Filter, string) error
			text          func(*Filter) string
		}) bool {
			return x.word == words[i]
		})
		switch {
		case w < 0:
			return Filter{}, fmt.Errorf("filter: %q is not a filter keyword; give %s", words[i], filterUsage())
		case i+1 == len(words):
			return Filter{}, fmt.Errorf("filter: %q lacks its value; give %s", words[i], filterWords[w].example)
		case said[words[i]]:
			return Filter{}, fmt.Errorf("filter: %q is given twice; all conditions of a filter must hold at once", words[i])
		}
		said[words[i]] = true
		if err := filterWords[w].set(&f, words[i+1]); err != nil {
			return Filter{}, fmt.Errorf("filter: %s %q: %w", words[i], words[i+1], err)
		}
	}
	return f, nil
}

// String returns the words that ParseFilter reads; none for all.
func (f Filter) String() string {
	var out []string
	for _, w := range filterWords {
		if text := w.text(&f); text != "" {
			out = append(out, w.word, text)
		}
	}
	return strings.Join(out, " ")
}

func addrText(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

func address(text string) (netip.Addr, error) {
	a, err := netip.ParseAddr(text)
	if err != nil || a.Zone() != "" {
		return netip.Addr{}, fmt.Errorf("this is neither an IP address nor a GID")
	}
	return a.Unmap(), nil
}

func (f *Filter) setHost(text string) (err error) {
	f.Host, err = address(text)
	return err
}

func (f *Filter) setGroup(text string) error {
	a, err := address(text)
	if err == nil && !a.IsMulticast() {
		err = fmt.Errorf("this is not a multicast address; for a host's address, say host")
	}
	f.Group = a
	return err
}

func (f *Filter) setQPN(text string) error {
	n, err := strconv.ParseUint(text, 0, 24)
	if err != nil || n == 0 {
		return fmt.Errorf("this is not a number from 1 to 0xffffff; for queue pair 0, say drop qp0")
	}
	f.QPN = ib.QPN(n)
	return nil
}

func (f *Filter) qpnText() string {
	if f.QPN == 0 {
		return ""
	}
	return fmt.Sprintf("0x%x", uint32(f.QPN))
}

func (f *Filter) setVLAN(text string) error {
	const most = 4094
	n, err := strconv.ParseUint(text, 0, 12)
	if err != nil || n > most {
		return fmt.Errorf("this is not a number from 0 to %d; 0 is untagged", most)
	}
	f.VLAN, f.ByVLAN = uint16(n), true
	return nil
}

func (f *Filter) vlanText() string {
	if !f.ByVLAN {
		return ""
	}
	return strconv.Itoa(int(f.VLAN))
}

func (f *Filter) setPort(text string) error {
	n, err := strconv.ParseUint(text, 0, 8)
	if err != nil || n >= C.MAX_PORTS {
		return fmt.Errorf("this is not the number of an Ethernet port, from 0 to %d", C.MAX_PORTS-1)
	}
	f.Port, f.ByPort = uint8(n), true
	return nil
}

func (f *Filter) portText() string {
	if !f.ByPort {
		return ""
	}
	return strconv.Itoa(int(f.Port))
}

func (f *Filter) setDirection(text string) error {
	for d := RoCEToIB; d <= IBToRoCE; d++ {
		if d.String() == text {
			f.Direction = wayOf(d)
			return nil
		}
	}
	return fmt.Errorf("give roce_to_ib or ib_to_roce")
}

func (f *Filter) directionText() string {
	if f.Direction == BothWays {
		return ""
	}
	return Direction(f.Direction - 1).String()
}

func (f *Filter) setSide(text string) error {
	for _, s := range []Side{RoCESide, IBSide} {
		if s.String() == text {
			f.Side = s
			return nil
		}
	}
	return fmt.Errorf("give roce or ib")
}

func (f *Filter) sideText() string {
	if f.Side == AnySide {
		return ""
	}
	return f.Side.String()
}

func (f *Filter) setPoint(text string) error {
	p := slices.Index(pointNames[1:], text)
	if p < 0 {
		return fmt.Errorf("give one of %s", strings.Join(pointNames[1:], ", "))
	}
	f.Point = Point(p + 1)
	return nil
}

func (f *Filter) pointText() string {
	if f.Point == 0 {
		return ""
	}
	return f.Point.String()
}

func (f *Filter) setDrop(text string) error {
	if text == "any" {
		f.AnyDrop = true
		return nil
	}
	d, ok := DropNamed(text)
	if !ok {
		return fmt.Errorf("there is no such reason; give any, or %s", similarDrops(text))
	}
	f.Drop = d
	return nil
}

// similarDrops names the reasons that begin like text, or else how to see all.
func similarDrops(text string) string {
	for n := len(text); n > 0; n-- {
		var like []string
		for _, d := range Drops() {
			if strings.HasPrefix(d.String(), text[:n]) {
				like = append(like, d.String())
			}
		}
		if like != nil {
			return strings.Join(like, ", ")
		}
	}
	return `one that "causeway drops" lists`
}

func (f *Filter) dropText() string {
	if f.AnyDrop {
		return "any"
	}
	if f.Drop == 0 {
		return ""
	}
	return f.Drop.String()
}
