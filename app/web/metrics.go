// SPDX-License-Identifier: Apache-2.0

// Package web is the bridge's HTTP face: what Prometheus scrapes.
package web

import (
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"

	"github.com/VictoriaMetrics/metrics"

	"causeway/dpdk"
	"causeway/lcore"
	"causeway/lcore/manage"
	"causeway/lcore/pgm"
)

// A Bridge is what there is to tell about.
type Bridge interface {
	Counters() lcore.Counters
	Status() manage.Status
	Ethernet() (s dpdk.Stats, up bool)
	Groups() map[netip.Addr]lcore.GroupCounters
	Lost() [2]map[string]uint64                       // by the IB door, by direction and reason
	Services() (requests, connects map[string]uint64) // of the IB door, by result
	PGM() (t pgm.Totals, watched bool)
}

// WriteMetrics writes every metric of b in Prometheus' text format. Every drop reason is there from the
// first scrape on, so that a rate has a beginning.
func WriteMetrics(w io.Writer, b Bridge) {
	c, s := b.Counters(), b.Status()
	for d := range c.Direction {
		writeDirection(w, lcore.Direction(d), &c.Direction[d])
	}
	writeGroups(w, b.Groups())
	writePort(w, b)
	for d, lost := range b.Lost() {
		for _, reason := range slices.Sorted(maps.Keys(lost)) {
			counter(w, fmt.Sprintf(`causeway_ib_port_lost_total{direction="%v",reason=%q}`, lcore.Direction(d), reason), lost[reason])
		}
	}
	if t, watched := b.PGM(); watched {
		writePGM(w, &t)
	}
	writeServices(w, b)
	writeOdd(w, &c.Odd, &s.Counters)
	counter(w, "causeway_worker_loops_total", c.Loops)
	counter(w, "causeway_worker_busy_loops_total", c.Busy)
	writeSIDR(w, &s)
	writeStatus(w, &s)
	metrics.WriteProcessMetrics(w)
}

func writeDirection(w io.Writer, d lcore.Direction, c *lcore.DirectionCounters) {
	label := func(name string) string { return fmt.Sprintf(`causeway_%s{direction="%v"}`, name, d) }
	counter(w, label("packets_received_total"), c.Received)
	counter(w, label("packets_sent_total"), c.Sent)
	counter(w, label("payload_bytes_sent_total"), c.SentBytes)
	counter(w, label("congestion_marked_total"), c.CongestionMarked)
	counter(w, label("reserved_bits_total"), c.ReservedBits)
	counter(w, label("standin_waits_total"), c.StandInWaits)
	counter(w, label("handed_over_total"), c.HandedOver)
	counter(w, label("source_bridged_total"), c.SourceBridged)
	for _, reason := range lcore.Drops() {
		counter(w, fmt.Sprintf(`causeway_packets_dropped_total{direction="%v",reason="%v"}`, d, reason), c.Drops[reason])
	}
}

func writeGroups(w io.Writer, groups map[netip.Addr]lcore.GroupCounters) {
	for _, ip := range slices.SortedFunc(maps.Keys(groups), netip.Addr.Compare) {
		g := groups[ip]
		for d := range g.Packets {
			labels := fmt.Sprintf(`{group="%v",direction="%v"}`, ip, lcore.Direction(d))
			counter(w, "causeway_group_packets_sent_total"+labels, g.Packets[d])
			counter(w, "causeway_group_payload_bytes_sent_total"+labels, g.Bytes[d])
		}
	}
}

// writePGM tells what groups with PGM lose, all streams together: senders may choose what streams are called.
func writePGM(w io.Writer, t *pgm.Totals) {
	for d := range t.Direction {
		for c, n := range t.Direction[d].Counts {
			counter(w, fmt.Sprintf(`causeway_pgm_%v_total{direction="%v"}`, pgm.Count(c), lcore.Direction(d)), n)
		}
		for f, n := range t.Direction[d].Faults[1:] {
			counter(w, fmt.Sprintf(`causeway_pgm_faults_total{direction="%v",reason="%v"}`, lcore.Direction(d), pgm.Fault(f+1)), n)
		}
	}
	gauge(w, "causeway_pgm_streams", t.Streams)
	counter(w, "causeway_pgm_streams_begun_total", t.Begun)
	counter(w, "causeway_pgm_streams_aged_total", t.Aged)
	counter(w, "causeway_pgm_streams_evicted_total", t.Evicted)
}

// writeServices tells what the IB door counts of connection set-up. The results are few: the doors' own words.
func writeServices(w io.Writer, b Bridge) {
	requests, connects := b.Services()
	for _, result := range slices.Sorted(maps.Keys(requests)) {
		counter(w, fmt.Sprintf(`causeway_ib_service_requests_total{result=%q}`, result), requests[result])
	}
	for _, result := range slices.Sorted(maps.Keys(connects)) {
		counter(w, fmt.Sprintf(`causeway_ib_service_connects_total{result=%q}`, result), connects[result])
	}
}

