// SPDX-License-Identifier: Apache-2.0

package node

import (
	"causeway/app/e2e/ibswitch/sma"
	"causeway/app/e2e/ibswitch/smp"
	"causeway/ibside/fabric"
	"causeway/ibside/ib"
)

// drop is why the port dropped a packet; the adapter behind it has reasons of its own.
type drop uint8

const (
	dropInactive drop = iota
	dropQueue
	dropSMP
	dropCount
)

var dropNames = [dropCount]string{
	dropInactive: "not_active",    // no adapter runs
	dropQueue:    "queue_full",    // the adapter is too slow
	dropSMP:      "smp_malformed", // no subnet management packet, or not for this node
}

func (n *Node) drop(why drop) { n.drops[why].Add(1) }

// localPort is the only port's number.
const localPort = 1

// Receive takes a packet from the link.
func (n *Node) Receive(packet []byte) {
	lrh, ok := ib.AsLRH(packet)
	if ok && lrh.VL() == ib.VLSubnetManagement {
		n.receiveSubnet(packet)
		return
	}
	n.mu.Lock()
	a := n.now
	n.mu.Unlock()
	switch {
	case a == nil:
		n.drop(dropInactive)
	case !a.put(packet):
		n.drop(dropQueue)
	}
}

// receiveSubnet answers a request for the port's agent.
func (n *Node) receiveSubnet(packet []byte) {
	p, _ := ib.ParsePacket(packet)
	view, ok := smp.As(p.Payload)
	if !ok {
		n.drop(dropSMP)
		return
	}
	m, effect := view.Clone(), sma.None
	n.mu.Lock()
	answers := n.isForUs(&p, m) && smp.Serve(m, func(m smp.SMP, set bool) (status uint16) {
		status, effect = n.attribute(m, set)
		return status
	})
	own := n.port.Info.LID
	n.mu.Unlock()
	if !answers {
		n.drop(dropSMP)
		return
	}
	n.answer(&p, m, own)
	switch effect {
	case sma.Retrain:
		n.link.Retrain()
	case sma.Disable, sma.Enable:
		n.link.Plug(effect == sma.Enable)
	}
	n.check()
}

// isForUs reports whether an SMP's route ends here. The caller holds the lock.
func (n *Node) isForUs(p *ib.Packet, m smp.SMP) bool {
	if p.DLID != ib.LIDPermissive && !n.port.HasLID(p.DLID) {
		return false
	}
	if !m.Directed() {
		return p.DLID != ib.LIDPermissive
	}
	return m.Route(localPort, 0).Action == smp.Deliver
}

// answer sends a response: by LID, if the request's last part came by LID.
func (n *Node) answer(p *ib.Packet, m smp.SMP, own ib.LID) {
	from, to := own, p.SLID
	if p.DLID == ib.LIDPermissive {
		if m.Return(0).Action == smp.Discard {
			n.drop(dropSMP)
			return
		}
		from, to = ib.LIDPermissive, ib.LIDPermissive
	}
	_ = n.link.Send(m.Packet(from, to)) // a link that is down loses it
}

// attribute gets or sets an attribute of the port. The caller holds the lock.
func (n *Node) attribute(m smp.SMP, set bool) (uint16, sma.Effect) {
	mod, data := m.MAD().AttrMod(), m.Data()
	switch attr := m.MAD().AttrID(); {
	case attr == smp.AttrNodeInfo && !set:
		smp.NodeInfo{
			Type: smp.TypeAdapter, Ports: 1, Node: n.config.GUID, Port: n.config.GUID, PartitionCap: sma.PKeys, LocalPort: localPort,
		}.Put(data)
	case attr == smp.AttrNodeDescription && !set:
		smp.PutDescription(data, n.config.Name)
	case attr == smp.AttrPortInfo:
		if mod > localPort {
			return smp.StatusBadValue, sma.None
		}
		effect, status := n.port.PortInfo(data, set, localPort)
		return status, effect
	case attr == smp.AttrPKeyTable:
		return n.port.PKeyTable(mod&0xffff, data, set), sma.None
	case attr == smp.AttrGUIDInfo:
		return n.port.GUIDInfo(mod, data, set), sma.None
	case attr == smp.AttrSLToVL, attr == smp.AttrVLArbitration: // every SL is on VL 0
		clear(data)
	default:
		return smp.StatusBadAttribute, sma.None
	}
	return smp.StatusOK, sma.None
}

// Stats are a node's counters.
type Stats struct {
	Name  string            `json:"name"`
	State string            `json:"state"`
	LID   ib.LID            `json:"lid"`
	Drops map[string]uint64 `json:"drops"`          // by the port
	Node  *fabric.NodeStats `json:"node,omitempty"` // of what runs now
	HCA   *fabric.HCAStats  `json:"hca,omitempty"`
}

// Stats returns the counters.
func (n *Node) Stats() Stats {
	n.mu.Lock()
	s := Stats{Name: n.config.Name, State: n.port.Info.State.String(), LID: n.port.Info.LID, Drops: map[string]uint64{}}
	node := n.node
	n.mu.Unlock()
	for i, name := range dropNames {
		if k := n.drops[i].Load(); k > 0 {
			s.Drops[name] = k
		}
	}
	if node != nil {
		messages, packets := node.Stats(), node.HCA().Stats()
		s.Node, s.HCA = &messages, &packets
	}
	return s
}
