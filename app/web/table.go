// SPDX-License-Identifier: Apache-2.0

package web

import (
	"fmt"

	"causeway/lcore"
	"causeway/lcore/pgm"
)

// A kind is what Prometheus calls the type of a metric.
type kind string

const (
	counter   kind = "counter"
	gauge     kind = "gauge"
	histogram kind = "histogram"
)

// A Metric describes one family of samples. Scrapes and docs/metrics.md are made from the table of metrics.
type Metric struct {
	Name   string // as in a scrape; a histogram's samples add _bucket, _sum and _count
	Kind   kind
	Labels []string // of each sample; le is a histogram's own
	Help   string
}

// Labels. The number of their values is bounded: two directions, one worker a core, the drop list, the ports' words,
// the groups' limit.
var (
	byDirection = []string{"direction"}
	byWorker    = []string{"worker"}
	byReason    = []string{"direction", "reason"}
	byGroup     = []string{"group", "segment", "direction"}
	byMember    = []string{"member"}
	byEthPort   = []string{"port"}

	byPortAndDirection = []string{"port", "direction"}
)

// allMetrics returns every metric of the bridge, in the order of a scrape. Those of the program, processMetrics, are
// not among them.
func allMetrics() []Metric {
	var all []Metric
	for _, p := range parts() {
		all = append(all, p.metrics...)
	}
	return all
}

// A part is a section of the metrics' table.
type part struct {
	title   string
	metrics []Metric
}

// parts returns the sections of the table.
func parts() []part {
	return []part{
		{"The bridge", bridgeMetrics}, {"Packets", packetMetrics}, {"Workers and memory", workerMetrics}, {"Groups' packets", groupMetrics},
		{"Ports", portMetrics}, {"Several InfiniBand ports", fabricMetrics}, {"A fleet", fleetMetrics}, {"PGM", pgmMetrics()}, {"Services", serviceMetrics}, {"Management", managementMetrics}, {"Groups", groupCounts},
		{"Hosts and nodes", hostMetrics}, {"Proxy QPs", proxyQPMetrics}, {"RoCE segments", segmentMetrics},
	}
}

var bridgeMetrics = []Metric{
	{"causeway_build_info", gauge, []string{"name", "version", "dpdk"}, "Always 1; the labels name the bridge and its versions."},
	{"causeway_start_time_seconds", gauge, nil, "When the bridge was started, in seconds since 1970."},
	{"causeway_ready", gauge, nil, "1 when /readyz has nothing to name: the Ethernet port has a link, every configured group is joined on both sides, the path to every configured node has been found, no full table refuses new hosts or queue pairs."},
	{"causeway_draining", gauge, nil, "1 while the bridge is stopping, or has left its groups to another, or its part of a fleet to others."},
	{"causeway_rival_first", gauge, nil, "1 while the bridge carries nothing because of another one, which is not of its fleet and came before it between the same two fabrics."},
	{"causeway_waiting", gauge, nil, "The number of joins and paths that are missing."},
	{"causeway_log_lines_lost_total", counter, nil, "Lines of the log that could not be written to standard error, because nobody read them, or a disk was full."},
}

var packetMetrics = []Metric{
	{"causeway_packets_received_total", counter, byDirection, "Packets that the workers received from a port."},
	{"causeway_packets_sent_total", counter, byDirection, "Packets that the other port accepted."},
	{"causeway_payload_bytes_sent_total", counter, byDirection, "Payload bytes of the packets sent."},
	{"causeway_packets_dropped_total", counter, byReason,
		"Packets dropped, by reason. Received is sent plus dropped, while no packet is inside."},
	{"causeway_congestion_marked_total", counter, byDirection, "Packets received with a congestion mark (CE, FECN)."},
	{"causeway_reserved_cleared_total", counter, byDirection, "Packets received with reserved bits set, which the bridge cleared."},
	{"causeway_proxy_qp_waits_total", counter, byDirection, "Packets that waited for a new proxy QP."},
	{"causeway_handoffs_total", counter, byDirection, "Packets handed to the worker that owns the proxy QP."},
	{"causeway_group_copies_total", counter, byDirection, "Of the packets received: copies for the further segments of a group."},
	{"causeway_source_bridged_total", counter, byDirection, "Packets of an unknown source, sent with the bridge's own source address."},
	{"causeway_latency_seconds", histogram, byDirection,
		fmt.Sprintf("Time that packets spend in the bridge: from the reception of their burst until the other port takes it; of one burst in %d.", lcore.LatencyEvery)},
	{"causeway_latency_max_seconds", gauge, byDirection, "The longest of these, since the start or \"clear latency\"."},
}

