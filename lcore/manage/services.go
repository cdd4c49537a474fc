// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"context"
	"fmt"
	"net/netip"

	"causeway/ibside/ib"
)

// Services is what management asks of the InfiniBand door about the set-up of connections: rdma_cm for datagrams, which
// is SIDR (IBTA vol 1 §12.11).
type Services interface {
	// Serve takes the requests that IB nodes send for these ports; each is given to h in a goroutine of its own, and wants
	// one answer. Called again, other ports take the place of the ones before, and requests under way go on. With no
	// port at all it takes none.
	Serve(ports []PortRange, h func(ServiceRequest)) error
	// Connect asks the service of an IB node for its queue pair. It may take as long as ctx allows, and is called from
	// goroutines of their own. Errors are *Refused, the peer's own answer, or others: nobody there, or no answer in time.
	Connect(ctx context.Context, c ServiceConnect) (ServiceAnswer, error)
}

// A PortRange is ports of rdma_cm's RDMA_PS_UDP, both ends included.
type PortRange struct{ First, Last uint16 }

// ServiceConfig says which services are proxied, and by whom.
type ServiceConfig struct {
	Door     Services // nil: the InfiniBand door cannot; then every request is refused
	Ports    []PortRange
	Allow    []netip.Prefix // RoCE hosts that may ask, and be asked
	PKey     ib.PKey        // of the IB side
	RoCEPKey ib.PKey

	// Translate is by which addresses InfiniBand knows RoCE hosts and IB nodes, where these are not the RoCE side's.
	Translate ib.Translations
}

// Contains reports whether p is in the range.
func (r PortRange) Contains(p uint16) bool { return r.First <= p && p <= r.Last }

// A ServiceRequest is an IB node that asks for a service of a RoCE host. Exactly one of Answer and Refuse is called,
// once, from any goroutine.
type ServiceRequest struct {
	From, To netip.Addr // of the CMA header, as InfiniBand knows them: the IB node, and the RoCE host
	SrcPort  uint16     // of the CMA header: the node's own port
	Port     uint16     // the service's
	PKey     ib.PKey
	Private  []byte // what follows the CMA header, at most 180 bytes
	Answer   func(ServiceAnswer) error
	Refuse   func(status uint8, private []byte) error // one of ib's SIDRStatus constants, not OK
}

// A ServiceConnect is a RoCE host that asks for a service of an IB node.
type ServiceConnect struct {
	From, To netip.Addr // of the CMA header, as InfiniBand knows them: the RoCE host, and the IB node
	ToGID    ib.GID     // of the node, as configured
	SrcPort  uint16     // of the CMA header: the host's own port
	Port     uint16     // the service's
	PKey     ib.PKey
	Private  []byte // what follows the CMA header, at most 180 bytes
}

// A ServiceAnswer says how to send to a service.
type ServiceAnswer struct {
	QPN     ib.QPN
	QKey    ib.QKey
	Private []byte // at most 136 bytes
}

// Refused is the answer of a peer that gives no queue pair.
type Refused struct {
	Status  uint8 // one of ib's SIDRStatus constants, not OK
	Private []byte
}

func (r *Refused) Error() string {
	return fmt.Sprintf("manage: the service refuses with SIDR status %d", r.Status)
}
