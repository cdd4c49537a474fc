// SPDX-License-Identifier: Apache-2.0

// Package igmp is the bridge's part in IGMP and MLD on the RoCE side.
//
//	Join, Leave ─▶ Host    ─ reports, each twice; answers to queries ─▶ switches
//	queries     ─▶ Host      in the version that the querier speaks
//	            ─▶ Querier ─ queries, where nobody else asks ─▶ RoCE hosts
//
// It decides what is said and when. Frames come to it parsed, and it hands out whole ones; the time is its caller's. What RoCE
// hosts report is none of its business, only whether somebody asks them. Nothing here may be called concurrently.
package igmp

import (
	"net/netip"
	"time"

	"causeway/lcore/frame"
)

// A Port is what messages are made with and sent by.
type Port struct {
	Link frame.Link
	IPv4 netip.Addr // the bridge's own; the zero Addr: it has none
	// Send has a worker send a frame. It reports false when that cannot take it.
	Send func(worker int, b []byte) bool
}

// present is how long a querier is believed to be there after its last query, and spoken to in its version: 2 * 125 s + 10 s
// (RFC 3376 §7.2.1 and §8.12, RFC 3810 §8.2.1 and §9.12, with the defaults of the protocol).
const present = 260 * time.Second

func due(at, now time.Time) bool { return !at.IsZero() && !at.After(now) }