var workerMetrics = []Metric{
	{"causeway_worker_loops_total", counter, byWorker, "Polls of a worker's queues."},
	{"causeway_worker_busy_loops_total", counter, byWorker, "Polls that found packets."},
	{"causeway_worker_sleeps_total", counter, byWorker, "Sleeps that something ends: a port, management or, at the latest, 100 ms ([workers] idle)."},
	{"causeway_worker_overslept_total", counter, byWorker, "Of those, the ones that only the 100 ms ended although packets had come: a port did not wake the worker. The first since it was woken does not count: its packets may have come just then."},
	{"causeway_worker_packets_received_total", counter, []string{"worker", "direction"}, "Packets that this worker received from a port."},
	{"causeway_worker_packets_sent_total", counter, []string{"worker", "direction"}, "Packets of this worker that the other port accepted."},
	{"causeway_mbufs_used", gauge, nil, "Packet buffers in use, including those in the ports' receive queues."},
	{"causeway_mbufs_limit", gauge, nil, "Packet buffers: [workers] mbufs."},
}

var groupMetrics = []Metric{
	{"causeway_group_packets_sent_total", counter, byGroup, "Packets of a group that crossed. `segment` names the RoCE segments that have it, and is empty where there is only one."},
	{"causeway_group_payload_bytes_sent_total", counter, byGroup, "Payload bytes of a group's packets that crossed."},
}

