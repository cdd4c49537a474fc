// SPDX-License-Identifier: Apache-2.0

package web

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"time"

	"causeway/app/bridge"
	"causeway/app/condition"
	"causeway/lcore"
	"causeway/lcore/manage"
)

// A Status is the object of /status.json. Keys may be added; existing ones keep their names and meanings. The tag "is"
// is the text of docs/metrics.md.
type Status struct {
	Name          string   `json:"name" is:"[bridge] name"`
	Version       string   `json:"version" is:"of the program"`
	DPDK          string   `json:"dpdk" is:"DPDK's version"`
	Started       string   `json:"started" is:"when the bridge was started, RFC 3339"`
	UptimeSeconds float64  `json:"uptime_seconds" is:"since then"`
	Ready         bool     `json:"ready" is:"the Ethernet port has a link, every configured group is joined on both sides, the path to every configured node has been found, no full table refuses new hosts or queue pairs"`
	Draining      bool     `json:"draining" is:"the bridge is stopping, or has left its groups to another, or its part of a fleet to others"`
	Waiting       int      `json:"waiting" is:"the number of joins and paths that are missing"`
	Awaited       []string `json:"awaited" is:"the missing joins and paths, as /readyz lists them"`
	Faults        []string `json:"faults" is:"what else keeps it from being ready, as /readyz lists it"`
	Remarks       []string `json:"remarks" is:"what an operator must know of it all the same: that it is drained, that faults are injected, what is full, that most is dropped"`
	Dropping      []string `json:"-"`

	Counts       Counts                     `json:"counts" is:"entries at the moment"`
	Limits       Limits                     `json:"limits" is:"the most entries"`
	Directions   map[string]DirectionStatus `json:"directions" is:"by roce_to_ib and ib_to_roce"`
	Latency      map[string]LatencyStatus   `json:"latency" is:"by direction: the time that packets spend in the bridge"`
	Workers      []WorkerStatus             `json:"workers" is:"in the order of [workers] lcores"`
	Groups       []GroupStatus              `json:"groups" is:"by address"`
	Port         PortStatus                 `json:"port" is:"the Ethernet port"`
	Lost         map[string]Numbers         `json:"ib_port_lost" is:"by direction: what the InfiniBand port lost, by reason"`
	LostByDevice Numbers                    `json:"ib_device_lost" is:"what the RDMA device counts of lost and damaged messages, by the kernel's name; those that are zero are left out"`
}

// Numbers are counts by reason; those that are zero are left out.
type Numbers map[string]uint64

// Counts is the number of entries.
type Counts struct {
	Hosts         int `json:"hosts" is:"RoCE hosts"`
	Nodes         int `json:"nodes" is:"InfiniBand nodes"`
	Groups        int `json:"groups" is:"groups that are bridged"`
	GroupsLearned int `json:"groups_learned" is:"learned groups, joined or not"`
	ProxyQPs      int `json:"proxy_qps" is:"proxy QPs"`
	HostGIDs      int `json:"host_gids" is:"hosts with a GID of their own on InfiniBand"`
	IBGIDs        int `json:"ib_gids" is:"GIDs to send from"`
	Pending       int `json:"sidr_pending" is:"pending requests for services"`
}

// Limits are the limits of [workers].
type Limits struct {
	Hosts    int `json:"hosts" is:"[workers] hosts"`
	Groups   int `json:"groups" is:"[workers] groups"`
	ProxyQPs int `json:"proxy_qps" is:"[workers] proxy_qps"`
}

// DirectionStatus is the counters of one direction.
type DirectionStatus struct {
	Received  uint64  `json:"received" is:"packets taken from a port"`
	Sent      uint64  `json:"sent" is:"packets that the other port took"`
	SentBytes uint64  `json:"sent_payload_bytes" is:"their payload"`
	Dropped   uint64  `json:"dropped" is:"packets that were dropped; received is sent plus dropped"`
	Drops     Numbers `json:"drops" is:"by reason; those that are zero are left out"`
}

// LatencyStatus is of the packets whose latency was measured, a sample.
type LatencyStatus struct {
	Count  uint64  `json:"count" is:"packets that were measured"`
	Median float64 `json:"median_seconds" is:"half of them took no longer"`
	P99    float64 `json:"p99_seconds" is:"99 of 100 took no longer"`
	P999   float64 `json:"p99_9_seconds" is:"999 of 1000 took no longer"`
	Max    float64 `json:"max_seconds" is:"the longest"`
}

// WorkerStatus is the counters of one worker.
type WorkerStatus struct {
	Loops      uint64                     `json:"loops" is:"polls of its queues"`
	Busy       uint64                     `json:"busy_loops" is:"polls that found packets"`
	Directions map[string]DirectionStatus `json:"directions" is:"as above"`
}

// GroupStatus is the counters of one group address.
type GroupStatus struct {
	IP       string            `json:"ip" is:"the group on RoCE"`
	Segments string            `json:"segments,omitempty" is:"where there are several: those that have it"`
	Packets  map[string]uint64 `json:"packets" is:"by direction: packets that crossed"`
	Bytes    map[string]uint64 `json:"payload_bytes" is:"by direction: their payload"`
}

