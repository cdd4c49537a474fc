// SPDX-License-Identifier: Apache-2.0

package proxyqps

import (
	"fmt"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/manage/punt"
	"causeway/tables"
)

// RoCE versions, as tables have them.
const (
	roceV1 = 1
	roceV2 = 2
)

// A key identifies the RoCE QP that a proxy QP represents; PlainQPN is all plain UDP of the host.
type key struct {
	host netip.Addr
	qpn  ib.QPN
}

type proxyQP struct {
	qp     uint32    // the IB port's handle
	qpn    ib.QPN    // on IB
	usedAt time.Time // when it was last seen to have been used
}

// ProxyQPs are all proxy QPs. New makes them.
type ProxyQPs struct {
	Deps
	cfg     Config
	hosts   Hosts
	sources Sources
	allow   []netip.Prefix // hosts that may have any; only when policy is set
	policy  bool           // SetAllow was called; until then the workers' policy is enough

	proxyQPs map[key]proxyQP
	perHost  map[netip.Addr]int
	round    round
	turn     int // of workers, to get the next proxy QP of a service
	count    Counters
}

// New makes ProxyQPs. Connect completes them.
func New(c Config, d Deps) *ProxyQPs {
	return &ProxyQPs{Deps: d, cfg: c, proxyQPs: map[key]proxyQP{}, perHost: map[netip.Addr]int{}}
}

// Connect gives the parts of management that proxy QPs need, and that themselves need proxy QPs. It is called before
// any other method.
func (p *ProxyQPs) Connect(h Hosts, s Sources) { p.hosts, p.sources = h, s }

// Of returns how many proxy QPs a host has.
func (p *ProxyQPs) Of(host netip.Addr) int { return p.perHost[host] }

// Hosts yields the hosts with proxy QPs.
func (p *ProxyQPs) Hosts() iter.Seq[netip.Addr] { return maps.Keys(p.perHost) }

// Counters returns a copy of the counters.
func (p *ProxyQPs) Counters() Counters { return p.count }

// SetLimits changes limits. Proxy QPs that are too many stay until they are idle.
func (p *ProxyQPs) SetLimits(perHost int, idle time.Duration) {
	p.cfg.PerHost, p.cfg.Idle = perHost, idle
}

// SetAllow lets these hosts have proxy QPs, and no others: those of others end. The workers know the policy already.
func (p *ProxyQPs) SetAllow(allow []netip.Prefix) {
	p.allow, p.policy = slices.Clone(allow), true
	var denied []key
	for k := range p.proxyQPs {
		if p.isDenied(k.host) {
			denied = append(denied, k)
		}
	}
	for _, k := range denied {
		p.remove(k, "denied")
	}
}

func (p *ProxyQPs) isDenied(host netip.Addr) bool {
	return p.policy && !slices.ContainsFunc(p.allow, func(a netip.Prefix) bool { return a.Contains(host) })
}

// HandlePending learns the source of a pending packet, makes its proxy QP if it has none, and requeues the packet.
func (p *ProxyQPs) HandlePending(f frame.Frame, packet punt.PendingPacket, now time.Time) {
	x, ok := senderOf(f)
	if !ok {
		packet.Reject(punt.RejectSource)
		return
	}
	k := x.key
	if p.isDenied(k.host) { // since the worker looked
		packet.Reject(punt.RejectDenied)
		return
	}
	_, exists := p.proxyQPs[k] // made for an earlier frame of the same burst, or the frame is from another MAC address
	var err error
	if !exists {
		err = p.makeRoom(k.host, now) // before a host that is known makes room for this one, in vain
	}
	if err == nil {
		if why, bad := p.hosts.Learn(k.host, f.Eth.Src(), punt.VID(f), x.version, now); bad != nil {
			if !exists {
				p.count.ProxyQPsDenied++
			}
			packet.Reject(why)
			return
		}
	}
	if err == nil && !exists {
		err = p.create(k, packet.Worker(), x.qkey, x.version, now)
	}
	if err != nil {
		p.denied(k, err)
		packet.Reject(punt.RejectFull)
		return
	}
	packet.Requeue()
}

// A Service is a queue pair of a RoCE host's that a service has, as the host's answer names it.
type Service struct {
	Host    netip.Addr
	HostQPN ib.QPN
	QKey    ib.QKey
	MAC     frame.MAC
	VLAN    uint16
	Version uint8 // of RoCE
}

// ForService finds or makes the proxy QP of a service. One with another Q_Key belongs to a queue pair that the host has
// destroyed: its number has been given to this one.
func (p *ProxyQPs) ForService(s Service, now time.Time) (ib.QPN, error) {
	qpn, err := p.forService(&s, now)
	if err != nil {
		p.denied(key{s.Host, s.HostQPN}, err)
	}
	return qpn, err
}

func (p *ProxyQPs) forService(s *Service, now time.Time) (ib.QPN, error) {
	k := key{s.Host, s.HostQPN}
	if x, exists := p.proxyQPs[k]; exists {
		if t, _, _ := p.Tables.Find(k.host, k.qpn); t.QKey == s.QKey {
			x.usedAt = now
			p.proxyQPs[k] = x
			return x.qpn, nil
		}
		p.remove(k, "other Q_Key")
		if _, still := p.proxyQPs[k]; still {
			return 0, fmt.Errorf("manage: the proxy QP of %v QPN %v has another Q_Key, and cannot be removed", k.host, k.qpn)
		}
	}
	if err := p.makeRoom(k.host, now); err != nil {
		return 0, err
	}
	if _, err := p.hosts.Learn(s.Host, s.MAC, s.VLAN, s.Version, now); err != nil {
		return 0, err
	}
	p.turn++
	if err := p.create(k, p.turn%p.cfg.Workers, s.QKey, s.Version, now); err != nil {
		return 0, err
	}
	return p.proxyQPs[k].qpn, nil
}

