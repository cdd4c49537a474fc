// SPDX-License-Identifier: Apache-2.0

// Package tables holds what the workers look up for every packet. Management fills the tables, in Go;
// workers read them, in C (table.h, tables.h), and take no lock:
//
//	                    table         key               object
//	RoCE to IB          hosts         IP                Host
//	                    proxy_qps      IP, QPN           ProxyQP
//	                    nodes         IP                Node
//	                    groups        IP group          Group
//	IB to RoCE          proxy_qpns   QPN on IB         ProxyQP
//	                    sources       GID; LID          Node
//	                    mgids         MGID              Group
//
// An object lies on every table it belongs on, or on none. Put, Delete, Find, All, Len, Reclaim and Close
// are for one goroutine at a time, the writer; it never waits for a reader. What was deleted or replaced is
// used again by Reclaim (or a Put that needs it) when every registered reader has been quiescent since.
//
// An object keeps its id from the Put that made it to its Delete. Ids are small and dense, below the Max
// of their kind, so that counters can be arrays; an id is given out again only when no reader can still
// hold an entry with it.
//
// An IPv4-mapped IPv6 address is taken as the IPv4 address. Numbers are in host order.
package tables

/*
#cgo pkg-config: libdpdk
#cgo CFLAGS: -O2 -Wall -Wextra
#cgo CFLAGS: -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fstack-protector-strong -fstack-clash-protection
#cgo portable CFLAGS: -DCAUSEWAY_PORTABLE
#include "tables_write.h"
*/
import "C"

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"iter"
	"maps"
	"net/netip"
	"syscall"

	"causeway/ibside/ib"
)

// maxObjects bounds each Max of Config: 16 million entries are 1 GB an arena, and indexes are 32 bits.
const maxObjects = 1 << 24

// Config says how many objects and readers there may be. Zero means the default. Memory is reserved for all
// of them, but used only for those that exist.
type Config struct {
	MaxHosts    int // RoCE hosts; default 65536
	MaxProxyQPs int // default 65536
	MaxNodes    int // IB nodes; default 16384
	MaxGroups   int // default 4096
	MaxReaders  int // workers, each with a number below this; default 64
}

func (c *Config) fill() error {
	for _, f := range []struct {
		name  string
		value *int
		usual int
	}{
		{"MaxHosts", &c.MaxHosts, 65536},
		{"MaxProxyQPs", &c.MaxProxyQPs, 65536},
		{"MaxNodes", &c.MaxNodes, 16384},
		{"MaxGroups", &c.MaxGroups, 4096},
		{"MaxReaders", &c.MaxReaders, 64},
	} {
		if *f.value == 0 {
			*f.value = f.usual
		}
		if *f.value < 0 || *f.value > maxObjects {
			return fmt.Errorf("tables: %s is %d; use 1 to %d, or 0 for %d", f.name, *f.value, maxObjects, f.usual)
		}
	}
	return nil
}

// Tables is all tables together. See the package comment for who may call what. Each part has its own state, and
// changes its own tables only.
type Tables struct {
	Segment // the first; In has all
	Nodes   *Nodes
	Shared  *Groups // those that several segments share

	c        *C.struct_tables
	segments [MaxSegments]Segment
	pools    pools
}

// seeds are those of all tables, TABLE_SEED words each, in the order of struct tables.
type seeds [C.TABLE_SEED * C.TABLES_N]uint64

// New makes empty tables. They live outside the Go heap until Close.
func New(c Config) (*Tables, error) {
	return newSeeded(c, randomSeeds())
}

func newSeeded(c Config, s seeds) (*Tables, error) {
	if err := c.fill(); err != nil {
		return nil, err
	}
	var cs [len(s)]C.uint64_t
	for i := range s {
		cs[i] = C.uint64_t(s[i])
	}
	p := C.tables_new(&C.struct_tables_config{
		max_hosts:     C.uint32_t(c.MaxHosts),
		max_proxy_qps: C.uint32_t(c.MaxProxyQPs),
		max_nodes:     C.uint32_t(c.MaxNodes),
		max_groups:    C.uint32_t(c.MaxGroups),
		max_readers:   C.uint32_t(c.MaxReaders),
	}, &cs[0])
	if p == nil {
		return nil, fmt.Errorf("tables: no address space for %+v: %w; lower the Max values, or raise ulimit -v", c, syscall.ENOMEM)
	}
	return newParts(p, c), nil
}

// newParts makes the parts of the tables p.
func newParts(p *C.struct_tables, c Config) *Tables {
	t := &Tables{c: p}
	newIDs := func(what, limit string, most int) ids {
		return ids{what: what, limit: limit, max: uint32(most), readers: t}
	}
	t.pools = pools{
		hosts: newIDs("host", "MaxHosts", c.MaxHosts), proxyQPs: newIDs("proxy QP", "MaxProxyQPs", c.MaxProxyQPs),
		groups: newIDs("group", "MaxGroups", c.MaxGroups), proxyQPNs: map[ib.QPN]*proxyQP{}, mgids: map[ib.GID]segment{},
	}
	for i := range t.segments {
		t.segments[i] = newSegment(p, segment(i), &t.pools)
	}
	t.Segment = t.segments[0]
	t.Shared = newGroups(p, shared, &t.pools)
	t.Nodes = &Nodes{
		c: p, nodes: map[netip.Addr]*node{}, gids: map[ib.GID]*node{}, lids: map[ib.LID][]*node{}, lidsDue: map[ib.LID]struct{}{},
		ids: newIDs("node", "MaxNodes", c.MaxNodes),
	}
	return t
}

func randomSeeds() (s seeds) {
	var b [8 * len(s)]byte
	rand.Read(b[:]) // never fails: crypto/rand ends the program first
	for i := range s {
		s[i] = binary.NativeEndian.Uint64(b[8*i:])
	}
	return s
}

// Close frees the tables. No reader may be left, and nothing may be called afterwards but Close.
func (t *Tables) Close() {
	if t.c != nil {
		C.tables_free(t.c)
		t.c, t.Nodes.c, t.Shared.c = nil, nil, nil
		for _, s := range t.segments {
			s.Hosts.c, s.ProxyQPs.c, s.Groups.c = nil, nil, nil
		}
	}
}

// Near has all that readers read be on their NUMA node, now and when it grows, as long as that has memory left. -1 is any
// node.
func (t *Tables) Near(node int) { C.tables_near(t.c, C.int(node)) }

// Reclaim makes what was deleted or replaced usable again, as far as all readers have been quiescent since,
// and returns how many entries that were. It never waits; the management loop calls it now and then.
func (t *Tables) Reclaim() int {
	n := int(C.tables_reclaim(t.c))
	t.pools.hosts.reclaim()
	t.pools.proxyQPs.reclaim()
	t.Nodes.reclaim()
	t.pools.groups.reclaim()
	return n
}

func keysOf[K comparable, V any](m map[K]V) []K {
	s := make([]K, 0, len(m))
	for k := range m {
		s = append(s, k)
	}
	return s
}

func (t *Tables) token() uint64            { return uint64(C.tables_token(t.c)) }
func (t *Tables) passed(token uint64) bool { return C.tables_passed(t.c, C.uint64_t(token)) != 0 }

// objects yields the values of a map of records.
func objects[K comparable, R any, O any](m map[K]R, object func(R) O) iter.Seq[O] {
	return func(yield func(O) bool) {
		for r := range maps.Values(m) {
			if !yield(object(r)) {
				return
			}
		}
	}
}
