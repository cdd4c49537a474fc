// SPDX-License-Identifier: Apache-2.0

// Package igmp is the bridge's host and querier of IGMP and MLD on the RoCE side.
//
//	Join, Leave ─▶ Host    ─ reports, each twice; answers to queries ─▶ switches
//	queries     ─▶ Host      in the version of the querier
//	            ─▶ Querier ─ queries, where no other querier comes first ─▶ RoCE hosts
//
// It takes parsed queries and sends whole frames; the clock is its caller's. Its caller handles what RoCE hosts report.
// Nothing here may be called concurrently.
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

// present is how long a querier counts as present after its last query, and its version is used: 2 * 125 s + 10 s
// (RFC 3376 §7.2.1 and §8.12, RFC 3810 §8.2.1 and §9.12, with the defaults of the protocol).
const present = 260 * time.Second

func due(at, now time.Time) bool { return !at.IsZero() && !at.After(now) }