// PortStatus is the Ethernet port's own counters.
type PortStatus struct {
	LinkUp    bool    `json:"link_up" is:"frames can pass: as the kernel's interface has it, or the driver where there is none"`
	LinkDown  string  `json:"link_down" is:"why they cannot: carrier, admin (not set up) or deleted; empty while they can"`
	RxFrames  uint64  `json:"rx_frames" is:"frames received, RoCE or not"`
	TxFrames  uint64  `json:"tx_frames" is:"frames sent"`
	RxBytes   uint64  `json:"rx_bytes" is:"bytes received"`
	TxBytes   uint64  `json:"tx_bytes" is:"bytes sent"`
	RxMissed  *uint64 `json:"rx_missed" is:"frames lost because the workers were too slow, or on a port shared with the kernel management was; null: nobody on this machine counts them, as with memif"`
	RxDropped uint64  `json:"rx_dropped" is:"frames that the kernel's interface dropped before the port"`
	RxErrors  uint64  `json:"rx_errors" is:"frames received with errors"`
	RxNoMbuf  uint64  `json:"rx_no_mbuf" is:"allocations that failed because the mempool was empty"`
	TxErrors  uint64  `json:"tx_errors" is:"frames that could not be sent, or that the kernel's interface dropped afterwards"`
}

// readStatus reads the status of src.
func readStatus(ctx context.Context, src Source, o Options) Status {
	s, c := src.Status(), o.config()
	out := Status{
		Name: o.Name, Version: o.Version, DPDK: o.DPDK, Started: o.Started.UTC().Format(time.RFC3339),
		UptimeSeconds: time.Since(o.Started).Seconds(), Ready: condition.Ready(src), Draining: o.draining(), Waiting: s.Waiting, Awaited: []string{},
		Faults: append([]string{}, condition.Faults(src)...), Remarks: append([]string{}, condition.Remarks(src)...),
		Counts: Counts{s.Hosts, s.Nodes, s.Groups, s.Learned, s.ProxyQPs, s.HostGIDs, s.OwnGIDs, s.Asked[0] + s.Asked[1]},
		Limits: Limits{c.Workers.Hosts, c.Workers.Groups, c.Workers.ProxyQPs},
		Groups: groupsOf(src.Groups()), Port: portOf(src), Lost: map[string]Numbers{}, Workers: []WorkerStatus{},
		LostByDevice: notZero(src.LostByDevice()),
	}
	if o.Env != nil {
		out.Dropping = o.Env.Sampler.Dropping()
		out.Remarks = append(out.Remarks, out.Dropping...)
	}
	if !s.Ready && !out.Draining {
		out.Awaited = append(out.Awaited, manage.Awaited(ctx, src, &s, mostAwaited)...)
	}
	total := src.Counters()
	out.Directions, out.Latency = directionsOf(&total), latencyOf(src)
	for _, w := range src.Workers() {
		out.Workers = append(out.Workers, WorkerStatus{w.Loops, w.Busy, directionsOf(&w)})
	}
	for d, lost := range src.Lost() {
		out.Lost[lcore.Direction(d).String()] = notZero(lost)
	}
	return out
}

// notZero returns the counts that are not zero.
func notZero(counts map[string]uint64) Numbers {
	out := Numbers{}
	for name, n := range counts {
		if n > 0 {
			out[name] = n
		}
	}
	return out
}

func directionsOf(c *lcore.Counters) map[string]DirectionStatus {
	out := map[string]DirectionStatus{}
	for d := range c.Direction {
		x := &c.Direction[d]
		s := DirectionStatus{x.Received, x.Sent, x.SentBytes, x.Dropped(), Numbers{}}
		for reason, n := range x.Drops {
			if n > 0 {
				s.Drops[reason.String()] = n
			}
		}
		out[lcore.Direction(d).String()] = s
	}
	return out
}

func latencyOf(src Source) map[string]LatencyStatus {
	out := map[string]LatencyStatus{}
	for d, l := range addLatency(src.Latency()) {
		out[lcore.Direction(d).String()] = LatencyStatus{l.Count(), l.Quantile(0.5).Seconds(), l.Quantile(0.99).Seconds(), l.Quantile(0.999).Seconds(), l.Max().Seconds()}
	}
	return out
}

func groupsOf(groups map[bridge.GroupPlace]lcore.GroupCounters) []GroupStatus {
	out := []GroupStatus{}
	for _, at := range slices.SortedFunc(maps.Keys(groups), bridge.GroupPlace.Compare) {
		g := GroupStatus{at.IP.String(), at.Segments, map[string]uint64{}, map[string]uint64{}}
		for d, n := range groups[at].Packets {
			g.Packets[lcore.Direction(d).String()] = n
			g.Bytes[lcore.Direction(d).String()] = groups[at].Bytes[d]
		}
		out = append(out, g)
	}
	return out
}

func portOf(src Source) PortStatus {
	p, up := src.Ethernet()
	missed := &p.RxMissed
	if p.RxMissedUnknown {
		missed = nil
	}
	return PortStatus{up, string(src.Link().Reason), p.RxPackets, p.TxPackets, p.RxBytes, p.TxBytes, missed, p.RxDropped, p.RxErrors, p.RxNoMbuf, p.TxErrors}
}

func writeStatus(w http.ResponseWriter, s Status) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(s) // an error is of a client that has gone
}
