// SPDX-License-Identifier: Apache-2.0

package lcore

// #include "sight/sight.h"
import "C"

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"causeway/ibside/ib"
)

// A Door is a side of the bridge.
type Door uint8

// The two doors, and either.
const (
	AnyDoor  Door = 0
	RoCEDoor Door = C.SIGHT_ROCE
	IBDoor   Door = C.SIGHT_IB
)

// String returns the door as filters write it.
func (d Door) String() string { return [...]string{"any", "roce", "ib"}[d%3] }

// A Point is where a packet was seen; 0 is any.
type Point uint8

// The points.
const (
	Received     Point = C.SIGHT_RECEIVED   // as it came, from either side
	Sent         Point = C.SIGHT_SENT       // taken by the other door
	Dropped      Point = C.SIGHT_DROPPED    // as it was when it died
	ToManagement Point = C.SIGHT_MANAGEMENT // ARP and the like, and requests for the bridge's own services
	Waiting      Point = C.SIGHT_WAITING    // for a stand-in
	HandedOver   Point = C.SIGHT_HANDED     // to the worker that owns its stand-in
	Own          Point = C.SIGHT_OWN        // a frame of management's, on its way out
)

var pointNames = [C.SIGHT_POINTS]string{"any", "received", "sent", "dropped", "management", "waiting", "handed_over", "own"}

// String returns the point as filters and reports write it.
func (p Point) String() string {
	if int(p) >= len(pointNames) {
		return "unknown"
	}
	return pointNames[p]
}

// A Way is a direction, or both.
type Way uint8

// The ways; WayOf makes one of a direction.
const (
	BothWays Way = iota
	OnlyRoCEToIB
	OnlyIBToRoCE
)

// WayOf returns the way that is this direction alone.
func WayOf(d Direction) Way { return Way(d + 1) }

// A Filter says which sights of packets somebody wants. The zero value is all of them; what is set must all be so.
//
// Host, Group and QPN are compared with everything that the packet's two ends go by on both fabrics: an InfiniBand
// node by its GID and by the IP addresses that the bridge knows it by, a RoCE host's queue pair by its own number and
// its stand-in's. So one filter finds a packet on both sides of the bridge. What cannot be parsed that far has no ends.
type Filter struct {
	Direction Way
	Door      Door
	Point     Point
	Host      netip.Addr // IP address or GID, of either end
	Group     netip.Addr // IP group or MGID
	QPN       ib.QPN     // of either end; 0: any
	Drop      Drop       // those that died of this; 0: any
	AnyDrop   bool       // those that died
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
	{"direction", "roce_to_ib|ib_to_roce", (*Filter).setDirection, (*Filter).directionText},
	{"door", "roce|ib", (*Filter).setDoor, (*Filter).doorText},
	{"point", strings.Join(pointNames[1:], "|"), (*Filter).setPoint, (*Filter).pointText},
	{"drop", "REASON|any", (*Filter).setDrop, (*Filter).dropText},
}

// FilterUsage says in one line what a filter can be.
func FilterUsage() string {
	var all []string
	for _, w := range filterWords {
		all = append(all, "["+w.word+" "+w.example+"]")
	}
	return strings.Join(all, " ")
}

// FilterWords returns the words that a filter's pairs begin with, and what may follow each.
func FilterWords() (words, values []string) {
	for _, w := range filterWords {
		words, values = append(words, w.word), append(values, w.example)
	}
	return words, values
}

// ParseFilter reads pairs of words, such as "host 10.9.0.7 direction roce_to_ib qpn 0x11 drop icrc door roce".
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
			return Filter{}, fmt.Errorf("filter: %q is no word of filters; give %s", words[i], FilterUsage())
		case i+1 == len(words):
			return Filter{}, fmt.Errorf("filter: %q lacks its value; give %s", words[i], filterWords[w].example)
		case said[words[i]]:
			return Filter{}, fmt.Errorf("filter: %q is there twice; all of a filter must be so at once", words[i])
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
		err = fmt.Errorf("this is no multicast address; for a host's, say host")
	}
	f.Group = a
	return err
}

func (f *Filter) setQPN(text string) error {
	n, err := strconv.ParseUint(text, 0, 24)
	if err != nil || n == 0 {
		return fmt.Errorf("this is no number from 1 to 0xffffff; for queue pair 0, say drop qp0")
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

func (f *Filter) setDirection(text string) error {
	for d := RoCEToIB; d <= IBToRoCE; d++ {
		if d.String() == text {
			f.Direction = WayOf(d)
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

func (f *Filter) setDoor(text string) error {
	for _, d := range []Door{RoCEDoor, IBDoor} {
		if d.String() == text {
			f.Door = d
			return nil
		}
	}
	return fmt.Errorf("give roce or ib")
}

func (f *Filter) doorText() string {
	if f.Door == AnyDoor {
		return ""
	}
	return f.Door.String()
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
