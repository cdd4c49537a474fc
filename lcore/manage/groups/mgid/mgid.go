// SPDX-License-Identifier: Apache-2.0

// Package mgid finds a group's IP address from its MGID: the subnet's notices name MGIDs, and the configuration says
// how MGIDs are made of addresses.
package mgid

import (
	"net/netip"

	"causeway/ibside/ib"
)

// A Prefix finds the addresses of an IP prefix by their MGIDs. Of makes it. Every form of MGID has each bit of the
// address in fixed places or nowhere, so trying each bit once finds the places.
type Prefix struct {
	prefix netip.Prefix
	mgid   func(netip.Addr) ib.GID
	base   ib.GID // of the first address
	places []place
}

// A place is where an MGID has a bit of the address; an empty mask: nowhere.
type place struct {
	at   int
	mask byte
}

// Of makes the Prefix of a prefix whose addresses have the MGIDs that mgid returns.
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
func (p *Prefix) Address(mgid ib.GID) (netip.Addr, bool) {
	a := p.prefix.Addr()
	for i, x := range p.places {
		if (mgid[x.at]^p.base[x.at])&x.mask != 0 {
			a = flip(a, p.prefix.Bits()+i)
		}
	}
	return a, p.mgid(a) == mgid
}

// flip returns an address with one bit changed; bit 0 is the first.
func flip(a netip.Addr, bit int) netip.Addr {
	b := a.AsSlice()
	b[bit/8] ^= 0x80 >> (bit % 8)
	out, _ := netip.AddrFromSlice(b)
	return out
}
