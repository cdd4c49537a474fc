// SPDX-License-Identifier: Apache-2.0

// Package fabric is an InfiniBand subnet in software: one switch, channel adapters for unreliable
// datagrams, a subnet administrator, and nodes. It is for trials and tests of a bridge: it carries whole packets, from
// the LRH to the VCRC, and checks each as an HCA does.
//
//	other process ── Unix socket ──┐
//	                               │
//	node ── HCA ── Port ─────── Switch ─────── Port ── HCA ── SA (LID 1)
//	               QPs             │
//	bridge ─────── HCA ── Port ────┘──▶ capture (ERF)
//
// A slow port delays no other: when its queue is full, packets to it are dropped, and each drop is counted by name. A
// packet is a byte slice that is not modified after it was sent, so the members of a group share one slice.
package fabric
