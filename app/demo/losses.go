// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"

	"causeway/app/bridge"
	"causeway/lcore"
)

// losses are counts of messages that were lost, by who counts them. Two may count the same one: the interface that sent
// it, and the one that did not take it.
type losses map[string]uint64

func (l losses) add(n uint64, format string, a ...any) {
	if n > 0 {
		l[fmt.Sprintf(format, a...)] += n
	}
}

// since returns what has grown.
func (l losses) since(before losses) losses {
	out := losses{}
	for who, n := range l {
		out.add(n-min(n, before[who]), "%s", who)
	}
	return out
}

// around returns what was lost around the bridge: at the interfaces and the sockets of both kernels' ends, and in the
// subnet. What cannot be read is not there.
func (tb *testbed) around() losses {
	l := losses{}
	_ = tb.segment.Do(func() error { return l.interfaces("") })
	for _, h := range tb.hosts {
		_ = h.Do(func() error {
			l.protocols(h.Name)
			return l.interfaces(h.Name + " ")
		})
	}
	for i, n := range tb.nodes {
		s := n.HCA().Stats()
		for why, n := range s.Drops {
			l.add(n, "%s received %s", nodeNames[i], why)
		}
		for why, n := range s.SendDrops {
			l.add(n, "%s sent %s", nodeNames[i], why)
		}
	}
	in, ports := tb.subnet.Stats()
	for why, n := range in.Drops {
		l.add(n, "subnet %s", why)
	}
	for why, n := range ports.Drops {
		l.add(n, "subnet %s", why)
	}
	return l
}

// interfaces adds what the interfaces of this thread's namespace have dropped.
func (l losses) interfaces(prefix string) error {
	links, err := netlink.LinkList()
	for _, link := range links {
		if a := link.Attrs(); a.Statistics != nil {
			l.add(a.Statistics.RxDropped, "%s%s rx_dropped", prefix, a.Name)
			l.add(a.Statistics.TxDropped, "%s%s tx_dropped", prefix, a.Name)
		}
	}
	return err
}

// protocols adds what the kernel of a host has discarded, by its own names.
func (l losses) protocols(host string) {
	wanted := []string{
		"Ip.InDiscards", "Ip.OutDiscards", "Ip.OutNoRoutes", "Udp.InErrors", "Udp.RcvbufErrors", "Udp.SndbufErrors",
		"Ip6InDiscards", "Ip6OutDiscards", "Ip6OutNoRoutes", "Udp6InErrors", "Udp6RcvbufErrors", "Udp6SndbufErrors",
	}
	const here = "/proc/thread-self/net/" // of the thread's namespace
	old, _ := os.ReadFile(here + "snmp")
	six, _ := os.ReadFile(here + "snmp6")
	all := snmp(string(old), string(six))
	for _, name := range wanted {
		l.add(all[name], "%s %s", host, name)
	}
}

// snmp reads the kernel's counters: of IPv4 a line of names and one of numbers for each protocol, of IPv6 a line for
// each name.
func snmp(four, six string) map[string]uint64 {
	all := map[string]uint64{}
	var names []string
	for line := range strings.Lines(four) {
		words := strings.Fields(line)
		if len(names) == 0 || len(words) != len(names) || words[0] != names[0] {
			names = words
			continue
		}
		for i, name := range names[1:] {
			if n, err := strconv.ParseUint(words[1+i], 10, 64); err == nil {
				all[strings.TrimSuffix(words[0], ":")+"."+name] = n
			}
		}
		names = nil
	}
	for line := range strings.Lines(six) {
		if words := strings.Fields(line); len(words) == 2 {
			if n, err := strconv.ParseUint(words[1], 10, 64); err == nil {
				all[words[0]] = n
			}
		}
	}
	return all
}

// ofBridge adds what the bridge's ports have lost.
func (l losses) ofBridge(lost [2]bridge.Losses) {
	for d, x := range lost {
		for why, n := range x.Before {
			l.add(n, "bridge %v before %s", lcore.Direction(d), why)
		}
		for why, n := range x.After {
			l.add(n, "bridge %v after %s", lcore.Direction(d), why)
		}
	}
}

// String lists them, the most first.
func (l losses) String() string {
	who := slices.SortedFunc(maps.Keys(l), func(a, b string) int {
		if l[a] != l[b] {
			return int(int64(l[b]) - int64(l[a]))
		}
		return strings.Compare(a, b)
	})
	for i, name := range who {
		who[i] = fmt.Sprintf("%d %s", l[name], name)
	}
	return strings.Join(who, ", ")
}
