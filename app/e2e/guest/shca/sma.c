// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause

/* The subnet management agent (14.2.5): what a subnet manager reads of the port, and sets. The kernel's MAD layer
 * follows directed routes and keeps their hop pointers; it sends what is left in the MAD. */

#include "shca.h"

enum {
	WIDTHS = 3, /* 1x and 4x */
	WIDTH_4X = 2,
	SPEEDS = 7, /* SDR, DDR, QDR */
	SPEED_QDR = 4,
	PHYSICAL_POLLING = 2,
	PHYSICAL_LINK_UP = 5,
	NODE_CHANNEL_ADAPTER = 1,
	REREGISTER = 0x80,
	REPLY = IB_MAD_RESULT_SUCCESS | IB_MAD_RESULT_REPLY,
};

static void bad_value(struct ib_smp *smp)
{
	smp->status |= cpu_to_be16(IB_MGMT_MAD_STATUS_INVALID_ATTRIB_VALUE);
}

static void get_node_description(struct shca *s, struct ib_smp *smp)
{
	memcpy(smp->data, s->rdi.ibdev.node_desc, IB_DEVICE_NODE_DESC_MAX);
}

static void get_node_info(struct shca *s, struct ib_smp *smp)
{
	struct ib_node_info *n = (struct ib_node_info *)smp->data;

	memset(smp->data, 0, sizeof(smp->data));
	n->base_version = 1;
	n->class_version = 1;
	n->node_type = NODE_CHANNEL_ADAPTER;
	n->num_ports = 1;
	n->sys_guid = s->rdi.ibdev.node_guid;
	n->node_guid = s->rdi.ibdev.node_guid;
	n->port_guid = s->port.guids[0];
	n->partition_cap = cpu_to_be16(SHCA_PKEYS);
	n->local_port_num = 1;
}

static void get_port_info(struct shca *s, struct ib_smp *smp)
{
	struct ib_port_info *p = (struct ib_port_info *)smp->data;
	const struct rvt_ibport *r = &s->rvp;
	const struct shca_port *port = &s->port;

	memset(smp->data, 0, sizeof(smp->data));
	p->mkey = r->mkey;
	p->gid_prefix = r->gid_prefix;
	p->lid = cpu_to_be16(port->lid);
	p->sm_lid = cpu_to_be16(r->sm_lid);
	p->cap_mask = cpu_to_be32(r->port_cap_flags);
	p->mkey_lease_period = cpu_to_be16(r->mkey_lease_period);
	p->local_port_num = 1;
	p->link_width_enabled = port->width_enabled;
	p->link_width_supported = WIDTHS;
	p->link_width_active = WIDTH_4X;
	p->linkspeed_portstate = SPEEDS << 4 | port->state;
	p->portphysstate_linkdown = (s->cable.up ? PHYSICAL_LINK_UP : PHYSICAL_POLLING) << 4 | port->down_default;
	p->mkeyprot_resv_lmc = r->mkeyprot << 6 | port->lmc;
	p->linkspeedactive_enabled = SPEED_QDR << 4 | port->speed_enabled;
	p->neighbormtu_mastersmsl = port->mtu << 4 | r->sm_sl;
	p->vlcap_inittype = 1 << 4; /* VL0 alone */
	p->vl_high_limit = r->vl_high_limit;
	p->inittypereply_mtucap = IB_MTU_4096;
	p->operationalvl_pei_peo_fpi_fpo = port->vls << 4;
	p->pkey_violations = cpu_to_be16(r->pkey_violations);
	p->qkey_violations = cpu_to_be16(r->qkey_violations);
	p->guid_cap = SHCA_GUIDS;
	p->clientrereg_resv_subnetto = r->subnet_timeout;
	p->resv_resptimevalue = 16;
	p->localphyerrors_overrunerrors = port->error_limits;
}

