// SPDX-License-Identifier: Apache-2.0

// Package fabric is an InfiniBand subnet in software: one switch, channel adapters for unreliable
// datagrams, a subnet administrator, and nodes that do something. It is for trying a bridge out and for
// testing it: whole packets travel, from the LRH to the VCRC, and each is checked as an HCA checks it.
//
//	other process ── Unix socket ──┐
//	                               │
//	node ── HCA ── Port ─────── Switch ─────── Port ── HCA ── SA (LID 1)
//	               QPs             │
//	bridge ─────── HCA ── Port ────┘──▶ capture (ERF)
//
// Nothing waits for a slow one: a port whose queue is full loses its own packets, and each loss is
// counted by name. A port's packet is a byte slice that nobody changes once it was sent, so the members of a
// group share one slice.
package fabric
