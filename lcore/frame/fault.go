// SPDX-License-Identifier: Apache-2.0

package frame

import "strings"

// Fault is why a frame was rejected; empty: it is valid. Faults of Ethernet, IP and UDP are named as in the bridge's
// drop list, those of a protocol begin with its name.
type Fault string

// Faults of Ethernet, IP and UDP.
const (
	L2Short    Fault = "l2_short"    // the frame ends inside its Ethernet header or tag
	VLANDouble Fault = "vlan_double" // a second tag, or one of 802.1ad
	IPHdr      Fault = "ip_hdr"      // the header is cut off, of the wrong version or impossibly short
	IPCsum     Fault = "ip_csum"     // the IPv4 header checksum is wrong
	IPLen      Fault = "ip_len"      // the length does not agree with the frame, or with UDP's
	IPFrag     Fault = "ip_frag"     // a fragment
	IPTTL      Fault = "ip_ttl"      // the TTL or hop limit is 0
	UDPLength  Fault = "udp_len"     // UDP is cut off, or its length is
	UDPCsum    Fault = "udp_csum"    // the UDP checksum is wrong
)

// Faults of ARP.
const (
	ARPShort     Fault = "arp_short"      // cut off
	ARPKind      Fault = "arp_kind"       // not for Ethernet and IPv4
	ARPOp        Fault = "arp_op"         // neither request nor reply
	ARPSenderMAC Fault = "arp_sender_mac" // not the frame's source MAC address, or not one of a station
	ARPSenderIP  Fault = "arp_sender_ip"  // not an address a host can have
)

// Faults of neighbour discovery.
const (
	NDShort    Fault = "nd_short"  // cut off
	NDType     Fault = "nd_type"   // neither solicitation nor advertisement
	NDHops     Fault = "nd_hops"   // the hop limit is not 255: it came through a router
	NDCsum     Fault = "nd_csum"   // the checksum is wrong
	NDCode     Fault = "nd_code"   // the code is not 0
	NDTarget   Fault = "nd_target" // the target is not an address a host can have
	NDSource   Fault = "nd_source" // the source address is a group's, or does not fit the message
	NDDest     Fault = "nd_dest"   // the destination does not fit the message
	NDOption   Fault = "nd_option" // an option is cut off or of length 0
	NDOptionLL Fault = "nd_ll"     // the link-layer address is not the frame's source MAC address
)

// Faults of IGMP.
const (
	IGMPShort   Fault = "igmp_short"   // cut off
	IGMPType    Fault = "igmp_type"    // neither query, report nor leave
	IGMPTTL     Fault = "igmp_ttl"     // the TTL is not 1: it came through a router
	IGMPCsum    Fault = "igmp_csum"    // the checksum is wrong
	IGMPSource  Fault = "igmp_source"  // the source address is not a host's
	IGMPGroup   Fault = "igmp_group"   // not a group address
	IGMPRecords Fault = "igmp_records" // the records or sources do not fit the message
)

// Faults of MLD.
const (
	MLDShort   Fault = "mld_short"   // cut off
	MLDType    Fault = "mld_type"    // neither query, report nor done
	MLDHops    Fault = "mld_hops"    // the hop limit is not 1
	MLDAlert   Fault = "mld_alert"   // no router alert in a hop-by-hop header
	MLDCsum    Fault = "mld_csum"    // the checksum is wrong
	MLDSource  Fault = "mld_source"  // the source address is not link-local
	MLDGroup   Fault = "mld_group"   // not a group address
	MLDRecords Fault = "mld_records" // the records or sources do not fit the message
)

// Counter returns the name of the fault's counter. Each protocol has one (arp_bad, nd_bad, igmp_bad, mld_bad); the
// other faults have one each.
func (f Fault) Counter() string {
	for _, p := range []string{"arp", "nd", "igmp", "mld"} {
		if strings.HasPrefix(string(f), p+"_") {
			return p + "_bad"
		}
	}
	return string(f)
}