/* Table 146: down from any state, otherwise one state up. Reports whether that is possible. */
static bool set_state(struct shca *s, u8 state)
{
	u8 was = s->port.state;

	switch (state) {
	case IB_PORT_NOP:
		return true;
	case IB_PORT_DOWN:
		cable_retrain(s);
		return true;
	case IB_PORT_ARMED:
		if (was < IB_PORT_INIT)
			return false;
		s->port.state = IB_PORT_ARMED;
		return true;
	case IB_PORT_ACTIVE:
		if (was < IB_PORT_ARMED)
			return false;
		s->port.state = IB_PORT_ACTIVE;
		if (was != IB_PORT_ACTIVE)
			port_event(s, IB_EVENT_PORT_ACTIVE);
		return true;
	default:
		return false;
	}
}

static bool is_unicast(u16 lid)
{
	return lid && lid < LID_MULTICAST;
}

/* LID and LMC, the subnet manager's LID, and the subnet's prefix; each change is an event. */
static bool set_addresses(struct shca *s, const struct ib_port_info *p)
{
	u16 lid = be16_to_cpu(p->lid), sm_lid = be16_to_cpu(p->sm_lid);
	u8 lmc = p->mkeyprot_resv_lmc & 7, sm_sl = p->neighbormtu_mastersmsl & 15;
	struct rvt_ibport *r = &s->rvp;

	if (r->gid_prefix != p->gid_prefix) {
		r->gid_prefix = p->gid_prefix;
		port_event(s, IB_EVENT_GID_CHANGE);
	}
	if (is_unicast(lid) && (lid != s->port.lid || lmc != s->port.lmc)) {
		s->port.lmc = lmc;
		WRITE_ONCE(s->port.lid, lid);
		port_event(s, IB_EVENT_LID_CHANGE);
	}
	if (is_unicast(sm_lid) && (sm_lid != r->sm_lid || sm_sl != r->sm_sl)) {
		r->sm_lid = sm_lid;
		r->sm_sl = sm_sl;
		port_event(s, IB_EVENT_SM_CHANGE);
	}
	return is_unicast(lid) && is_unicast(sm_lid);
}

static bool set_mtu(struct shca *s, u8 mtu)
{
	if (mtu > IB_MTU_4096)
		return false;
	if (mtu)
		s->port.mtu = mtu;
	return true;
}

/* Fields of which zero means no change, and all ones means all that is supported (14.2.5.6). */
static void set_link(struct shca_port *port, const struct ib_port_info *p)
{
	u8 speed = p->linkspeedactive_enabled & 15, down = p->portphysstate_linkdown & 15;

	if (p->link_width_enabled)
		port->width_enabled = p->link_width_enabled == 0xff ? WIDTHS : p->link_width_enabled;
	if (speed)
		port->speed_enabled = speed == 15 ? SPEEDS : speed;
	if (down)
		port->down_default = down;
	if (p->operationalvl_pei_peo_fpi_fpo >> 4)
		port->vls = p->operationalvl_pei_peo_fpi_fpo >> 4;
	port->error_limits = p->localphyerrors_overrunerrors;
}

static void set_keys(struct rvt_ibport *r, const struct ib_port_info *p)
{
	r->mkey = p->mkey;
	r->mkeyprot = p->mkeyprot_resv_lmc >> 6;
	r->mkey_lease_period = be16_to_cpu(p->mkey_lease_period);
	r->vl_high_limit = p->vl_high_limit;
	r->subnet_timeout = p->clientrereg_resv_subnetto & 31;
	if (!p->mkey_violations)
		r->mkey_violations = 0;
	if (!p->pkey_violations)
		r->pkey_violations = 0;
	if (!p->qkey_violations)
		r->qkey_violations = 0;
}

static void set_port_info(struct shca *s, struct ib_smp *smp)
{
	struct ib_port_info wanted = *(struct ib_port_info *)smp->data;
	bool good, reregister = wanted.clientrereg_resv_subnetto & REREGISTER;

	set_keys(&s->rvp, &wanted);
	set_link(&s->port, &wanted);
	good = set_addresses(s, &wanted);
	good = set_mtu(s, wanted.neighbormtu_mastersmsl >> 4) && good;
	good = set_state(s, wanted.linkspeed_portstate & 15) && good;
	if (reregister)
		port_event(s, IB_EVENT_CLIENT_REREGISTER);
	if (!good)
		bad_value(smp);
	get_port_info(s, smp);
	if (reregister) /* the response has it as the request */
		((struct ib_port_info *)smp->data)->clientrereg_resv_subnetto |= REREGISTER;
}

