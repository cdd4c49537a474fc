// SPDX-License-Identifier: Apache-2.0

package web

var managementMetrics = []Metric{
	{"causeway_management_frames_received_total", counter, nil, "ARP, ND, IGMP, MLD and ICMP frames that the workers punted to management."},
	{"causeway_management_frames_lost_total", counter, nil, "Frames not punted because management's ring was full."},
	{"causeway_management_frames_sent_total", counter, nil, "Management's frames that were sent."},
	{"causeway_management_frames_rejected_total", counter, nil, "Management's frames that the port did not accept."},
	{"causeway_management_frames_fenced_total", counter, nil, "Management's frames that were not sent, because they were from the MAC address of a shard which another member may have."},
	{"causeway_management_frames_unsent_total", counter, nil, "Management's frames that no worker took from the ring."},
	{"causeway_management_frames_ignored_total", counter, nil, "Valid frames that need no action."},
	{"causeway_management_frames_malformed_total", counter, []string{"reason"}, "Malformed frames."},
	{"causeway_arp_answered_total", counter, nil, "ARP requests answered, for the bridge and for InfiniBand nodes."},
	{"causeway_nd_answered_total", counter, nil, "Neighbor solicitations answered."},
	{"causeway_echo_answered_total", counter, nil, "Pings of the bridge's own addresses answered."},
}

var groupCounts = []Metric{
	{"causeway_groups", gauge, nil, "Groups that are bridged."},
	{"causeway_groups_limit", gauge, nil, "The most groups at a time: [workers] groups."},
	{"causeway_groups_learned", gauge, nil, "Groups learned in a range, joined or not."},
	{"causeway_group_reports_total", counter, nil, "Membership reports sent."},
	{"causeway_group_queries_total", counter, nil, "Membership queries received."},
	{"causeway_group_queries_sent_total", counter, nil, "Membership queries sent, as the querier."},
	{"causeway_group_reports_received_total", counter, nil, "Membership reports of RoCE hosts that name a group of a range."},
	{"causeway_group_notices_total", counter, nil, "Notices of the subnet that name a group of a range or an existing group."},
	{"causeway_groups_learned_total", counter, nil, "Groups learned."},
	{"causeway_groups_lost_total", counter, nil, "Learned groups that were removed."},
	{"causeway_groups_rejected_total", counter, []string{"reason"}, "Groups of a range that were not learned."},
}

var hostMetrics = []Metric{
	{"causeway_hosts", gauge, nil, "RoCE hosts that are known."},
	{"causeway_hosts_limit", gauge, nil, "The most RoCE hosts at a time: [workers] hosts."},
	{"causeway_nodes", gauge, nil, "InfiniBand nodes with a path, also those that are lost."},
	{"causeway_nodes_learned", gauge, nil, "InfiniBand nodes that are learned, among those."},
	{"causeway_nodes_lost", gauge, nil, "InfiniBand nodes that the subnet has no more, among those: what goes to them is lost."},
	{"causeway_nodes_learned_total", counter, nil, "InfiniBand nodes learned."},
	{"causeway_nodes_asked_total", counter, nil, "Questions to the subnet administrator and the kernel for nodes that are not configured."},
	{"causeway_nodes_evicted_total", counter, nil, "Learned nodes removed to make room."},
	{"causeway_nodes_aged_total", counter, nil, "Learned nodes removed because they were not used and did not answer."},
	{"causeway_nodes_rejected_total", counter, nil, "Nodes or questions rejected: no room, too many, or an address that is another's or not allowed."},
	{"causeway_ib_gids", gauge, nil, "Source GIDs on InfiniBand, including the bridge's own."},
	{"causeway_bridges", gauge, nil, "Other bridges on the InfiniBand subnets."},
	{"causeway_host_gids", gauge, nil, "RoCE hosts with a GID of their own on InfiniBand."},
	{"causeway_hosts_learned_total", counter, nil, "RoCE hosts learned."},
	{"causeway_hosts_moved_total", counter, nil, "Times that a host's IP address moved to another MAC address."},
	{"causeway_host_flaps_total", counter, nil, "Moves back to the previous MAC address."},
	{"causeway_host_conflicts_total", counter, nil, "Claims of an IP address whose owner still answers."},
	{"causeway_hosts_rejected_total", counter, nil, "RoCE hosts not learned because the table was full."},
	{"causeway_hosts_evicted_total", counter, nil, "RoCE hosts removed to make room for others."},
	{"causeway_hosts_aged_total", counter, nil, "RoCE hosts removed because they neither answer nor send."},
	{"causeway_hosts_confirmed_total", counter, nil, "RoCE hosts that have answered ARP or ND for the first time."},
	{"causeway_hosts_silent_total", counter, nil, "Times that a host with proxy QPs stopped answering."},
	{"causeway_hosts_asked_total", counter, nil, "ARP requests and neighbor solicitations sent for hosts."},
	{"causeway_addresses_announced_total", counter, nil, "Announcements of the bridge's and nodes' addresses."},
	{"causeway_addresses_defended_total", counter, nil, "Addresses announced again because another Ethernet host claimed them."},
	{"causeway_nodes_absent_total", counter, nil, "ARP requests and neighbor solicitations not answered, because the subnet does not have the node."},
	{"causeway_spoofs_total", counter, nil, "Frames that contradicted a static entry or claimed an address of the other side."},
}

var segmentMetrics = []Metric{
	{"causeway_segment_hosts", gauge, []string{"segment"}, "RoCE hosts that are known, by segment."},
	{"causeway_segment_hosts_limit", gauge, []string{"segment"}, "The segment's part of [workers] hosts."},
	{"causeway_segment_hosts_rejected_total", counter, []string{"segment"}, "RoCE hosts not learned because the segment's part was taken."},
	{"causeway_segment_proxy_qps", gauge, []string{"segment"}, "Proxy QPs, by segment."},
	{"causeway_segment_proxy_qps_limit", gauge, []string{"segment"}, "The segment's part of [workers] proxy_qps."},
	{"causeway_segment_proxy_qps_rejected_total", counter, []string{"segment"}, "Proxy QPs that were not made, by segment."},
	{"causeway_segment_groups", gauge, []string{"segment"}, "Groups that are bridged, by segment."},
}

var proxyQPMetrics = []Metric{
	{"causeway_proxy_qps", gauge, nil, "Proxy QPs: UD QPs on InfiniBand that represent RoCE queue pairs."},
	{"causeway_proxy_qps_limit", gauge, nil, "The most proxy QPs at a time: [workers] proxy_qps, or as many as the device makes."},
	{"causeway_proxy_qps_made_total", counter, nil, "Proxy QPs created."},
	{"causeway_proxy_qps_rejected_total", counter, nil, "Proxy QPs not created: all are in use, a limit or a rate of the host's or of all is reached, or its address is in doubt."},
	{"causeway_proxy_qps_aged_total", counter, nil, "Proxy QPs removed because they were idle."},
	{"causeway_proxy_qps_evicted_total", counter, nil, "Proxy QPs removed to make room for those of other hosts."},
}
