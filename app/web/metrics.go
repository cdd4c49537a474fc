// SPDX-License-Identifier: Apache-2.0

// Package web serves metrics, health, readiness and status over HTTP.
package web

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"causeway/app/bridge"
	"causeway/app/condition"
	"causeway/dpdk"
	"causeway/lcore"
	"causeway/lcore/manage"
	"causeway/lcore/pgm"
)

// A Source has the state that is served. A *bridge.Bridge is one.
type Source interface {
	Counters() lcore.Counters
	Workers() []lcore.Counters   // none when the bridge is stopping
	Latency() [][2]lcore.Latency // by worker and direction
	condition.Source
	Ethernet() (s dpdk.Stats, up bool)
	Groups() map[bridge.GroupPlace]lcore.GroupCounters
	Lost() [2]map[string]uint64                       // by the IB port, by direction and reason
	LostByDevice() map[string]uint64                  // by the RDMA device, by its names
	Services() (requests, connects map[string]uint64) // of the IB port, by result
	PGM() (t pgm.Totals, enabled bool)
	Bond() (mode string, members []bridge.BondMember) // none: the Ethernet port is no bond
}

// writeMetrics writes every metric of src in Prometheus' text format. Every drop reason is there from the first scrape
// on, because a rate needs an earlier sample.
func writeMetrics(w io.Writer, src Source, o Options) { gather(src, o).writeTo(w) }

func gather(src Source, o Options) *scrape {
	s, c, status := newScrape(), src.Counters(), src.Status()
	s.boolean("causeway_ready", condition.Ready(src))
	s.boolean("causeway_rival_first", condition.Barred(src) != "")
	s.bridge(&status, o)
	for d := range c.Direction {
		s.direction(lcore.Direction(d).String(), &c.Direction[d])
	}
	s.latencies(src)
	m := src.Memory()
	s.add("causeway_mbufs_used", uint64(m.PacketsUsed))
	s.add("causeway_mbufs_limit", uint64(m.Packets))
	s.workers(src.Workers())
	s.groups(src.Groups())
	s.port(src)
	s.fabrics(src)
	s.fleet(src)
	if t, enabled := src.PGM(); enabled {
		s.pgm(&t)
	}
	s.services(src, &status)
	s.management(&c.Punt, &status.Counters)
	s.hosts(&status, o)
	s.segments(&status)
	return s
}

func (s *scrape) bridge(status *manage.Status, o Options) {
	s.add("causeway_build_info", 1, "name", o.Name, "version", o.Version, "dpdk", strings.TrimPrefix(o.DPDK, "DPDK "))
	s.sample("causeway_start_time_seconds", "", strconv.FormatFloat(float64(o.Started.UnixMilli())/1000, 'f', 3, 64), nil)
	s.boolean("causeway_draining", o.draining())
	s.add("causeway_waiting", uint64(status.Waiting))
	if o.LogLost != nil {
		s.add("causeway_log_lines_lost_total", o.LogLost())
	}
}

func (s *scrape) direction(d string, c *lcore.DirectionCounters) {
	for _, x := range []struct {
		name  string
		value uint64
	}{
		{"packets_received", c.Received}, {"packets_sent", c.Sent}, {"payload_bytes_sent", c.SentBytes},
		{"congestion_marked", c.CongestionMarked}, {"reserved_cleared", c.ReservedBits}, {"proxy_qp_waits", c.ProxyQPWaits},
		{"handoffs", c.Handoffs}, {"source_bridged", c.SourceBridged}, {"group_copies", c.GroupCopies},
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
		s.add("causeway_worker_sleeps_total", c.Sleeps, "worker", worker)
		s.add("causeway_worker_overslept_total", c.Overslept, "worker", worker)
		for d := range c.Direction {
			labels := []string{"worker", worker, "direction", lcore.Direction(d).String()}
			s.add("causeway_worker_packets_received_total", c.Direction[d].Received, labels...)
			s.add("causeway_worker_packets_sent_total", c.Direction[d].Sent, labels...)
		}
	}
}

