// SPDX-License-Identifier: Apache-2.0

// Package ipoib tells who is who on IP over InfiniBand: which GID has an IP address. The kernel resolves that by ARP
// and ND on the IPoIB interface of a port, and keeps it in its table of neighbours, whose link-layer addresses have the
// GID:
//
//	0     1        4                    20
//	┌─────┬────────┬────────────────────┐
//	│flags│  QPN   │  the port's GID    │   RFC 4391 §9.1.1
//	└─────┴────────┴────────────────────┘
//
//	Ask, Confirm ─ netlink ─▶ kernel ─ ARP, ND ─▶ IPoIB
//	     Changes ◀─ netlink ─ table ◀─ answers, and nodes that ask for addresses of this machine
//
// Nothing else writes the entries of that interface, so that no station on Ethernet can.
package ipoib
