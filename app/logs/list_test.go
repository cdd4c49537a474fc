// SPDX-License-Identifier: Apache-2.0

package logs

// An event is one kind of line. Names do not change between versions, so that one can search for them.
type event struct {
	Name  string
	Level string // one or several
	Area  string // the heading in docs/log.md
	Means string // the meaning, and what to do
}

// events is every event that the bridge logs. A test compares it with the source.
var events = []event{
	{"configuration", "warn", "The program", "A remark on the configuration; the bridge runs."},
	{"devices", "warn", "The program", "The machine's devices could not be listed, so the configuration was not checked against them."},
	{"memory", "info", "The program", "DPDK's memory is not hugepages, which is slower."},
	{"sizes", "info", "The program", "The memory that packets and tables need at most."},
	{"metrics", "info error", "The program", "The address where metrics, health and status are served; or serving them failed."},
	{"ready", "info", "The program", "Every configured group is joined on both sides and every configured node has its path."},
	{"stopped", "info", "The program", "The final counters of a direction. `conserved=false` would be an error in the bridge."},
	{"suppressed", "warn", "The program", "This number of `lines` of this `event` was not written, because there were too many in a second."},
	{"service_manager", "warn", "The program", "A notification to the service manager (systemd) failed, or its watchdog setting is invalid."},
	{"injection_on", "warn", "The program", "An operator injects faults."},
	{"injection_off", "info", "The program", "No more faults are injected."},
	{"console", "info warn", "The console", "The address where the console listens; or accepting a connection failed."},
	{"console_login", "info warn", "The console", "A login with the console's token; warn: with a wrong one."},
	{"console_command", "info", "The console", "An operator changed something with a command."},
	{"reloaded", "info", "The program", "The configuration file was read again and applied."},
	{"reload_rejected", "error", "The program", "It was read again and cannot be applied: nothing was changed. A line for each reason."},
	{"drained", "info", "The program", "An operator made the bridge leave its groups and nodes to another."},
	{"resumed", "info", "The program", "The bridge joins its groups and announces its nodes again."},
	{"configuration_changed", "info", "The program", "A change in the running bridge, one entry or key a line."},

	{"ethernet_port", "info warn", "The Ethernet port", "The port's properties; or a feature that it lacks."},
	{"interface_down", "warn", "The Ethernet port", "The kernel's interface is down: set it up."},
	{"frames_missed", "warn", "The Ethernet port", "The kernel lost frames before the bridge read them."},
	{"port_shared", "info", "The Ethernet port", "The port is shared with the kernel: the bridge receives RoCE, the kernel the rest."},
	{"groups_not_received", "error", "The Ethernet port", "The port's multicast filter could not be set: groups may not be received."},

	{"ib_port", "info error", "The InfiniBand port", "The port's properties; or reading them failed."},
	{"ib_port_closed", "info", "The InfiniBand port", "The port's final counters."},
	{"ib_event", "info", "The InfiniBand port", "The HCA reported an event, such as a port that goes down."},
	{"ib_mtu", "info", "The InfiniBand port", "The port's MTU changed."},
	{"pkey_lost", "error", "The InfiniBand port", "The port's P_Key table changed and the bridge's P_Key is no longer at its index: the bridge ends, to be restarted."},
	{"qp_error", "warn", "The InfiniBand port", "A queue pair failed; it is set up again."},
	{"qp_recovered", "info", "The InfiniBand port", "It works again."},
	{"qp_recovery", "error", "The InfiniBand port", "It could not be set up again; the bridge retries."},
	{"rdma_cm", "error", "The InfiniBand port", "The kernel's connection manager failed."},
	{"peer_unreachable", "warn", "The InfiniBand port", "No address handle could be made for a peer."},

	{"subnet_client", "info", "The subnet", "The bridge queries the subnet administrator itself."},
	{"no_subnet_client", "warn", "The subnet", "It cannot: rdma_cm joins groups, nodes need their `lid` in the configuration, and nothing is learned from the subnet."},
	{"subnet_stale", "warn", "The subnet", "The subnet manager may have lost the bridge's registrations: the bridge registers again."},
	{"subnet_registered", "info", "The subnet", "All registrations are there again."},
	{"registration_rejected", "warn", "The subnet", "The subnet administrator rejected one."},
	{"subnet_withdraw", "warn", "The subnet", "Registrations could not be withdrawn at the end; the subnet manager lets them expire."},
	{"subnet_closed", "info", "The subnet", "The final counters of queries to the subnet administrator."},
	{"not_subscribed", "warn", "The subnet", "The bridge could not subscribe to a notice of the subnet: it polls instead, which is slower."},
	{"groups_unlisted", "warn", "The subnet", "The subnet's groups could not be listed: existing groups are learned only from reports and notices."},

	{"group_joined", "info", "Groups", "A group is joined on both sides and bridged."},
	{"group_closed", "info", "Groups", "A group is no longer bridged."},
	{"group_learned", "info", "Groups", "A group of a range has a member: it is joined."},
	{"group_lost", "info", "Groups", "It has no members any more."},
	{"group_rejected", "warn error", "Groups", "A group is not bridged, with the reason."},
	{"join_failed", "warn debug", "Groups", "The subnet administrator rejected a join; the bridge retries. Debug: for a learned group."},
	{"leave_failed", "warn", "Groups", "A group could not be left on the subnet."},
	{"group_detach", "error", "Groups", "A queue pair could not be detached from a group."},
	{"group_delete", "error", "Groups", "A group could not be removed from the tables."},
	{"group_inbound", "error", "Groups", "A group could not be opened in the direction from InfiniBand."},
	{"group_renew", "warn", "Groups", "A membership could not be renewed."},
	{"group_renewed", "info", "Groups", "The subnet gave a group another MLID."},
	{"group_rejoin", "warn", "Groups", "A membership was lost, and joining again failed; the bridge retries."},
	{"group_rejoined", "info", "Groups", "It was joined again."},
	{"group_move_failed", "warn", "Groups", "A group could not be moved to another queue pair."},
	{"membership_lost", "warn", "Groups", "The subnet ended a membership; the bridge joins again."},

	{"node_resolved", "info", "Nodes", "An InfiniBand node's path is known."},
	{"node_moved", "info", "Nodes", "A node has a new LID or service level."},
	{"node_rejected", "error", "Nodes", "A node could not be added to the tables."},
	{"node_removed", "info", "Nodes", "A node was removed from the configuration."},
	{"node_delete", "error", "Nodes", "A node could not be removed from the tables."},
	{"path_missing", "warn", "Nodes", "The subnet administrator has no path to a node. The bridge retries, and logs this once."},

	{"host_learned", "info", "RoCE hosts", "A RoCE host was learned."},
	{"host_moved", "warn", "RoCE hosts", "A host's IP address moved to another MAC address."},
	{"host_flapping", "warn", "RoCE hosts", "It moved back: two hosts may have the same IP address."},
	{"host_conflict", "warn", "RoCE hosts", "Another host claims an IP address whose owner still answers: the owner keeps it."},
	{"address_claimed", "warn", "RoCE hosts", "An Ethernet host claims an address that the configuration gives to another host or to InfiniBand."},
	{"host_rejected", "warn error", "RoCE hosts", "The table of hosts is full: see `[workers] hosts`."},
	{"host_silent", "warn", "RoCE hosts", "A host with proxy QPs stopped answering."},
	{"host_released", "error", "RoCE hosts", "A host that is no longer static could not be changed in the tables."},
	{"host_off_link", "warn", "RoCE hosts", "The destination host is on none of the bridge's subnets."},

	{"proxy_qp_made", "debug", "Proxy QPs and GIDs", "A RoCE queue pair has a proxy QP on InfiniBand."},
	{"proxy_qp_removed", "debug", "Proxy QPs and GIDs", "It has none any more."},
	{"proxy_qp_rejected", "warn", "Proxy QPs and GIDs", "It gets none, with the reason."},
	{"proxy_qp_delete", "error", "Proxy QPs and GIDs", "A proxy QP could not be removed from the tables."},
	{"proxy_qp_leaked", "warn", "Proxy QPs and GIDs", "A proxy QP's queue pair could not be destroyed; the end of the program frees it."},
	{"proxy_qp_source", "warn", "Proxy QPs and GIDs", "The source GID of a proxy QP could not be changed."},
	{"host_gid", "info", "Proxy QPs and GIDs", "A host has a GID of its own on InfiniBand."},
	{"host_gid_lost", "warn", "Proxy QPs and GIDs", "It lost its own GID, and has the bridge's now."},
	{"gids_beyond", "warn", "Proxy QPs and GIDs", "The port has more GIDs than the bridge can use as sources."},
	{"own_gids", "error", "Proxy QPs and GIDs", "The port's GIDs could not be added to the tables."},
	{"no_aliases", "warn", "Proxy QPs and GIDs", "`[ib] alias_gids` needs an InfiniBand port and access to its subnet administrator."},
	{"aliases_full", "warn", "Proxy QPs and GIDs", "The port has no room for another alias GUID."},
	{"host_alias", "info", "Proxy QPs and GIDs", "A host's GUID is an alias of the port."},
	{"host_alias_failed", "info", "Proxy QPs and GIDs", "It could not become one; the bridge retries."},
	{"host_alias_dropped", "info", "Proxy QPs and GIDs", "It is no longer one."},

	{"services_not_served", "warn", "Services", "The InfiniBand port could not listen on the services' ports; the bridge retries."},
	{"services_not_ended", "warn", "Services", "Listening there could not be ended."},
	{"service_rejected", "warn", "Services", "A request for a service was rejected, with the reason."},
	{"service_failed", "warn", "Services", "A forwarded request failed, with the reason."},
	{"service_answer", "debug", "Services", "A response could not be sent: the requester has gone."},
	{"sidr_unserved", "debug", "Services", "A request received by the InfiniBand port was not for a bridged service."},
	{"sidr_rejected", "info", "Services", "A request received by the InfiniBand port was rejected."},
}
