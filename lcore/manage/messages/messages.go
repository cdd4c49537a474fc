// SPDX-License-Identifier: Apache-2.0

// Package messages sends messages of bridges to each other over Ethernet, as MADs in RoCEv2 packets, from and to the
// bridges' own addresses. So they need neither a host's leases nor a share.
//
//	worker ── punted MAD ──▶ Handle ──▶ Heard
//	any goroutine ─▶ loop ─▶ Send ────▶ worker 0's send ring
//
// All methods belong to the loop's goroutine.
package messages

import (
	"errors"
	"net/netip"

	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/frame/roce"
	"causeway/lcore/manage/local"
	"causeway/lcore/manage/punt"
)

// A Station is another bridge, by its own addresses on a segment.
type Station struct {
	MAC frame.MAC
	IP  netip.Addr
}

// What is wrong with a message, or with where it is to go.
var (
	ErrLong    = errors.New("manage: a message is longer than ib.BridgeDataLen")
	ErrStation = errors.New("manage: a message is for no station")
)

// Check returns why a message cannot be sent there.
func (s *Station) Check(data []byte) error {
	switch {
	case len(data) > ib.BridgeDataLen:
		return ErrLong
	case !s.MAC.IsStation() || !s.IP.IsValid() || s.IP.IsUnspecified() || s.IP.IsMulticast() || s.IP.Is4In6():
		return ErrStation
	}
	return nil
}

// Messages sends and receives.
type Messages struct {
	PKey   ib.PKey // of MADs on Ethernet
	Frames *punt.Workers
	Heard  func(data []byte) // nil: nobody wants messages

	sent uint32 // numbers what is sent
}

// Is reports whether a frame has a MAD of the messages' class; it need not be right. SIDR has the others.
func Is(f frame.Frame) bool {
	if !f.IsIP() || f.Protocol() != frame.ProtoUDP {
		return false
	}
	udp, payload, fault := f.UDP()
	if fault != "" || udp.DstPort() != frame.PortRoCEv2 || len(payload) < ib.BTHLen+ib.DETHLen {
		return false
	}
	m, ok := ib.AsMAD(payload[ib.BTHLen+ib.DETHLen:])
	return ok && m.Class() == ib.ClassBridge
}

// Handle takes a frame for which Is holds. own are the addresses of its segment. It keeps nothing of it.
func (m *Messages) Handle(b []byte, own *local.Addresses) {
	p, err := roce.Parse(b)
	mad, ok := ib.AsBridgeMAD(p.Payload)
	switch {
	case err != nil || !ok || len(p.Payload) != ib.MADLen || p.SrcQP != ib.QP1 || p.DestQP != ib.QP1 || p.QKey != ib.QKeyGSI:
		m.Frames.Malformed("mad_bad")
	case m.Heard == nil || !own.Has(p.DstIP) || p.Dst != own.Link.MAC || own.Has(p.SrcIP):
		m.Frames.NotForUs()
	default:
		m.Heard(mad.Data())
	}
}

// Send sends a message that Check has found right, from the bridge's address on a segment.
func (m *Messages) Send(by *punt.Workers, own *local.Addresses, to Station, data []byte) {
	from := source(own, to.IP)
	if !from.IsValid() {
		by.NotSent()
		return
	}
	m.sent++
	payload := make([]byte, ib.MADLen)
	ib.PutBridgeMAD(payload, ib.BridgeMADFields{TID: uint64(m.sent), Data: data})
	p := roce.Packet{
		Version: 2, Dst: to.MAC, Src: own.Link.MAC, SrcIP: from, DstIP: to.IP, HopLimit: punt.TTL, SrcPort: ib.SrcPort(0, ib.QP1, ib.QP1),
		PKey: m.PKey, DestQP: ib.QP1, SrcQP: ib.QP1, QKey: ib.QKeyGSI, PSN: m.sent & 0xffffff, Payload: payload,
	}
	if own.Link.VID != 0 {
		p.Tag = &frame.VLANFields{PCP: own.Link.PCP, VID: own.Link.VID}
	}
	by.Send(0, p.AppendTo(nil))
}

// source returns the own address in the subnet of another, or else the first of its kind.
func source(own *local.Addresses, to netip.Addr) (first netip.Addr) {
	if to.IsLinkLocalUnicast() && to.Is6() {
		return own.LinkLocal()
	}
	for _, p := range own.IPs {
		if p.Addr().Is4() == to.Is4() && !first.IsValid() {
			first = p.Addr()
		}
	}
	return own.Toward(to, first)
}
