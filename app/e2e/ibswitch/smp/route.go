// SPDX-License-Identifier: Apache-2.0

package smp

import "causeway/ibside/ib"

// Action is what becomes of a directed-route SMP at a node.
type Action uint8

// The actions.
const (
	Discard Action = iota // its hop pointer or its path is not possible here
	Deliver               // it is for this node
	Relay                 // it leaves by Step.Port
	ByLID                 // its directed part ends here: it goes on to Step.DLID
)

// Step is the next step of an SMP's route.
type Step struct {
	Action Action
	Port   uint8
	DLID   ib.LID
}

// Route takes a directed-route SMP one step on, at a node that it has come to by a port (§14.2.2.2, §14.2.2.4). ports
// is the number of a switch's ports; 0 is another node.
func (m SMP) Route(ingress, ports uint8) Step {
	if m.HopCount() > maxHops {
		return Step{}
	}
	if m.Returns() {
		return m.back(ports)
	}
	return m.forth(ingress, ports)
}

func (m SMP) forth(ingress, ports uint8) Step {
	pointer, count := m.HopPointer(), m.HopCount()
	switch {
	case pointer == 0 && count > 0, pointer > count+1: // C14-9: 1 is for the sender; 5
		return Step{}
	case pointer < count: // 2
		m[offReturnPath+int(pointer)] = ingress
		m[offHopPointer]++
		return m.leave(m[offInitialPath+int(pointer)+1], ports)
	case pointer == count: // 3
		if count > 0 {
			m[offReturnPath+int(pointer)] = ingress
		}
		m[offHopPointer]++
		return m.end(m.DrDLID(), ports)
	}
	return Step{Action: Deliver} // 4
}

func (m SMP) back(ports uint8) Step {
	pointer, count := m.HopPointer(), m.HopCount()
	switch {
	case pointer == 0: // C14-13: 4
		return Step{Action: Deliver}
	case pointer > count+1: // 5
		return Step{}
	case pointer == 1: // 3
		m[offHopPointer]--
		return m.end(m.DrSLID(), ports)
	}
	m[offHopPointer]-- // 1, 2
	return m.leave(m[offReturnPath+int(pointer)-1], ports)
}

// leave relays by a port, which only a switch can.
func (m SMP) leave(port, ports uint8) Step {
	if port == 0 || port > ports {
		return Step{}
	}
	return Step{Action: Relay, Port: port}
}

// end is the end of the directed part of the route. Another part may follow, by LIDs, which begins at a switch only.
func (m SMP) end(next ib.LID, ports uint8) Step {
	switch {
	case next == ib.LIDPermissive:
		return Step{Action: Deliver}
	case ports > 0 && next.IsUnicast():
		return Step{Action: ByLID, DLID: next}
	}
	return Step{}
}

// Return begins the way back of a response at the node that made it; ports as in Route. A node that is not a switch has
// one way: its step is Relay by port 1.
func (m SMP) Return(ports uint8) Step {
	if m.HopPointer() != m.HopCount()+1 {
		return Step{}
	}
	m[offHopPointer]--
	if m.HopCount() == 0 {
		return m.end(m.DrSLID(), ports)
	}
	return m.leave(m[offReturnPath+int(m.HopCount())], max(ports, 1))
}