// writePort tells what the Ethernet port counts itself, all frames and not RoCE alone.
func writePort(w io.Writer, b Bridge) {
	s, up := b.Ethernet()
	counter(w, "causeway_port_rx_frames_total", s.RxPackets)
	counter(w, "causeway_port_tx_frames_total", s.TxPackets)
	counter(w, "causeway_port_rx_bytes_total", s.RxBytes)
	counter(w, "causeway_port_tx_bytes_total", s.TxBytes)
	counter(w, "causeway_port_rx_missed_total", s.RxMissed)
	counter(w, "causeway_port_rx_errors_total", s.RxErrors)
	counter(w, "causeway_port_rx_no_mbuf_total", s.RxNoMbuf)
	counter(w, "causeway_port_tx_errors_total", s.TxErrors)
	link := uint64(0)
	if up {
		link = 1
	}
	gauge(w, "causeway_port_link_up", link)
}

func writeOdd(w io.Writer, o *lcore.OddCounters, m *manage.Counters) {
	counter(w, "causeway_management_frames_received_total", o.Received)
	counter(w, "causeway_management_frames_lost_total", o.Full)
	counter(w, "causeway_management_frames_sent_total", o.Sent)
	counter(w, "causeway_management_frames_refused_total", o.Refused)
	counter(w, "causeway_arp_answered_total", m.ARPAnswered)
	counter(w, "causeway_nd_answered_total", m.NDAnswered)
	counter(w, "causeway_echo_answered_total", m.EchoAnswered)
	counter(w, "causeway_group_reports_total", m.GroupReports)
	counter(w, "causeway_group_queries_total", m.GroupQueries)
	counter(w, "causeway_group_queries_sent_total", m.GroupQueriesSent)
	counter(w, "causeway_group_reports_heard_total", m.GroupReportsHeard)
	counter(w, "causeway_group_notices_total", m.GroupNotices)
	counter(w, "causeway_groups_learned_total", m.GroupsLearned)
	counter(w, "causeway_groups_forgotten_total", m.GroupsForgotten)
	for _, reason := range manage.GroupRefusals {
		counter(w, fmt.Sprintf(`causeway_groups_refused_total{reason=%q}`, reason), m.GroupsRefused[reason])
	}
	counter(w, "causeway_hosts_learned_total", m.HostsLearned)
	counter(w, "causeway_hosts_moved_total", m.HostsMoved)
	counter(w, "causeway_host_flaps_total", m.HostFlaps)
	counter(w, "causeway_host_conflicts_total", m.HostConflicts)
	counter(w, "causeway_hosts_refused_total", m.HostsRefused)
	counter(w, "causeway_hosts_forgotten_total", m.HostsForgotten)
	counter(w, "causeway_hosts_aged_total", m.HostsAged)
	counter(w, "causeway_hosts_silent_total", m.HostsSilent)
	counter(w, "causeway_hosts_asked_total", m.HostsAsked)
	counter(w, "causeway_addresses_announced_total", m.AddressesAnnounced)
	counter(w, "causeway_addresses_defended_total", m.AddressesDefended)
	counter(w, "causeway_nodes_absent_total", m.NodesAbsent)
	counter(w, "causeway_spoofs_total", m.Spoofs)
	counter(w, "causeway_standins_made_total", m.StandInsMade)
	counter(w, "causeway_standins_denied_total", m.StandInsDenied)
	counter(w, "causeway_standins_aged_total", m.StandInsAged)
	counter(w, "causeway_management_frames_not_for_us_total", m.NotForUs)
	counter(w, "causeway_management_frames_unsent_total", m.SendFailed)
	for _, reason := range malformed(m) {
		counter(w, fmt.Sprintf(`causeway_management_frames_malformed_total{reason=%q}`, reason), m.Malformed[reason])
	}
}

// malformed returns in order the reasons that there have been, and those of each protocol, which are there from the
// first scrape on.
func malformed(m *manage.Counters) []string {
	reasons := map[string]bool{"arp_bad": true, "nd_bad": true, "igmp_bad": true, "mld_bad": true, "icmp_bad": true, "mad_bad": true}
	for reason := range m.Malformed {
		reasons[reason] = true
	}
	return slices.Sorted(maps.Keys(reasons))
}

func writeStatus(w io.Writer, s *manage.Status) {
	ready := uint64(0)
	if s.Ready {
		ready = 1
	}
	gauge(w, "causeway_ready", ready)
	gauge(w, "causeway_waiting", uint64(s.Waiting))
	gauge(w, "causeway_hosts", uint64(s.Hosts))
	gauge(w, "causeway_nodes", uint64(s.Nodes))
	gauge(w, "causeway_groups", uint64(s.Groups))
	gauge(w, "causeway_groups_learned", uint64(s.Learned))
	gauge(w, "causeway_standins", uint64(s.StandIns))
	gauge(w, "causeway_ib_gids", uint64(s.OwnGIDs))
	gauge(w, "causeway_host_gids", uint64(s.HostGIDs))
}

func counter(w io.Writer, name string, v uint64) { metrics.WriteCounterUint64(w, name, v) }

func gauge(w io.Writer, name string, v uint64) { metrics.WriteGaugeUint64(w, name, v) }
