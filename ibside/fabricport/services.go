// SPDX-License-Identifier: Apache-2.0

package fabricport

import (
	"context"
	"errors"
	"fmt"

	"causeway/ibside"
	"causeway/ibside/fabric"
	"causeway/ibside/ib"
)

// services is connection set-up by the HCA's communication manager.
type services struct {
	cm   *fabric.CM
	path func(context.Context, ib.GID, ib.PKey) (ibside.Path, error)
}

// CheckPorts implements ibside.OpenPort: there is no limit.
func (s *services) CheckPorts([]ibside.PortRange) error { return nil }

// Serve implements ibside.Services.
func (s *services) Serve(ports []ibside.PortRange, h func(ibside.ServiceRequest)) error {
	if h == nil {
		return s.cm.Serve(nil, nil)
	}
	var served []fabric.CMPorts
	for _, p := range ports {
		served = append(served, fabric.CMPorts(p))
	}
	return s.cm.Serve(served, func(r *fabric.CMRequest) {
		h(ibside.ServiceRequest{
			From: r.From, To: r.To, Sender: r.Peer.LID.String(), SrcPort: r.FromPort, Port: r.Port, PKey: r.PKey, Private: r.Private,
			Answer: func(a ibside.ServiceAnswer) error { return r.Accept(a.QPN, a.QKey, a.Private) },
			Reject: r.Reject,
		})
	})
}

// Connect implements ibside.Services.
func (s *services) Connect(ctx context.Context, c ibside.ServiceConnect) (ibside.ServiceAnswer, error) {
	path, err := s.path(ctx, c.ToGID, c.PKey)
	if err != nil {
		return ibside.ServiceAnswer{}, err
	}
	a, err := s.cm.Connect(ctx, fabric.CMConnect{
		Route: fabric.MADAddress{LID: path.LID, SL: path.SL}, From: c.From, To: c.To, FromPort: c.SrcPort, Port: c.Port, PKey: c.PKey,
		Private: c.Private,
	})
	var rejected *fabric.CMRejectedError
	switch {
	case errors.As(err, &rejected):
		return ibside.ServiceAnswer{}, &ibside.Rejected{Status: rejected.Status, Private: rejected.Private}
	case errors.Is(err, fabric.ErrCMTimeout):
		return ibside.ServiceAnswer{}, fmt.Errorf("%w: %w", err, context.DeadlineExceeded)
	}
	return ibside.ServiceAnswer(a), err
}

// ServiceCounts implements ibside.OpenPort.
func (s *services) ServiceCounts() (requests, connects map[string]uint64) {
	c := s.cm.Counters()
	return c.Answers, c.Connects
}
