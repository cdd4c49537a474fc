// SPDX-License-Identifier: Apache-2.0

package sa

import (
	"context"
	"fmt"

	"causeway/ibside/ib"
)

// informRespTime is how long the SA waits for the answer to a report before it reports again: 4.096 us * 2^18, a
// second.
const informRespTime = 18

// Subscribe subscribes to notices of one trap from the whole subnet; Notices delivers them. It may be repeated.
func (c *Client) Subscribe(ctx context.Context, trap uint16) error {
	return c.inform(ctx, fmt.Sprintf("subscribe to trap %d", trap), trap, true)
}

// Unsubscribe ends it.
func (c *Client) Unsubscribe(ctx context.Context, trap uint16) error {
	return c.inform(ctx, fmt.Sprintf("unsubscribe from trap %d", trap), trap, false)
}

func (c *Client) inform(ctx context.Context, doing string, trap uint16, subscribe bool) error {
	data := make([]byte, ib.InformInfoLen)
	ib.PutInformInfo(data, ib.InformInfoFields{
		LIDBegin: ib.InformAllLIDs, IsGeneric: true, Subscribe: subscribe, Type: ib.InformAllTypes, Trap: trap,
		QPN: ib.QP1, RespTime: informRespTime, Producer: ib.InformAllProducers,
	})
	_, err := c.record(ctx, doing, request{method: ib.MethodSet, attr: ib.AttrInformInfo, data: data})
	return err
}
