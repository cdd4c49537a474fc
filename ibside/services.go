// SPDX-License-Identifier: Apache-2.0

package ibside

import (
	"context"
	"fmt"
	"net/netip"

	"causeway/ibside/ib"
)

// Services is connection set-up for datagrams on an InfiniBand port: rdma_cm's SIDR (IBTA vol 1 §12.11).
type Services interface {
	// Serve takes the requests of IB nodes for these ports. h is called in a goroutine of its own for each request, and
	// answers it once. A second call replaces the ports; requests under way go on. Without ports, nothing is served.
	Serve(ports []PortRange, h func(ServiceRequest)) error
	// Connect asks the service of an IB node for its queue pair. It may take as long as ctx allows, and is called from
	// goroutines of its own. The error is a *Rejected with the peer's own answer; context.DeadlineExceeded when there was
	// no answer in time; or another one.
	Connect(ctx context.Context, c ServiceConnect) (ServiceAnswer, error)
}

// A PortRange is a range of ports of RDMA_PS_UDP, both ends included.
type PortRange struct{ First, Last uint16 }

// Contains reports whether p is in the range.
func (r PortRange) Contains(p uint16) bool { return r.First <= p && p <= r.Last }

// A ServiceRequest is a request of an IB node for a service of a RoCE host. Exactly one of Answer and Reject is called,
// once, from any goroutine.
type ServiceRequest struct {
	From, To netip.Addr // of the CMA header, as InfiniBand knows them: the IB node, and the RoCE host
	Sender   string     // tells who has sent it, whatever the CMA header says; "": the port cannot tell, as librdmacm
	SrcPort  uint16     // of the CMA header: the node's own port
	Port     uint16     // the service's
	PKey     ib.PKey
	Private  []byte // the private data behind the CMA header, at most 180 bytes
	Answer   func(ServiceAnswer) error
	Reject   func(status uint8, private []byte) error // one of ib's SIDRStatus constants, not OK
}

// A ServiceConnect is a request of a RoCE host for a service of an IB node.
type ServiceConnect struct {
	From, To netip.Addr // of the CMA header, as InfiniBand knows them: the RoCE host, and the IB node
	ToGID    ib.GID     // the node's, as configured
	SrcPort  uint16     // of the CMA header: the host's own port
	Port     uint16     // the service's
	PKey     ib.PKey    // the request is sent in its partition, or Connect fails; 0: the port chooses one
	Private  []byte     // the private data behind the CMA header, at most 180 bytes
}

// A ServiceAnswer says how to send to a service.
type ServiceAnswer struct {
	QPN     ib.QPN
	QKey    ib.QKey
	Private []byte // at most 136 bytes
}

// Rejected is the answer of a peer that gives no queue pair.
type Rejected struct {
	Status  uint8 // one of ib's SIDRStatus constants, not OK
	Private []byte
}

func (r *Rejected) Error() string {
	return fmt.Sprintf("ibside: the service rejects the request with SIDR status %d", r.Status)
}
