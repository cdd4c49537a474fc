// SPDX-License-Identifier: Apache-2.0

package fabricport

import (
	"context"

	"causeway/ibside/sa"
)

// followLink tells subnet administration, and the log, that the port has lost its link or has one again: after that the
// subnet may be another, which knows nothing of the port.
func (p *Port) followLink(ctx context.Context) {
	said := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.hca.Link():
		}
		down := p.hca.Down()
		switch i := p.hca.Info(); {
		case down == "": // even if it was: the port may have lost its link in between
			p.log.Info("ib_link_up", "port", p.name, "gid", i.GID, "lid", i.LID, "mtu", i.MTU.Bytes())
			p.administration.Event(sa.PortActive)
		case down != said:
			p.log.Warn("ib_link_down", "port", p.name, "state", "DOWN", "note", down)
			p.administration.Event(sa.PortDown)
		}
		said = down
	}
}
