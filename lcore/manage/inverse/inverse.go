// SPDX-License-Identifier: Apache-2.0

// Package inverse finds a group's address from its MGID: the subnet says which MGIDs it has, and the configuration how MGIDs are
// made of addresses.
package inverse

import (
	"net/netip"

	"causeway/ibside/ib"
)

// A Prefix is the addresses of a prefix, to be found from their MGIDs. Of makes it. Every form of MGID has each bit of the
// address in fixed places or nowhere, so trying each bit once finds them.
type Prefix struct {
	prefix netip.Prefix
	mgid   func(netip.Addr) ib.GID
	base   ib.GID // that of the first address
	places []place
}

// A place is where an MGID has a bit of the address; with an empty mask it has not.
type place struct {
	at   int
	mask byte
}

// Of makes the inverse of mgid for the addresses of a prefix.
func Of(prefix netip.Prefix, mgid func(netip.Addr) ib.GID) Prefix {
	v := Prefix{prefix: prefix.Masked(), mgid: mgid}
	first := v.prefix.Addr()
	v.base = v.mgid(first)
	for bit := v.prefix.Bits(); bit < first.BitLen(); bit++ {
		var p place
		other := v.mgid(flip(first, bit))
		for i := range other {
			if d := other[i] ^ v.base[i]; d != 0 && p.mask == 0 {
				p = place{i, d}
			}
		}
		v.places = append(v.places, p)
	}
	return v
}

// Address returns the address that has an MGID; false when none of the prefix has it.
func (v *Prefix) Address(mgid ib.GID) (netip.Addr, bool) {
	a := v.prefix.Addr()
	for i, p := range v.places {
		if (mgid[p.at]^v.base[p.at])&p.mask != 0 {
			a = flip(a, v.prefix.Bits()+i)
		}
	}
	return a, v.mgid(a) == mgid
}

// flip returns an address with one bit changed, counted from the first.
func flip(a netip.Addr, bit int) netip.Addr {
	b := a.AsSlice()
	b[bit/8] ^= 0x80 >> (bit % 8)
	out, _ := netip.AddrFromSlice(b)
	return out
}
