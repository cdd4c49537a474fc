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

// A Metric describes one family of samples. The table of them is what a scrape and docs/metrics.md are made of.
type Metric struct {
	Name   string // as in a scrape; a histogram's samples add _bucket, _sum and _count
	Kind   kind
	Labels []string // of each sample; le is a histogram's own
	Help   string
}

// Labels whose values are bounded: two directions, one worker a core, the drop list, the doors' own words, the groups' limit.
var (
	byDirection = []string{"direction"}
	byWorker    = []string{"worker"}
	byReason    = []string{"direction", "reason"}
	byGroup     = []string{"group", "direction"}
)

// Metrics returns every metric of the bridge's own, in the order of a scrape. What the library tells of the process, go_… and
// process_…, is not among them.
func Metrics() []Metric {
	var all []Metric
	for _, p := range parts() {
		all = append(all, p.metrics...)
	}
	return all
}

// parts are the sections of the table.
func parts() []part {
	return []part{
		{"The bridge", bridgeMetrics}, {"Packets", packetMetrics}, {"Workers and memory", workerMetrics}, {"Groups' packets", groupMetrics},
		{"Ports", portMetrics}, {"PGM", pgmMetrics()}, {"Services", serviceMetrics}, {"Management", managementMetrics}, {"Groups", groupCounts},
		{"Hosts and nodes", hostMetrics}, {"Stand-ins", standInMetrics},
	}
}

var bridgeMetrics = []Metric{
	{"causeway_build_info", gauge, []string{"name", "version", "dpdk"}, "Always 1; the labels name the bridge and its versions."},
	{"causeway_start_time_seconds", gauge, nil, "When the bridge was started, in seconds since 1970."},
	{"causeway_ready", gauge, nil, "1 when every configured group is joined on both sides and every configured node has its path."},
	{"causeway_draining", gauge, nil, "1 while the bridge ends, or leaves everything to another: it has left its groups."},
	{"causeway_waiting", gauge, nil, "Joins and paths that are not there yet."},
}

var packetMetrics = []Metric{
	{"causeway_packets_received_total", counter, byDirection, "Packets that the workers took from a door."},
	{"causeway_packets_sent_total", counter, byDirection, "Packets that the other door took."},
	{"causeway_payload_bytes_sent_total", counter, byDirection, "Payload of the packets sent."},
	{"causeway_packets_dropped_total", counter, byReason,
		"Packets that ended inside, by the one reason why; received is sent and all of these together, at any quiet moment."},
	{"causeway_congestion_marked_total", counter, byDirection, "Packets that came marked as having met congestion (CE, FECN)."},
	{"causeway_reserved_cleared_total", counter, byDirection, "Packets with reserved bits set, which the bridge cleared."},
	{"causeway_standin_waits_total", counter, byDirection, "Packets that waited for a stand-in to be made."},
	{"causeway_handed_over_total", counter, byDirection, "Packets that went to the worker that owns the stand-in."},
	{"causeway_source_bridged_total", counter, byDirection, "Packets of an unknown source, sent with the bridge's own address."},
	{"causeway_latency_seconds", histogram, byDirection,
		fmt.Sprintf("What the bridge adds: from the reception of a packet's burst to its hand-over to the other door; of one burst in %d.", lcore.LatencyEvery)},
	{"causeway_latency_max_seconds", gauge, byDirection, "The longest of those, since the start or \"clear latency\"."},
}

var workerMetrics = []Metric{
	{"causeway_worker_loops_total", counter, byWorker, "Times that a worker looked at its queues."},
	{"causeway_worker_busy_loops_total", counter, byWorker, "Looks that moved something."},
	{"causeway_worker_packets_received_total", counter, []string{"worker", "direction"}, "Packets that this worker took from a door."},
	{"causeway_worker_packets_sent_total", counter, []string{"worker", "direction"}, "Packets of this worker's that the other door took."},
	{"causeway_mbufs_used", gauge, nil, "Packet buffers that are in use, those in the ports' receive queues among them."},
	{"causeway_mbufs_limit", gauge, nil, "Packet buffers that there are: [workers] mbufs."},
}

var groupMetrics = []Metric{
	{"causeway_group_packets_sent_total", counter, byGroup, "A group's packets that crossed."},
	{"causeway_group_payload_bytes_sent_total", counter, byGroup, "Payload of a group's packets that crossed."},
}

var portMetrics = []Metric{
	{"causeway_port_link_up", gauge, nil, "1 when the Ethernet port's link is up, as its driver says; af_packet always says so."},
	{"causeway_port_rx_frames_total", counter, nil, "Frames that the Ethernet port received, RoCE or not."},
	{"causeway_port_tx_frames_total", counter, nil, "Frames that the Ethernet port sent."},
	{"causeway_port_rx_bytes_total", counter, nil, "Bytes that the Ethernet port received."},
	{"causeway_port_tx_bytes_total", counter, nil, "Bytes that the Ethernet port sent."},
	{"causeway_port_rx_missed_total", counter, nil, "Frames lost because the queue was full: the workers were too slow."},
	{"causeway_port_rx_errors_total", counter, nil, "Frames that came damaged."},
	{"causeway_port_rx_no_mbuf_total", counter, nil, "Times that the mempool was empty: [workers] mbufs are too few."},
	{"causeway_port_tx_errors_total", counter, nil, "Frames that the port could not send."},
	{"causeway_ib_port_lost_total", counter, byReason,
		"What the InfiniBand door lost outside of the workers' books: towards IB after, towards RoCE before they counted it."},
}

// pgmMetrics has one metric for each of PGM's counts. A bridge without a group that has pgm names them, and has no samples.
func pgmMetrics() []Metric {
	var all []Metric
	for c := range pgm.Count(pgm.NCounts) {
		all = append(all, Metric{fmt.Sprintf("causeway_pgm_%v_total", c), counter, byDirection, sentence("PGM: " + c.Sentence())})
	}
	return append(all,
		Metric{"causeway_pgm_faults_total", counter, byReason, "Packets of groups with pgm that are not well-formed PGM."},
		Metric{"causeway_pgm_streams", gauge, nil, "PGM streams that are known now."},
		Metric{"causeway_pgm_streams_begun_total", counter, nil, "PGM streams that began."},
		Metric{"causeway_pgm_streams_aged_total", counter, nil, "PGM streams that were forgotten after silence."},
		Metric{"causeway_pgm_streams_evicted_total", counter, nil, "PGM streams that were forgotten for want of room."},
	)
}

var serviceMetrics = []Metric{
	{"causeway_ib_service_requests_total", counter, []string{"result"}, "rdma_cm's requests that came to the InfiniBand door."},
	{"causeway_ib_service_connects_total", counter, []string{"result"}, "rdma_cm's requests that the InfiniBand door sent."},
	{"causeway_sidr_total", counter, []string{"direction", "result"}, "Requests for services, by direction of the request."},
	{"causeway_sidr_pending", gauge, byDirection, "Requests for services that are under way."},
}

// sentence ends a text with a full stop.
func sentence(s string) string {
	if s == "" || s[len(s)-1] == '.' {
		return s
	}
	return s + "."
}
