// SPDX-License-Identifier: Apache-2.0

package web

import (
	"maps"
	"slices"

	"causeway/lcore"
	"causeway/lcore/manage"
)

// services adds the results of requests for services: the IB port's counters of connection set-up, whose results are a
// few words of the port, and management's requests by direction.
func (s *scrape) services(src Source, status *manage.Status) {
	requests, connects := src.Services()
	for _, result := range slices.Sorted(maps.Keys(requests)) {
		s.add("causeway_ib_service_requests_total", requests[result], "result", result)
	}
	for _, result := range slices.Sorted(maps.Keys(connects)) {
		s.add("causeway_ib_service_connects_total", connects[result], "result", result)
	}
	for d := range status.Counters.Services {
		direction := lcore.Direction(d).String()
		for r, n := range status.Counters.Services[d] {
			s.add("causeway_sidr_total", n, "direction", direction, "result", manage.ServiceResult(r).String())
		}
		s.add("causeway_sidr_pending", uint64(status.Asked[d]), "direction", direction)
	}
}

func (s *scrape) management(o *lcore.PuntCounters, m *manage.Counters) {
	s.add("causeway_management_frames_received_total", o.Received)
	s.add("causeway_management_frames_lost_total", o.Full)
	s.add("causeway_management_frames_sent_total", o.Sent)
	s.add("causeway_management_frames_rejected_total", o.Rejected)
	s.add("causeway_management_frames_fenced_total", o.Fenced)
	s.add("causeway_management_frames_unsent_total", m.SendFailed)
	s.add("causeway_management_frames_ignored_total", m.NotForUs)
	for _, reason := range malformed(m) {
		s.add("causeway_management_frames_malformed_total", m.Malformed[reason], "reason", reason)
	}
	s.add("causeway_arp_answered_total", m.ARPAnswered)
	s.add("causeway_nd_answered_total", m.NDAnswered)
	s.add("causeway_echo_answered_total", m.EchoAnswered)
	s.add("causeway_group_reports_total", m.GroupReports)
	s.add("causeway_group_queries_total", m.GroupQueries)
	s.add("causeway_group_queries_sent_total", m.GroupQueriesSent)
	s.add("causeway_group_reports_received_total", m.GroupReportsHeard)
	s.add("causeway_group_notices_total", m.GroupNotices)
	s.add("causeway_groups_learned_total", m.GroupsLearned)
	s.add("causeway_groups_lost_total", m.GroupsLost)
	for _, reason := range manage.GroupRejections {
		s.add("causeway_groups_rejected_total", m.GroupsRejected[reason], "reason", reason)
	}
}

// malformed returns the reasons so far and one of each protocol, which are there from the first scrape on, in order.
func malformed(m *manage.Counters) []string {
	reasons := map[string]bool{"arp_bad": true, "nd_bad": true, "igmp_bad": true, "mld_bad": true, "icmp_bad": true, "mad_bad": true}
	for reason := range m.Malformed {
		reasons[reason] = true
	}
	return slices.Sorted(maps.Keys(reasons))
}

func (s *scrape) hosts(status *manage.Status, o Options) {
	m, c := &status.Counters, o.config()
	s.add("causeway_groups", uint64(status.Groups))
	s.add("causeway_groups_limit", uint64(c.Workers.Groups))
	s.add("causeway_groups_learned", uint64(status.Learned))
	s.add("causeway_hosts", uint64(status.Hosts))
	s.add("causeway_hosts_limit", uint64(c.Workers.Hosts))
	s.add("causeway_nodes", uint64(status.Nodes))
	s.add("causeway_nodes_learned", uint64(status.LearnedNodes))
	s.add("causeway_nodes_lost", uint64(status.LostNodes))
	for _, x := range []struct {
		kind                                    string
		learned, asked, evicted, aged, rejected uint64
	}{
		{"nodes", m.NodesLearned, m.NodesAsked, m.NodesEvicted, m.NodesAged, m.NodesRejected},
		{"hosts", m.HostsLearned, m.HostsAsked, m.HostsEvicted, m.HostsAged, m.HostsRejected},
	} {
		s.add("causeway_"+x.kind+"_learned_total", x.learned)
		s.add("causeway_"+x.kind+"_asked_total", x.asked)
		s.add("causeway_"+x.kind+"_evicted_total", x.evicted)
		s.add("causeway_"+x.kind+"_aged_total", x.aged)
		s.add("causeway_"+x.kind+"_rejected_total", x.rejected)
	}
	s.add("causeway_ib_gids", uint64(status.OwnGIDs))
	s.add("causeway_bridges", uint64(len(status.Bridges)))
	s.add("causeway_host_gids", uint64(status.HostGIDs))
	s.add("causeway_hosts_moved_total", m.HostsMoved)
	s.add("causeway_host_flaps_total", m.HostFlaps)
	s.add("causeway_host_conflicts_total", m.HostConflicts)
	s.add("causeway_hosts_silent_total", m.HostsSilent)
	s.add("causeway_hosts_confirmed_total", m.HostsConfirmed)
	s.add("causeway_addresses_announced_total", m.AddressesAnnounced)
	s.add("causeway_addresses_defended_total", m.AddressesDefended)
	s.add("causeway_nodes_absent_total", m.NodesAbsent)
	s.add("causeway_spoofs_total", m.Spoofs)
	s.add("causeway_proxy_qps", uint64(status.ProxyQPs))
	s.add("causeway_proxy_qps_limit", uint64(status.ProxyQPsMost))
	s.add("causeway_proxy_qps_made_total", m.ProxyQPsMade)
	s.add("causeway_proxy_qps_rejected_total", m.ProxyQPsDenied)
	s.add("causeway_proxy_qps_aged_total", m.ProxyQPsAged)
	s.add("causeway_proxy_qps_evicted_total", m.ProxyQPsEvicted)
}

func (s *scrape) segments(status *manage.Status) {
	for _, x := range status.Segments {
		s.add("causeway_segment_hosts", uint64(x.Hosts), "segment", x.Name)
		s.add("causeway_segment_hosts_limit", uint64(x.HostsMax), "segment", x.Name)
		s.add("causeway_segment_hosts_rejected_total", x.Counters.HostsRejected, "segment", x.Name)
		s.add("causeway_segment_proxy_qps", uint64(x.ProxyQPs), "segment", x.Name)
		s.add("causeway_segment_proxy_qps_limit", uint64(x.MostQPs), "segment", x.Name)
		s.add("causeway_segment_proxy_qps_rejected_total", x.Counters.ProxyQPsDenied, "segment", x.Name)
		s.add("causeway_segment_groups", uint64(x.Groups), "segment", x.Name)
	}
}
