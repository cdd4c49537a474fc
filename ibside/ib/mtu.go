// SPDX-License-Identifier: Apache-2.0

package ib

import "fmt"

// MTU is a payload limit as InfiniBand encodes it: 1 is 256 bytes, 5 is 4096 (IBTA vol 1 §14.2.5.6).
type MTU uint8

// The five MTUs.
const (
	MTU256  MTU = 1
	MTU512  MTU = 2
	MTU1024 MTU = 3
	MTU2048 MTU = 4
	MTU4096 MTU = 5
)

// What each Linux formula takes from a netdev's MTU before it looks for the largest MTU that fits.
const (
	rxeHeaderBytes  = 80 // rdma_rxe: RXE_MAX_HDR_LENGTH
	coreHeaderBytes = 96 // iboe_get_mtu: GRH 40, UDP 8, BTH 12, extended CRC 4, AtomicETH 28, ICRC 4
)

// Valid reports whether m is one of the five.
func (m MTU) Valid() bool { return m >= MTU256 && m <= MTU4096 }

// Bytes returns the limit in bytes, 0 when m is not valid.
func (m MTU) Bytes() int {
	if !m.Valid() {
		return 0
	}
	return 128 << m
}

func (m MTU) String() string {
	if !m.Valid() {
		return fmt.Sprintf("MTU(%d)", uint8(m))
	}
	return fmt.Sprintf("%d", m.Bytes())
}

// MTUFromBytes returns the MTU of exactly n bytes; false when there is none.
func MTUFromBytes(n int) (MTU, bool) {
	for m := MTU256; m <= MTU4096; m++ {
		if m.Bytes() == n {
			return m, true
		}
	}
	return 0, false
}

// MTUForNetdev returns what rdma_rxe makes of a netdev's MTU: the largest that fits after 80 bytes of
// headers. It returns 0 when not even 256 fits.
func MTUForNetdev(netdevMTU int) MTU { return largestMTU(netdevMTU - rxeHeaderBytes) }

// MTUForNetdevCore returns what the Linux RDMA core (iboe_get_mtu) makes of a netdev's MTU, for address
// resolution and joins. It allows 96 bytes, so between 4176 and 4191 it says 2048 where rxe says 4096.
func MTUForNetdevCore(netdevMTU int) MTU { return largestMTU(netdevMTU - coreHeaderBytes) }

func largestMTU(n int) MTU {
	for m := MTU4096; m >= MTU256; m-- {
		if m.Bytes() <= n {
			return m
		}
	}
	return 0
}

// Rate is a static rate as InfiniBand encodes it: 2 is 2.5 Gb/s, 3 is 10 Gb/s (IBTA vol 1
// §15.2.5.16, libibverbs enum ibv_rate).
type Rate uint8

// rateMbps is indexed by Rate; the codes are historical and not in order of speed. FDR's 14.0625 Gb/s
// is rounded down, as libibverbs does.
var rateMbps = [...]int{
	2: 2500, 3: 10000, 4: 30000, 5: 5000, 6: 20000, 7: 40000, 8: 60000, 9: 80000, 10: 120000,
	11: 14000, 12: 56000, 13: 112000, 14: 168000, 15: 25000, 16: 100000, 17: 200000, 18: 300000,
	19: 28000, 20: 50000, 21: 400000, 22: 600000, 23: 800000, 24: 1200000,
}

// Mbps returns the rate in Mb/s, 0 when r is not known.
func (r Rate) Mbps() int {
	if int(r) >= len(rateMbps) {
		return 0
	}
	return rateMbps[r]
}

// Static returns the rate for the address handles of a path with rate r, from a port with that many Mb/s; 0 of them:
// not known. It is 0, which slows nothing down, when the port is no faster than the path.
func (r Rate) Static(portMbps int) Rate {
	if n := r.Mbps(); n == 0 || portMbps != 0 && n >= portMbps {
		return 0
	}
	return r
}

func (r Rate) String() string {
	n := r.Mbps()
	if n == 0 {
		return fmt.Sprintf("Rate(%d)", uint8(r))
	}
	return fmt.Sprintf("%g Gb/s", float64(n)/1000)
}
