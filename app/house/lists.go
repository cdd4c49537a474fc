// SPDX-License-Identifier: Apache-2.0

package house

import (
	"context"
	"fmt"
	"net/netip"

	"causeway/dpdk"
	"causeway/lcore/manage"
	"causeway/lcore/pgm"
)

// ListHosts returns RoCE hosts; see manage.Loop.ListHosts. When the bridge has ended, this and all that follow return
// manage.ErrEnded.
func (h *House) ListHosts(ctx context.Context, q manage.Query) (manage.List[manage.HostEntry], error) {
	return h.loop.ListHosts(ctx, q)
}

// ListNeighbours returns RoCE hosts, and addresses that have no MAC address yet.
func (h *House) ListNeighbours(ctx context.Context, q manage.Query) (manage.List[manage.HostEntry], error) {
	return h.loop.ListNeighbours(ctx, q)
}

// ListStandIns returns RoCE hosts' queue pairs and what stands for them.
func (h *House) ListStandIns(ctx context.Context, q manage.Query) (manage.List[manage.StandInEntry], error) {
	return h.loop.ListStandIns(ctx, q)
}

// ListNodes returns IB nodes.
func (h *House) ListNodes(ctx context.Context, q manage.Query) (manage.List[manage.NodeEntry], error) {
	return h.loop.ListNodes(ctx, q)
}

// ListGroups returns groups, and how each stands.
func (h *House) ListGroups(ctx context.Context, q manage.Query) (manage.List[manage.GroupEntry], error) {
	return h.loop.ListGroups(ctx, q)
}

// ListRequests returns the requests for services that are under way.
func (h *House) ListRequests(ctx context.Context, q manage.Query) (manage.List[manage.RequestEntry], error) {
	return h.loop.ListRequests(ctx, q)
}

// ForgetHost forgets what was learnt of a RoCE host.
func (h *House) ForgetHost(ctx context.Context, ip netip.Addr) (bool, error) {
	return h.loop.ForgetHost(ctx, ip)
}

// A Memory is what the bridge has set aside, and what of it is taken.
type Memory struct {
	Packets, PacketsUsed int // of the one mempool; what workers and ports keep at hand counts as used
	PacketBytes          int
	TableBytes           int // of all tables, when they are full
	Hosts, Nodes, Groups [2]int
	StandIns             [2]int // taken, and room for
}

// Memory returns how much room there is.
func (h *House) Memory() Memory {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return Memory{}
	}
	s, w := h.loop.Status(), &h.cfg.Workers
	return Memory{
		Packets: h.pool.Size(), PacketsUsed: h.pool.InUse(), PacketBytes: h.pool.Bytes(), TableBytes: h.tables.Bytes(),
		Hosts: [2]int{s.Hosts, w.Hosts}, Nodes: [2]int{s.Nodes, w.Nodes},
		Groups: [2]int{s.Groups, w.Groups}, StandIns: [2]int{s.StandIns, w.Standins},
	}
}

// LCores returns each worker's core, as the EAL counts them.
func (h *House) LCores() []uint { return h.lcores }

// A Port is one of the two doors, as it was opened.
type Port struct {
	Name     string // as the configuration has it
	MAC      string // Ethernet only
	GIDs     []string
	LID      string
	MTU      int // bytes: of an IP packet on Ethernet, of a message on InfiniBand
	Ethernet bool
}

// Ports returns the Ethernet port and the InfiniBand port.
func (h *House) Ports() (ethernet, infiniband Port) {
	h.mu.Lock()
	defer h.mu.Unlock()
	ethernet = Port{Name: h.cfg.RoCE.Port.String(), MTU: h.cfg.RoCE.MTU, Ethernet: true}
	infiniband = Port{Name: ibPortName(h.cfg.IB.Port.Device, h.cfg.IB.Port.Num, h.cfg.IB.Port.File)}
	if h.closed {
		return ethernet, infiniband
	}
	p, own := h.door.portInfo(), h.door.Own()
	ethernet.MAC = h.link().String()
	infiniband.MTU, infiniband.Ethernet = p.mtu.Bytes(), p.ethernet
	if own.LID != 0 {
		infiniband.LID = own.LID.String()
	}
	for _, g := range own.GIDs {
		infiniband.GIDs = append(infiniband.GIDs, g.String())
	}
	return ethernet, infiniband
}

// ibPortName returns the port as the configuration has it.
func ibPortName(device string, num uint8, file string) string {
	if device == "" {
		return "fabric:" + file
	}
	return fmt.Sprintf("%s:%d", device, num)
}

// Streams returns what all workers know of PGM streams; none, when no group has any.
func (h *House) Streams() (all []pgm.Stream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil
	}
	for _, t := range h.pgm {
		all = append(all, t.Streams()...)
	}
	return all
}

// Rules returns the rules by which a port that is shared with the kernel gives frames to the bridge; none for one that is
// the bridge's alone.
func (h *House) Rules() []dpdk.Rule {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || !h.port.Shared() {
		return nil
	}
	return h.rules()
}
