// SPDX-License-Identifier: Apache-2.0

package dpdk

// #include "dpdk.h"
import "C"

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// maxVLAN is the last VLAN id (IEEE 802.1Q §9.6: 0xfff is reserved).
const maxVLAN = 4094

// ErrNoFlow tells that a port has no rte_flow: its frames must be told apart by software.
var ErrNoFlow = errors.New("the driver has no rte_flow")

// Match is the kind of frames that a flow rule takes.
type Match int

const (
	MatchRoCEv2IPv4 Match = iota // UDP destination port 4791
	MatchRoCEv2IPv6
	MatchRoCEv1 // ethertype 0x8915
	MatchARP
	MatchIGMP // IP protocol 2
	MatchMAC  // Rule.MAC is the destination
	MatchIP   // Rule.IP is the destination
	MatchUDP  // Rule.IP and Rule.UDPPort are the destination
)

// cMatches are the C names of the others but MatchIP and MatchUDP.
var cMatches = map[Match]C.enum_dpdk_flow_match{
	MatchRoCEv2IPv4: C.DPDK_MATCH_ROCE_V2_IPV4,
	MatchRoCEv2IPv6: C.DPDK_MATCH_ROCE_V2_IPV6,
	MatchRoCEv1:     C.DPDK_MATCH_ROCE_V1,
	MatchARP:        C.DPDK_MATCH_ARP,
	MatchIGMP:       C.DPDK_MATCH_IGMP,
	MatchMAC:        C.DPDK_MATCH_MAC,
}

// Rule says which frames go to which queues.
type Rule struct {
	Match    Match
	MAC      [6]byte    // with MatchMAC
	IP       netip.Addr // with MatchIP and MatchUDP
	UDPPort  uint16     // with MatchUDP
	Queues   []uint16   // one; with RSS, one or more
	RSS      bool       // spread over Queues by source address alone, so that a host stays with one worker
	VLAN     uint16     // its frames alone, of any priority; 0: the driver decides whether it looks into tags
	Priority uint32     // 0 is the highest
}

// Flow is a rule in force.
type Flow struct {
	port   *Port
	handle *C.struct_rte_flow
}

// Isolate(true) leaves every frame that no flow rule asks for to the kernel. It is called before Start.
func (p *Port) Isolate(on bool) error {
	var fault C.struct_dpdk_flow_fault
	clearLog()
	if err := flowError(p.plan.isTap(), C.dpdk_flow_isolate(p.id, C.bool(on), &fault), &fault); err != nil {
		return portError(p.name, "isolate: %w", err)
	}
	return nil
}

// CreateFlow puts a rule in force, on a started port. The error wraps ErrNoFlow where the port has no rte_flow.
func (p *Port) CreateFlow(rule Rule) (*Flow, error) {
	words, err := flowWords(rule, p.plan.isTap(), p.config.RxQueues)
	if err != nil {
		return nil, portError(p.name, "flow rule: %w", err)
	}
	flow := &Flow{port: p}
	var fault C.struct_dpdk_flow_fault
	clearLog()
	if err := flowError(p.plan.isTap(), C.dpdk_flow_create(p.id, &words, &flow.handle, &fault), &fault); err != nil {
		return nil, portError(p.name, "flow rule: %w", err)
	}
	return flow, nil
}

// Destroy ends the rule. A port's rules end with it, too.
func (f *Flow) Destroy() error {
	var fault C.struct_dpdk_flow_fault
	if err := flowError(f.port.plan.isTap(), C.dpdk_flow_destroy(f.port.id, f.handle, &fault), &fault); err != nil {
		return portError(f.port.name, "destroy a flow rule: %w", err)
	}
	return nil
}

// isTap reports whether the port is net_tap's, with an interface of the kernel.
func (p *portPlan) isTap() bool { return p.netdev != "" }