func (s *scrape) groups(groups map[bridge.GroupPlace]lcore.GroupCounters) {
	for _, at := range slices.SortedFunc(maps.Keys(groups), bridge.GroupPlace.Compare) {
		g := groups[at]
		for d := range g.Packets {
			labels := []string{"group", at.IP.String(), "segment", at.Segments, "direction", lcore.Direction(d).String()}
			s.add("causeway_group_packets_sent_total", g.Packets[d], labels...)
			s.add("causeway_group_payload_bytes_sent_total", g.Bytes[d], labels...)
		}
	}
}

// port adds the counters of the Ethernet port, which are of all frames and not only of RoCE, and the losses of the IB
// port.
func (s *scrape) port(src Source) {
	p, up := src.Ethernet()
	s.boolean("causeway_port_link_up", up)
	s.bond(src)
	s.ethernetPorts(src)
	reached := map[string]uint64{}
	for _, l := range src.Limits() {
		reached[l.Name] = 1
	}
	for _, name := range bridge.LimitNames() {
		s.add("causeway_limit_reached", reached[name], "limit", name)
	}
	s.boolean("causeway_ib_port_active", src.InfiniBandDown() == "")
	s.add("causeway_port_rx_frames_total", p.RxPackets)
	s.add("causeway_port_tx_frames_total", p.TxPackets)
	s.add("causeway_port_rx_bytes_total", p.RxBytes)
	s.add("causeway_port_tx_bytes_total", p.TxBytes)
	if !p.RxMissedUnknown {
		s.add("causeway_port_rx_missed_total", p.RxMissed)
	}
	s.add("causeway_port_rx_dropped_total", p.RxDropped)
	s.add("causeway_port_rx_errors_total", p.RxErrors)
	s.add("causeway_port_rx_no_mbuf_total", p.RxNoMbuf)
	s.add("causeway_port_tx_errors_total", p.TxErrors)
	for d, lost := range src.Lost() {
		for _, reason := range lostReasons(d, lost) {
			s.add("causeway_ib_port_lost_total", lost[reason], "direction", lcore.Direction(d).String(), "reason", reason)
		}
	}
	device := src.LostByDevice()
	for _, name := range slices.Sorted(maps.Keys(device)) {
		s.add("causeway_ib_device_lost_total", device[name], "name", name)
	}
}

// usualLosses are there from the first scrape on. Other reasons appear with their first loss.
var usualLosses = [2][]string{
	lcore.RoCEToIB: {"ah_failed", "ah_pending", "mtu", "no_qp", "pkey_lost", "qp_down", "qp_full", "wc_error"},
	lcore.IBToRoCE: {"port_full", "mbuf_small", "no_buffer", "no_mbuf", "no_qp", "qkey", "wc_error"},
}

// lostReasons returns the reasons so far and the usual ones, in order.
func lostReasons(d int, lost map[string]uint64) []string {
	reasons := slices.Concat(usualLosses[d], slices.Collect(maps.Keys(lost)))
	slices.Sort(reasons)
	return slices.Compact(reasons)
}

// pgm adds the PGM counters, of all streams together: labels by stream would not be bounded, because senders choose the
// names.
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

// bond adds the members of a bonded Ethernet port.
func (s *scrape) bond(src Source) {
	_, members := src.Bond()
	for i := range members {
		m := &members[i]
		for _, x := range []struct {
			name  string
			value uint64
		}{
			{"link_up", truth(m.Up)}, {"carries", truth(m.Carries)}, {"failed", truth(!m.Carries && !m.Standby)}, {"changes_total", m.Changes},
			{"rx_frames_total", m.Stats.RxPackets}, {"tx_frames_total", m.Stats.TxPackets},
			{"inactive_frames_total", m.Inactive}, {"lacp_failed_total", m.SlowLost},
			{"lacp_rx_frames_total", m.Protocol.Received}, {"lacp_tx_frames_total", m.Protocol.Sent},
		} {
			s.add("causeway_bond_member_"+x.name, x.value, "member", m.Name)
		}
	}
}
