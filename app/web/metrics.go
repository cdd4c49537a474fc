// SPDX-License-Identifier: Apache-2.0

// Package web is the bridge's HTTP face: what Prometheus scrapes, what a supervisor asks, what a person looks at.
package web

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"causeway/app/house"
	"causeway/dpdk"
	"causeway/lcore"
	"causeway/lcore/manage"
	"causeway/lcore/pgm"
)

// A Bridge is what there is to tell about.
type Bridge interface {
	Counters() lcore.Counters
	Workers() []lcore.Counters   // none, when the bridge is taken down
	Latency() [][2]lcore.Latency // by worker and direction
	Status() manage.Status
	Ethernet() (s dpdk.Stats, up bool)
	Memory() house.Memory
	Groups() map[netip.Addr]lcore.GroupCounters
	Lost() [2]map[string]uint64                       // by the IB door, by direction and reason
	Services() (requests, connects map[string]uint64) // of the IB door, by result
	PGM() (t pgm.Totals, watched bool)
	ListGroups(ctx context.Context, q manage.Query) (manage.List[manage.GroupEntry], error)
	ListNodes(ctx context.Context, q manage.Query) (manage.List[manage.NodeEntry], error)
}

// WriteMetrics writes every metric of b in Prometheus' text format. Every drop reason is there from the
// first scrape on, so that a rate has a beginning.
func WriteMetrics(w io.Writer, b Bridge, o Options) { gather(b, o).writeTo(w) }

func gather(b Bridge, o Options) *scrape {
	s, c, status := newScrape(), b.Counters(), b.Status()
	s.bridge(&status, o)
	for d := range c.Direction {
		s.direction(lcore.Direction(d).String(), &c.Direction[d])
	}
	s.latencies(b)
	m := b.Memory()
	s.add("causeway_mbufs_used", uint64(m.PacketsUsed))
	s.add("causeway_mbufs_limit", uint64(m.Packets))
	s.workers(b.Workers())
	s.groups(b.Groups())
	s.port(b)
	if t, watched := b.PGM(); watched {
		s.pgm(&t)
	}
	s.services(b, &status)
	s.management(&c.Odd, &status.Counters)
	s.hosts(&status, o)
	return s
}

func (s *scrape) bridge(status *manage.Status, o Options) {
	s.add("causeway_build_info", 1, "name", o.Name, "version", o.Version, "dpdk", strings.TrimPrefix(o.DPDK, "DPDK "))
	s.sample("causeway_start_time_seconds", "", strconv.FormatFloat(float64(o.Started.UnixMilli())/1000, 'f', 3, 64), nil)
	s.truth("causeway_ready", status.Ready)
	s.truth("causeway_draining", o.draining())
	s.add("causeway_waiting", uint64(status.Waiting))
}

func (s *scrape) direction(d string, c *lcore.DirectionCounters) {
	for _, x := range []struct {
		name  string
		value uint64
	}{
		{"packets_received", c.Received}, {"packets_sent", c.Sent}, {"payload_bytes_sent", c.SentBytes},
		{"congestion_marked", c.CongestionMarked}, {"reserved_cleared", c.ReservedBits}, {"standin_waits", c.StandInWaits},
		{"handed_over", c.HandedOver}, {"source_bridged", c.SourceBridged},
	} {
		s.add("causeway_"+x.name+"_total", x.value, "direction", d)
	}
	for _, reason := range lcore.Drops() {
		s.add("causeway_packets_dropped_total", c.Drops[reason], "direction", d, "reason", reason.String())
	}
}

func (s *scrape) workers(workers []lcore.Counters) {
	for i, c := range workers {
		worker := fmt.Sprint(i)
		s.add("causeway_worker_loops_total", c.Loops, "worker", worker)
		s.add("causeway_worker_busy_loops_total", c.Busy, "worker", worker)
		for d := range c.Direction {
			labels := []string{"worker", worker, "direction", lcore.Direction(d).String()}
			s.add("causeway_worker_packets_received_total", c.Direction[d].Received, labels...)
			s.add("causeway_worker_packets_sent_total", c.Direction[d].Sent, labels...)
		}
	}
}

func (s *scrape) groups(groups map[netip.Addr]lcore.GroupCounters) {
	for _, ip := range slices.SortedFunc(maps.Keys(groups), netip.Addr.Compare) {
		g := groups[ip]
		for d := range g.Packets {
			labels := []string{"group", ip.String(), "direction", lcore.Direction(d).String()}
			s.add("causeway_group_packets_sent_total", g.Packets[d], labels...)
			s.add("causeway_group_payload_bytes_sent_total", g.Bytes[d], labels...)
		}
	}
}

// port tells what the Ethernet port counts itself, all frames and not RoCE alone, and what the IB door loses.
func (s *scrape) port(b Bridge) {
	p, up := b.Ethernet()
	s.truth("causeway_port_link_up", up)
	s.add("causeway_port_rx_frames_total", p.RxPackets)
	s.add("causeway_port_tx_frames_total", p.TxPackets)
	s.add("causeway_port_rx_bytes_total", p.RxBytes)
	s.add("causeway_port_tx_bytes_total", p.TxBytes)
	s.add("causeway_port_rx_missed_total", p.RxMissed)
	s.add("causeway_port_rx_errors_total", p.RxErrors)
	s.add("causeway_port_rx_no_mbuf_total", p.RxNoMbuf)
	s.add("causeway_port_tx_errors_total", p.TxErrors)
	for d, lost := range b.Lost() {
		for _, reason := range lostReasons(d, lost) {
			s.add("causeway_ib_port_lost_total", lost[reason], "direction", lcore.Direction(d).String(), "reason", reason)
		}
	}
}

// usualLosses are there from the first scrape on, so that a rate has a beginning. The doors have more, which come when there is
// something to count.
var usualLosses = [2][]string{
	lcore.RoCEToIB: {"ah_failed", "ah_pending", "mtu", "no_qp", "qp_down", "qp_full", "wc_error"},
	lcore.IBToRoCE: {"door_full", "mbuf_small", "no_buffer", "no_mbuf", "no_qp", "qkey", "wc_error"},
}

// lostReasons returns in order the reasons that there have been, and the usual ones.
func lostReasons(d int, lost map[string]uint64) []string {
	reasons := slices.Concat(usualLosses[d], slices.Collect(maps.Keys(lost)))
	slices.Sort(reasons)
	return slices.Compact(reasons)
}

// pgm tells what groups with PGM lose, all streams together: senders may choose what streams are called.
func (s *scrape) pgm(t *pgm.Totals) {
	for d := range t.Direction {
		direction := lcore.Direction(d).String()
		for c, n := range t.Direction[d].Counts {
			s.add(fmt.Sprintf("causeway_pgm_%v_total", pgm.Count(c)), n, "direction", direction)
		}
		for f, n := range t.Direction[d].Faults[1:] {
			s.add("causeway_pgm_faults_total", n, "direction", direction, "reason", pgm.Fault(f+1).String())
		}
	}
	s.add("causeway_pgm_streams", t.Streams)
	s.add("causeway_pgm_streams_begun_total", t.Begun)
	s.add("causeway_pgm_streams_aged_total", t.Aged)
	s.add("causeway_pgm_streams_evicted_total", t.Evicted)
}