static void pkey_table(struct shca *s, struct ib_smp *smp, bool set)
{
	__be16 *block = (__be16 *)smp->data;
	bool changed = false;

	if (be32_to_cpu(smp->attr_mod) & 0xffff) {
		bad_value(smp);
		return;
	}
	for (int i = 0; set && i < SHCA_PKEYS; i++) {
		changed |= s->port.pkeys[i] != be16_to_cpu(block[i]);
		s->port.pkeys[i] = be16_to_cpu(block[i]);
	}
	if (changed)
		port_event(s, IB_EVENT_PKEY_CHANGE);
	memset(smp->data, 0, sizeof(smp->data));
	for (int i = 0; i < SHCA_PKEYS; i++)
		block[i] = cpu_to_be16(s->port.pkeys[i]);
}

/* All but the first may be set. */
static void guid_info(struct shca *s, struct ib_smp *smp, bool set)
{
	const size_t own = sizeof(s->port.guids[0]), others = sizeof(s->port.guids) - own;

	if (smp->attr_mod) {
		bad_value(smp);
		return;
	}
	if (set && memcmp(s->port.guids + 1, smp->data + own, others)) {
		memcpy(s->port.guids + 1, smp->data + own, others);
		port_event(s, IB_EVENT_GID_CHANGE);
	}
	memcpy(smp->data, s->port.guids, sizeof(s->port.guids));
}

/* Carries out a Get or Set. Reports whether the attribute is there. */
static bool attribute(struct shca *s, struct ib_smp *smp, bool set)
{
	switch (smp->attr_id) {
	case IB_SMP_ATTR_NODE_DESC:
		get_node_description(s, smp);
		return !set;
	case IB_SMP_ATTR_NODE_INFO:
		get_node_info(s, smp);
		return !set;
	case IB_SMP_ATTR_PORT_INFO:
		if (set)
			set_port_info(s, smp);
		else
			get_port_info(s, smp);
		return true;
	case IB_SMP_ATTR_PKEY_TABLE:
		pkey_table(s, smp, set);
		return true;
	case IB_SMP_ATTR_GUID_INFO:
		guid_info(s, smp, set);
		return true;
	case IB_SMP_ATTR_SL_TO_VL_TABLE: /* every SL is on VL0 */
	case IB_SMP_ATTR_VL_ARB_TABLE:
		memset(smp->data, 0, sizeof(smp->data));
		return true;
	default:
		return false;
	}
}

static int respond(struct ib_smp *smp)
{
	smp->method = IB_MGMT_METHOD_GET_RESP;
	if (smp->mgmt_class == IB_MGMT_CLASS_SUBN_DIRECTED_ROUTE)
		smp->status |= IB_SMP_DIRECTION;
	return REPLY;
}

int sma_process(struct shca *s, struct ib_smp *smp)
{
	bool set = smp->method == IB_MGMT_METHOD_SET;

	if (smp->method == IB_MGMT_METHOD_TRAP_REPRESS)
		return IB_MAD_RESULT_SUCCESS | IB_MAD_RESULT_CONSUMED;
	if (smp->method != IB_MGMT_METHOD_GET && !set)
		return IB_MAD_RESULT_SUCCESS; /* for a subnet manager here */
	if (smp->class_version != 1) {
		smp->status |= cpu_to_be16(IB_MGMT_MAD_STATUS_BAD_VERSION);
		return respond(smp);
	}
	if (smp->attr_id == IB_SMP_ATTR_SM_INFO && s->rvp.port_cap_flags & IB_PORT_SM)
		return IB_MAD_RESULT_SUCCESS; /* the subnet manager answers */
	if (!attribute(s, smp, set))
		smp->status |= cpu_to_be16(IB_MGMT_MAD_STATUS_UNSUPPORTED_METHOD_ATTRIB);
	return respond(smp);
}
