// SPDX-License-Identifier: Apache-2.0

package web

var managementMetrics = []Metric{
	{"causeway_management_frames_received_total", counter, nil, "ARP, ND, IGMP, MLD and ICMP frames that the workers set aside for management."},
	{"causeway_management_frames_lost_total", counter, nil, "Those lost because management's ring was full."},
	{"causeway_management_frames_sent_total", counter, nil, "Management's frames that went out."},
	{"causeway_management_frames_refused_total", counter, nil, "Management's frames that the port did not take."},
	{"causeway_management_frames_unsent_total", counter, nil, "Management's frames that no worker took."},
	{"causeway_management_frames_ignored_total", counter, nil, "Frames that management understood, and had nothing to do for."},
	{"causeway_management_frames_malformed_total", counter, []string{"reason"}, "Frames that management did not understand."},
	{"causeway_arp_answered_total", counter, nil, "ARP requests answered, for the bridge and for InfiniBand nodes."},
	{"causeway_nd_answered_total", counter, nil, "Neighbor solicitations answered."},
	{"causeway_echo_answered_total", counter, nil, "Pings of the bridge's own addresses answered."},
}

var groupCounts = []Metric{
	{"causeway_groups", gauge, nil, "Groups that are bridged."},
	{"causeway_groups_limit", gauge, nil, "The most groups at a time: [workers] groups."},
	{"causeway_groups_learned", gauge, nil, "Groups learnt by ranges, joined or not."},
	{"causeway_group_reports_total", counter, nil, "Reports of membership that the bridge sent."},
	{"causeway_group_queries_total", counter, nil, "Queries for membership heard."},
	{"causeway_group_queries_sent_total", counter, nil, "Queries for membership sent, as the querier."},
	{"causeway_group_reports_heard_total", counter, nil, "Reports of RoCE hosts that name a group of a range."},
	{"causeway_group_notices_total", counter, nil, "The subnet's notices that name a group of a range or a group that is there."},
	{"causeway_groups_learned_total", counter, nil, "Groups that were learnt."},
	{"causeway_groups_forgotten_total", counter, nil, "Learnt groups that ended."},
	{"causeway_groups_refused_total", counter, []string{"reason"}, "Groups of a range that were not learnt."},
}

var hostMetrics = []Metric{
	{"causeway_hosts", gauge, nil, "RoCE hosts that are known."},
	{"causeway_hosts_limit", gauge, nil, "The most RoCE hosts at a time: [workers] hosts."},
	{"causeway_nodes", gauge, nil, "InfiniBand nodes that are known and have a path."},
	{"causeway_ib_gids", gauge, nil, "GIDs that messages can be sent from on InfiniBand, the bridge's own among them."},
	{"causeway_host_gids", gauge, nil, "RoCE hosts that are seen on InfiniBand under a GID of their own."},
	{"causeway_hosts_learned_total", counter, nil, "RoCE hosts that were learnt."},
	{"causeway_hosts_moved_total", counter, nil, "Times that an address went to another MAC address."},
	{"causeway_host_flaps_total", counter, nil, "Moves back to where the host had just moved from."},
	{"causeway_host_conflicts_total", counter, nil, "Claims of an address whose holder still answers."},
	{"causeway_hosts_refused_total", counter, nil, "RoCE hosts for which there was no room."},
	{"causeway_hosts_forgotten_total", counter, nil, "RoCE hosts that made room for one that sends."},
	{"causeway_hosts_aged_total", counter, nil, "RoCE hosts forgotten because they neither answer nor send."},
	{"causeway_hosts_silent_total", counter, nil, "Times that a host with stand-ins stopped answering."},
	{"causeway_hosts_asked_total", counter, nil, "Questions for a MAC address."},
	{"causeway_addresses_announced_total", counter, nil, "Announcements of the bridge's and nodes' addresses."},
	{"causeway_addresses_defended_total", counter, nil, "Addresses announced again because somebody on Ethernet claimed them."},
	{"causeway_nodes_absent_total", counter, nil, "Questions for nodes that the subnet does not have: not answered."},
	{"causeway_spoofs_total", counter, nil, "Frames that contradicted a static entry or claimed an address of the other side."},
}

var standInMetrics = []Metric{
	{"causeway_standins", gauge, nil, "Stand-ins: UD QPs on InfiniBand that stand for RoCE queue pairs."},
	{"causeway_standins_limit", gauge, nil, "The most stand-ins at a time: [workers] standins."},
	{"causeway_standins_made_total", counter, nil, "Stand-ins made."},
	{"causeway_standins_denied_total", counter, nil, "Stand-ins refused, for want of room or by a host's own limit."},
	{"causeway_standins_aged_total", counter, nil, "Stand-ins ended because nothing crossed by them."},
}
