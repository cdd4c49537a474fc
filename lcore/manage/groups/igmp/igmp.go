// SPDX-License-Identifier: Apache-2.0

// Package igmp is the bridge's host and router of IGMP and MLD on the RoCE side.
//
//	Join, Leave ─▶ Host      ─ reports, each twice; answers to queries ─▶ switches
//	queries     ─▶ Host        in the version of the querier
//	            ─▶ Querier   ─ queries, where no other querier comes first ─▶ RoCE hosts
//	reports     ─▶ Listeners ─ of each group: who wants it, and of which sources
//
// It takes parsed messages and sends whole frames; the clock is its caller's. Nothing here may be called concurrently.
package igmp

import (
	"net/netip"
	"time"

	"causeway/lcore/frame"
)

// A Port sends frames. Link and IPv4 are their source.
type Port struct {
	Link frame.Link
	IPv4 netip.Addr // the bridge's; the zero Addr: it has none
	// Send makes a worker send a frame. It returns false when the worker cannot take it.
	Send func(worker int, b []byte) bool
}

func due(at, now time.Time) bool { return !at.IsZero() && !at.After(now) }
