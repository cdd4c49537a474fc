// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"time"

	"causeway/app/bridge"
	"causeway/dpdk/lacp"
)

// runBond shows the members of a bonded Ethernet port, and with LACP what each has at its other end.
func runBond(_ context.Context, c *Call) (Result, error) {
	b, ok := c.Env.Bridge.(interface {
		Bond() (mode string, members []bridge.BondMember)
	})
	if !ok {
		return Result{}, notAvailable("the bond")
	}
	mode, members := b.Bond()
	if members == nil {
		return text("The Ethernet port is no bond."), nil
	}
	now := time.Now()
	part := Part{Name: "members", Columns: columns("member", "link", "carries", "for", "changes", "rx", "tx", "inactive", "why…"),
		Note: "The mode is " + mode + ". inactive are frames that came to a member that carries none."}
	for _, m := range members {
		link := "down"
		if m.Up {
			link = "up"
		}
		var why any
		if m.Why != "" {
			why = m.Why
		}
		part.Rows = append(part.Rows, []any{m.Name, link, m.Carries, ageOf(m.Since, now), m.Changes, m.Stats.RxPackets, m.Stats.TxPackets, m.Inactive, why})
	}
	if mode != "lacp" {
		return table(part), nil
	}
	return Result{Parts: []Part{part, lacpPart(members)}}, nil
}

func lacpPart(members []bridge.BondMember) Part {
	part := Part{Name: "lacp", Columns: columns("member", "state", "used", "partner", "bits", "its bits", "rx", "tx", "lost")}
	for _, m := range members {
		p := &m.Protocol
		var partner any
		if p.Partner != (lacp.End{}) {
			partner = fmt.Sprintf("%x,%x/%d", p.Partner.SystemPriority, p.Partner.System, p.Partner.Port)
		}
		part.Rows = append(part.Rows, []any{m.Name, string(p.Receiving), p.Selected, partner, p.Actor.State.String(), p.Partner.State.String(),
			p.Received, p.Sent, m.SlowLost})
	}
	return part
}
