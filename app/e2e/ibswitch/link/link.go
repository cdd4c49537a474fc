// SPDX-License-Identifier: Apache-2.0

// Package link has the links of the switch: cables to guests (Cable), and links within this process (Pipe).
//
//	port ── Cable ── socket ── QEMU ── the guest's adapter
//	port ── End ──── Pipe ──── End ─── the port of a software node
//
// A link trains: it is up when both ends are there, and either end can make it go down and come up again. Packets are
// LRH to VCRC, and are not changed by anyone who has one: a multicast is one slice in many queues.
package link

import "errors"

// Port is what an end of a link is plugged into. A link calls it without holding locks.
type Port interface {
	// Receive takes a packet. It does not wait.
	Receive(packet []byte)

	// LinkChanged says that the link has come up, or gone down. A retrained link does both. Calls are in order, one at a
	// time.
	LinkChanged(up bool)
}

// Link is a port's end of a link.
type Link interface {
	// Start plugs the end into its port.
	Start(p Port)

	// Send waits until the link has taken the packet. It returns ErrDown, or ErrLifetime when the other end took none for
	// too long.
	Send(packet []byte) error

	// Retrain makes the link go down and come up again, at both ends.
	Retrain()

	// Plug pulls this end out, or puts it in again.
	Plug(in bool)

	Close() error
}

// Why a packet was not sent.
var (
	ErrDown     = errors.New("link: down")
	ErrLifetime = errors.New("link: the other end takes no packets")
)