var portMetrics = []Metric{
	{"causeway_limit_reached", gauge, []string{"limit"}, "1 when the limit has refused something in the last minute; show status says what it is."},
	{"causeway_ib_port_active", gauge, nil, "1 when messages can pass the InfiniBand port: its state is ACTIVE."},
	{"causeway_port_link_up", gauge, nil, "1 when frames can pass the Ethernet port: the kernel's interface is there, set up and has a carrier; without one, as the driver reports."},
	{"causeway_ethernet_port_link_up", gauge, byEthPort, "1 when frames can pass the Ethernet port of that name. Where there are several, causeway_port_... are the sums over all."},
	{"causeway_ethernet_port_rx_frames_total", counter, byEthPort, "Frames received by the port."},
	{"causeway_ethernet_port_tx_frames_total", counter, byEthPort, "Frames sent by the port."},
	{"causeway_ethernet_port_rx_missed_total", counter, byEthPort, "Frames lost because a queue of the port was full."},
	{"causeway_ethernet_port_packets_received_total", counter, byPortAndDirection, "RoCE packets that came by the port; towards RoCE, messages that were routed to it. Received is sent plus dropped, while no packet is inside."},
	{"causeway_ethernet_port_packets_sent_total", counter, byPortAndDirection, "Of those, the ones that the InfiniBand port accepted; towards RoCE, that this port did."},
	{"causeway_ethernet_port_packets_dropped_total", counter, byPortAndDirection, "Of those, the ones that were dropped."},
	{"causeway_bond_member_link_up", gauge, byMember, "1 when a member of a bonded Ethernet port has a link. A port that is no bond has no samples of this and the next."},
	{"causeway_bond_member_carries", gauge, byMember, "1 when frames are sent and received by the member."},
	{"causeway_bond_member_failed", gauge, byMember, "1 when the member neither carries frames nor waits to do so: it has no link, or LACP keeps it out."},
	{"causeway_bond_member_changes_total", counter, byMember, "How often the member has begun or ceased to carry frames."},
	{"causeway_bond_member_rx_frames_total", counter, byMember, "Frames received by the member, LACP's included."},
	{"causeway_bond_member_tx_frames_total", counter, byMember, "Frames sent by the member."},
	{"causeway_bond_member_inactive_frames_total", counter, byMember, "Frames that were dropped because the member that they came to carries none."},
	{"causeway_bond_member_lacp_rx_frames_total", counter, byMember, "LACP's frames received by the member; 0 in a bond without LACP."},
	{"causeway_bond_member_lacp_tx_frames_total", counter, byMember, "LACP's frames sent by the member."},
	{"causeway_bond_member_lacp_failed_total", counter, byMember, "LACP's frames that were lost: too many came at once, or they could not be sent."},
	{"causeway_port_rx_frames_total", counter, nil, "Frames received by the Ethernet port, RoCE or not."},
	{"causeway_port_tx_frames_total", counter, nil, "Frames sent by the Ethernet port."},
	{"causeway_port_rx_bytes_total", counter, nil, "Bytes received by the Ethernet port."},
	{"causeway_port_tx_bytes_total", counter, nil, "Bytes sent by the Ethernet port."},
	{"causeway_port_rx_missed_total", counter, nil, "Frames lost because a queue was full: the workers were too slow, or on a port shared with the kernel management was. Absent where nobody on this machine counts them, as with memif."},
	{"causeway_port_rx_dropped_total", counter, nil, "Frames that the kernel's interface under an af_packet port dropped before the port: a CPU's queue was full (net.core.netdev_max_backlog). Those of protocols that nobody receives may be among them."},
	{"causeway_port_rx_errors_total", counter, nil, "Frames received with errors."},
	{"causeway_port_rx_no_mbuf_total", counter, nil, "Mbuf allocations that failed on receive: [workers] mbufs is too low."},
	{"causeway_port_tx_errors_total", counter, nil, "Frames that the port failed to send, or that the kernel's interface under an af_packet port dropped after it."},
	{"causeway_ib_port_lost_total", counter, byReason,
		"Packets lost by the InfiniBand port and not in the workers' counters: towards IB after the workers, towards RoCE before them."},
	{"causeway_ib_device_lost_total", counter, []string{"name"},
		"What the RDMA device counts of lost and damaged messages, in no other counter, by the kernel's name. A device has some of them."},
}

// pgmMetrics returns a metric for each of PGM's counts. Without a group that has pgm there are no samples.
func pgmMetrics() []Metric {
	var all []Metric
	for c := range pgm.Count(pgm.NCounts) {
		all = append(all, Metric{fmt.Sprintf("causeway_pgm_%v_total", c), counter, byDirection, sentence("PGM: " + c.Sentence())})
	}
	return append(all,
		Metric{"causeway_pgm_faults_total", counter, byReason, "Packets of groups with pgm that are not well-formed PGM."},
		Metric{"causeway_pgm_streams", gauge, nil, "PGM streams at the moment."},
		Metric{"causeway_pgm_streams_begun_total", counter, nil, "PGM streams that began."},
		Metric{"causeway_pgm_streams_aged_total", counter, nil, "PGM streams removed because they were idle."},
		Metric{"causeway_pgm_streams_evicted_total", counter, nil, "PGM streams removed because the table was full."},
	)
}

var serviceMetrics = []Metric{
	{"causeway_ib_service_requests_total", counter, []string{"result"}, "rdma_cm requests received by the InfiniBand port."},
	{"causeway_ib_service_connects_total", counter, []string{"result"}, "rdma_cm requests sent by the InfiniBand port."},
	{"causeway_sidr_total", counter, []string{"direction", "result"}, "Requests for services, by direction of the request."},
	{"causeway_sidr_pending", gauge, byDirection, "Pending requests for services."},
}

// sentence ends a text with a full stop.
func sentence(s string) string {
	if s == "" || s[len(s)-1] == '.' {
		return s
	}
	return s + "."
}
