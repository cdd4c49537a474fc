// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause

/* The port as a subnet manager sets it, and its link. */

#include "shca.h"

void port_init(struct shca *s, u64 guid)
{
	struct rvt_ibport *r = &s->rvp;

	spin_lock_init(&r->lock);
	r->mcast_tree = RB_ROOT;
	r->gid_prefix = cpu_to_be64(0xfe80000000000000ULL);
	r->sm_lid = LID_PERMISSIVE;
	r->port_cap_flags = IB_PORT_SYS_IMAGE_GUID_SUP | IB_PORT_CLIENT_REG_SUP | IB_PORT_SL_MAP_SUP;
	s->port = (struct shca_port){
		.pkeys = {PKEY_DEFAULT},
		.guids = {cpu_to_be64(guid)},
		.state = IB_PORT_DOWN,
		.mtu = IB_MTU_4096,
		.width_enabled = 3,
		.speed_enabled = 7,
		.vls = 1,
		.down_default = 2,
	};
}

/* Whether lid is the base LID or differs from it in path bits alone. */
bool port_has_lid(const struct shca *s, u16 lid)
{
	u16 base = READ_ONCE(s->port.lid);

	return base && (lid >> s->port.lmc) == (base >> s->port.lmc);
}

/* Whether two members of a partition may send to each other: not if both are limited members (10.9.3). */
bool pkeys_match(u16 a, u16 b)
{
	return (a & 0x7fff) && (a & 0x7fff) == (b & 0x7fff) && ((a | b) & 0x8000);
}

/* The first entry of the port's table that matches, or -1. */
int port_pkey_index(const struct shca *s, u16 pkey)
{
	for (int i = 0; i < SHCA_PKEYS; i++)
		if (pkeys_match(s->port.pkeys[i], pkey))
			return i;
	return -1;
}

void port_event(struct shca *s, enum ib_event_type type)
{
	struct ib_event event = {.device = &s->rdi.ibdev, .element.port_num = 1, .event = type};

	ib_dispatch_event(&event);
}

/* A link that comes up waits in INIT for a subnet manager. */
void port_link(struct shca *s, bool up)
{
	u8 was = s->port.state;

	s->port.state = up ? IB_PORT_INIT : IB_PORT_DOWN;
	if (was == IB_PORT_ACTIVE)
		port_event(s, IB_EVENT_PORT_ERR);
}

int port_query(struct rvt_dev_info *rdi, u32 port, struct ib_port_attr *attr)
{
	struct shca *s = container_of(rdi, struct shca, rdi);

	attr->lid = s->port.lid ? s->port.lid : LID_PERMISSIVE;
	attr->lmc = s->port.lmc;
	attr->state = s->port.state;
	attr->phys_state = s->cable.up ? IB_PORT_PHYS_STATE_LINK_UP : IB_PORT_PHYS_STATE_POLLING;
	attr->gid_tbl_len = shca_gids;
	attr->active_width = IB_WIDTH_4X;
	attr->active_speed = IB_SPEED_QDR;
	attr->max_vl_num = 1;
	attr->max_mtu = IB_MTU_4096;
	attr->active_mtu = s->port.mtu;
	return 0;
}

int port_guid(struct rvt_dev_info *rdi, struct rvt_ibport *rvp, int index, __be64 *guid)
{
	if (index < 0 || index >= shca_gids)
		return -EINVAL;
	*guid = container_of(rdi, struct shca, rdi)->port.guids[index];
	return 0;
}
