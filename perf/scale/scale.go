// SPDX-License-Identifier: Apache-2.0

// Package scale computes what many workers carry, from what one and two of them were measured to need.
package scale

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"slices"
)

// Costs are measured, in nanoseconds.
type Costs struct {
	ToIB     float64 // a packet that one worker carries from Ethernet to InfiniBand
	ToRoCE   float64 // one the other way
	HandOver float64 // what a packet costs more that is received by a worker and sent by another, to both together
}

// A Spread is how a network card chooses the worker of a frame.
type Spread int

const (
	// BySource is what the bridge asks for: a host's frames meet one worker, which then has its stand-ins.
	BySource Spread = iota
	// ByBoth is what cards do that cannot do that: by source and destination. A stand-in belongs to the worker that saw its
	// first frame, and others hand over.
	ByBoth
)

// nodesPerHost is to how many nodes each host sends, alike.
const nodesPerHost = 4

// draws is how many sets of addresses are tried.
const draws = 15

// traffic is hosts that all send as much, each to a few nodes, and are sent as much. Of each it is told where in a card's
// table its frames lead.
type traffic []struct {
	bySource uint8
	byBoth   [nodesPerHost]uint8
}

// newTraffic numbers hosts through from some address on, as people do, and nodes likewise.
func newTraffic(hosts int, seed uint64) traffic {
	r := rand.New(rand.NewPCG(uint64(hosts), seed))
	first, nodes := r.Uint32N(1<<24), r.Uint32N(1<<24)
	t := make(traffic, hosts)
	for i := range t {
		host := private(first + uint32(i))
		t[i].bySource = place(host)
		for j := range t[i].byBoth {
			t[i].byBoth[j] = place(host, private(nodes+r.Uint32N(uint32(max(hosts, nodesPerHost)))))
		}
	}
	return t
}

// private is an address of 10.0.0.0/8.
func private(n uint32) netip.Addr {
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, 10<<24|n&(1<<24-1))))
}

// load is what the workers have to do for one packet of each host to each of its nodes: nanoseconds by worker, and which
// share of the packets is handed over. What is more for a packet that is, both bear alike.
func (t traffic) load(workers int, s Spread, c Costs) (ns []float64, handed float64) {
	ns = make([]float64, workers)
	over := 0
	for i := range t {
		owner := t.owner(i, workers, s)
		for _, place := range t[i].byBoth {
			at := owner
			if s == ByBoth {
				at = queue(place, workers)
			}
			if at == owner {
				ns[at] += c.ToIB
				continue
			}
			over++
			ns[at] += (c.ToIB + c.HandOver) / 2
			ns[owner] += (c.ToIB + c.HandOver) / 2
		}
	}
	return ns, float64(over) / float64(nodesPerHost*len(t))
}

// owner is the worker that has a host's stand-ins: the one that received its first frame.
func (t traffic) owner(host, workers int, s Spread) int {
	if s == BySource {
		return queue(t[host].bySource, workers)
	}
	return queue(t[host].byBoth[0], workers)
}

// back is what the workers have to do for as many messages from InfiniBand: a stand-in's owner receives them.
func (t traffic) back(workers int, s Spread, c Costs) []float64 {
	ns := make([]float64, workers)
	for i := range t {
		ns[t.owner(i, workers, s)] += nodesPerHost * c.ToRoCE
	}
	return ns
}

// A Point is what so many workers carry until the busiest of them is full: nothing is lost up to there.
type Point struct {
	Hosts, Workers int
	ToIB, ToRoCE   float64 // Mpps, each way by itself
	Handed         float64 // share of packets towards InfiniBand that are handed over
}

// sets are several sets of addresses.
func sets(hosts int) []traffic {
	all := make([]traffic, draws)
	for seed := range all {
		all[seed] = newTraffic(hosts, uint64(seed))
	}
	return all
}

// at computes a point: of these sets of addresses the median.
func at(all []traffic, workers int, s Spread, c Costs) Point {
	var toIB, toRoCE, handed []float64
	for _, t := range all {
		packets := float64(nodesPerHost * len(t))
		ns, share := t.load(workers, s, c)
		toIB = append(toIB, 1e3*packets/slices.Max(ns))
		toRoCE = append(toRoCE, 1e3*packets/slices.Max(t.back(workers, s, c)))
		handed = append(handed, share)
	}
	return Point{Hosts: len(all[0]), Workers: workers, ToIB: median(toIB), ToRoCE: median(toRoCE), Handed: median(handed)}
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// Even is what workers carry that have as much to do each, when a share of the packets is handed over: towards InfiniBand,
// in Mpps.
func (c Costs) Even(workers int, handed float64) float64 {
	return 1e3 * float64(workers) / (c.ToIB + handed*c.HandOver)
}