func (p *ProxyQPs) denied(k key, err error) {
	p.count.ProxyQPsDenied++
	if p.Log.Allow("proxy_qp_rejected", 1) {
		p.Log.Warn("proxy_qp_rejected", "host", k.host, "qpn", k.qpn, "error", err)
	}
}

// A sender is what a proxy QP is made for.
type sender struct {
	key
	qkey    ib.QKey
	version uint8
}

// senderOf returns the sender of a frame, which the worker has checked. All plain UDP of a host has one proxy QP, for
// the host has no QPNs.
func senderOf(f frame.Frame) (sender, bool) {
	if f.Type == frame.TypeRoCEv1 {
		grh, ok := ib.AsGRH(f.Payload)
		if !ok {
			return sender{}, false
		}
		return roceSender(grh.SGID().Addr(), f.Payload[ib.GRHLen:], roceV1)
	}
	u, payload, fault := f.UDP()
	switch {
	case fault != "":
		return sender{}, false
	case u.DstPort() != frame.PortRoCEv2:
		return sender{key{f.Src(), tables.PlainQPN}, ib.QKeyRDMAUDP, tables.PlainUDP}, true
	}
	return roceSender(f.Src(), payload, roceV2)
}

func roceSender(src netip.Addr, bth []byte, version uint8) (sender, bool) {
	if len(bth) < ib.BTHLen {
		return sender{}, false
	}
	deth, ok := ib.AsDETH(bth[ib.BTHLen:])
	if !ok {
		return sender{}, false
	}
	return sender{key{src, deth.SrcQP()}, deth.QKey(), version}, true
}

// makeRoom makes room for another proxy QP of a host, or reports why there is none.
func (p *ProxyQPs) makeRoom(host netip.Addr, now time.Time) error {
	switch {
	case len(p.proxyQPs) >= p.cfg.Max:
		return errTotal(p.cfg.Max)
	case p.perHost[host] >= p.cfg.PerHost && !p.evict(host, now):
		return errPerHost(p.cfg.PerHost)
	}
	return nil
}

func (p *ProxyQPs) create(k key, worker int, qkey ib.QKey, version uint8, now time.Time) error {
	qp, qpn, err := p.Port.CreateProxyQP(worker, qkey)
	if err != nil {
		return err
	}
	_, err = p.Tables.Put(tables.ProxyQP{
		Host: k.host, HostQPN: k.qpn, QP: qp, QPN: qpn, QKey: qkey, Worker: worker, Version: version, Source: p.sources.Give(k.host),
	})
	if err != nil {
		p.destroy(qp, qpn)
		if p.perHost[k.host] == 0 {
			p.sources.Drop(k.host)
		}
		return err
	}
	p.proxyQPs[k] = proxyQP{qp, qpn, now}
	p.perHost[k.host]++
	p.count.ProxyQPsMade++
	p.Log.Debug("proxy_qp_made", "host", k.host, "host_qpn", k.qpn, "qpn", qpn, "worker", worker)
	return nil
}

// remove ends a proxy QP: first in the tables, so that no worker finds it any more. What a worker still sends by it the
// port drops.
func (p *ProxyQPs) remove(k key, why string) {
	s := p.proxyQPs[k]
	if err := p.Tables.Delete(k.host, k.qpn); err != nil {
		p.Log.Error("proxy_qp_delete", "host", k.host, "host_qpn", k.qpn, "error", err)
		return
	}
	delete(p.proxyQPs, k)
	if p.perHost[k.host]--; p.perHost[k.host] <= 0 {
		delete(p.perHost, k.host)
		p.sources.Drop(k.host)
	}
	p.destroy(s.qp, s.qpn)
	p.Log.Debug("proxy_qp_removed", "host", k.host, "host_qpn", k.qpn, "qpn", s.qpn, "why", why)
}

func (p *ProxyQPs) destroy(qp uint32, qpn ib.QPN) {
	if err := p.Port.DestroyProxyQP(qp); err != nil {
		p.Log.Warn("proxy_qp_leaked", "qpn", qpn, "error", err)
	}
}

// RemoveHost ends all proxy QPs of a host.
func (p *ProxyQPs) RemoveHost(host netip.Addr, why string) {
	var keys []key
	for s := range p.Tables.Of(host) {
		keys = append(keys, key{s.Host, s.HostQPN})
	}
	for _, k := range keys {
		p.remove(k, why)
	}
}

// SendFrom makes all proxy QPs of a host send from a source.
func (p *ProxyQPs) SendFrom(host netip.Addr, source uint8) {
	for s := range p.Tables.Of(host) {
		if s.Source == source {
			continue
		}
		s.Source = source
		if _, err := p.Tables.Put(s); err != nil { // the old entry stays, and the port sends from the bridge's own
			p.Log.Warn("proxy_qp_source", "host", host, "host_qpn", s.HostQPN, "error", err)
		}
	}
}