// flowError words what rte_flow answered. A PMD without it answers ENOSYS or ENOTSUP about nothing in particular.
// net_tap has one that stands on the kernel's flower classifier: whatever that cannot do, or where there is none,
// software must.
func flowError(tap bool, code C.int, fault *C.struct_dpdk_flow_fault) error {
	err := errno(code)
	if err == nil {
		return nil
	}
	none := notSupported(err) && fault._type <= 1 // RTE_FLOW_ERROR_TYPE_NONE, _UNSPECIFIED
	if said := C.GoString(&fault.message[0]); said != "" && !strings.EqualFold(said, err.Error()) {
		err = fmt.Errorf("%s: %w", said, err)
	}
	switch {
	case none:
		return fmt.Errorf("%w: %w", ErrNoFlow, err)
	case tap:
		return forSoftware{err}
	}
	return err
}

// forSoftware is what a driver that has rte_flow cannot do by it: an ErrNoFlow.
type forSoftware struct{ error }

func (e forSoftware) Error() string        { return "not by this driver's rte_flow: " + e.error.Error() }
func (e forSoftware) Is(target error) bool { return target == ErrNoFlow }
func (e forSoftware) Unwrap() error        { return e.error }

// flowWords checks a rule for a port, a tap or not, with that many queues, and writes it as the C side takes it.
func flowWords(rule Rule, tap bool, queues int) (C.struct_dpdk_flow_rule, error) {
	words := C.struct_dpdk_flow_rule{rss: C.bool(rule.RSS), priority: C.uint32_t(rule.Priority), vlan: C.uint16_t(rule.VLAN)}
	switch {
	case rule.RSS && tap:
		return words, forSoftware{errors.New("net_tap spreads frames by port numbers too, and a host's would not stay with one worker")}
	case rule.VLAN != 0 && tap: // drivers/net/tap/tap_flow.c: its mask is in the wrong byte order, its VID has 8 bits
		return words, forSoftware{errors.New("net_tap gets VLAN ids wrong; without one, it looks into the tags of all")}
	case rule.VLAN > maxVLAN:
		return words, fmt.Errorf("there is no VLAN %d: use 1 to %d", rule.VLAN, maxVLAN)
	}
	if err := flowQueues(rule, queues, &words); err != nil {
		return words, err
	}
	if rule.Match == MatchIP || rule.Match == MatchUDP {
		err := flowIP(rule, &words)
		return words, err
	}
	match, known := cMatches[rule.Match]
	if !known {
		return words, fmt.Errorf("there is no match %d", rule.Match)
	}
	words.match = match
	for i, b := range rule.MAC {
		words.mac[i] = C.uint8_t(b)
	}
	return words, nil
}

func flowIP(rule Rule, words *C.struct_dpdk_flow_rule) error {
	ip, udp := rule.IP.Unmap(), rule.Match == MatchUDP
	switch {
	case !ip.IsValid():
		return errors.New("MatchIP and MatchUDP need an address")
	case udp && rule.UDPPort == 0:
		return errors.New("MatchUDP needs a port")
	case udp && ip.Is4():
		words.match = C.DPDK_MATCH_UDP_IPV4
	case udp:
		words.match = C.DPDK_MATCH_UDP_IPV6
	case ip.Is4():
		words.match = C.DPDK_MATCH_IPV4
	default:
		words.match = C.DPDK_MATCH_IPV6
	}
	words.port = C.uint16_t(rule.UDPPort)
	for i, b := range ip.AsSlice() {
		words.ip[i] = C.uint8_t(b)
	}
	return nil
}

func flowQueues(rule Rule, queues int, words *C.struct_dpdk_flow_rule) error {
	switch {
	case len(rule.Queues) == 0 || len(rule.Queues) > maxQueues || (!rule.RSS && len(rule.Queues) > 1):
		return fmt.Errorf("%d queues: name one, or with RSS 1 to %d", len(rule.Queues), maxQueues)
	case rule.RSS && (rule.Match == MatchRoCEv1 || rule.Match == MatchARP || rule.Match == MatchMAC):
		return errors.New("RSS goes by the source IP, which these frames need not have; name one queue")
	}
	words.n_queues = C.uint16_t(len(rule.Queues))
	for i, q := range rule.Queues {
		if int(q) >= queues {
			return fmt.Errorf("there is no queue %d: the port has %d", q, queues)
		}
		words.queues[i] = C.uint16_t(q)
	}
	return nil
}
