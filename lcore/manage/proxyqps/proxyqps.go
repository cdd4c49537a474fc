// SPDX-License-Identifier: Apache-2.0

package proxyqps

import (
	"iter"
	"maps"
	"net/netip"
	"slices"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/manage/ask"
	"causeway/lcore/manage/punt"
	"causeway/tables"
)

// RoCE versions, as tables have them.
const (
	roceV1 = 1
	roceV2 = 2
)

// A key identifies what a proxy QP represents; PlainQPN is all plain UDP of the host.
type key = tables.HostQP

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
	making   map[key]*making
	perHost  map[netip.Addr]int // made and being made
	waiting  int                // packets that wait for those that are being made
	promises promises
	sweep    sweep
	turn     int // of workers, to get the next proxy QP of a service
	count    Counters

	makes, ends ask.Slots // of calls of the port
}

// New makes ProxyQPs. Connect completes them.
func New(c Config, d Deps) *ProxyQPs {
	return &ProxyQPs{
		Deps: d, cfg: c, proxyQPs: map[key]proxyQP{}, making: map[key]*making{}, perHost: map[netip.Addr]int{},
		makes: make(ask.Slots, makesAtOnce), ends: make(ask.Slots, endsAtOnce),
	}
}

// Connect gives the parts of management that proxy QPs need, and that themselves need proxy QPs. It is called before
// any other method.
func (p *ProxyQPs) Connect(h Hosts, s Sources) { p.hosts, p.sources = h, s }

// Of returns how many proxy QPs a host has, those that are being made included.
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
		if p.isDenied(k.Host) {
			denied = append(denied, k)
		}
	}
	for _, k := range denied {
		p.remove(k, "denied")
	}
	p.cancelIf(func(m *making) bool { return p.isDenied(m.Host) }, punt.RejectDenied, errRemoved("denied"))
}

func (p *ProxyQPs) isDenied(host netip.Addr) bool {
	return p.policy && !slices.ContainsFunc(p.allow, func(a netip.Prefix) bool { return a.Contains(host) })
}

// HandlePending learns the source of a pending packet, and requeues it once it has a proxy QP.
func (p *ProxyQPs) HandlePending(f frame.Frame, packet punt.PendingPacket, now time.Time) {
	x, ok := senderOf(f)
	if !ok {
		packet.Reject(punt.RejectSource)
		return
	}
	k := key{Host: x.host, HostQPN: x.qpn, Partition: packet.Partition()}
	if p.isDenied(k.Host) { // since the worker looked
		packet.Reject(punt.RejectDenied)
		return
	}
	_, exists := p.proxyQPs[k] // made meanwhile, or the frame is from another MAC address
	m := p.making[k]
	var err error
	if !exists && m == nil {
		err = p.makeRoom(k.Host, now) // before a host that is known makes room for this one, in vain
	}
	if err == nil {
		if why, bad := p.hosts.Learn(k.Host, f.Eth.Src(), punt.VID(f), x.version, now); bad != nil {
			if !exists && m == nil {
				p.count.ProxyQPsDenied++
			}
			packet.Reject(why)
			return
		}
	}
	switch {
	case err != nil:
		p.denied(k, err)
		packet.Reject(punt.RejectFull)
	case exists:
		packet.Requeue()
	default:
		if m == nil {
			p.promises.keep(k.Host)
			m = p.begin(&making{key: k, worker: packet.Worker(), qkey: x.qkey, version: x.version})
		}
		p.wait(m, packet)
	}
}

func (p *ProxyQPs) denied(k key, err error) {
	p.count.ProxyQPsDenied++
	if p.Log.Allow("proxy_qp_rejected", 1) {
		p.Log.Warn("proxy_qp_rejected", "host", k.Host, "qpn", k.HostQPN, "error", err)
	}
}

// A sender is what a proxy QP is made for.
type sender struct {
	host    netip.Addr
	qpn     ib.QPN
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
		return sender{f.Src(), tables.PlainQPN, ib.QKeyRDMAUDP, tables.PlainUDP}, true
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
	return sender{src, deth.SrcQP(), deth.QKey(), version}, true
}

// makeRoom makes room for another proxy QP of a host, which may be one that was promised to it, or reports why there is none.
func (p *ProxyQPs) makeRoom(host netip.Addr, now time.Time) error {
	others := p.promises.n - len(p.promises.of[host])
	switch {
	case p.taken()+others >= p.cfg.Max:
		return errTotal(p.cfg.Max)
	case p.perHost[host] >= p.cfg.PerHost && !p.evict(host, now):
		return errPerHost(p.cfg.PerHost)
	}
	return nil
}

// remove ends a proxy QP: first in the tables, so that no worker finds it any more. What a worker still sends by it the
// port drops.
func (p *ProxyQPs) remove(k key, why string) {
	s := p.proxyQPs[k]
	if err := p.Tables.Delete(k); err != nil {
		p.Log.Error("proxy_qp_delete", "host", k.Host, "host_qpn", k.HostQPN, "error", err)
		return
	}
	delete(p.proxyQPs, k)
	p.uncount(k.Host)
	p.destroy(s.qp, s.qpn)
	p.Log.Debug("proxy_qp_removed", "host", k.Host, "host_qpn", k.HostQPN, "qpn", s.qpn, "why", why)
}

// uncount notes that a host has one proxy QP less, made or being made.
func (p *ProxyQPs) uncount(host netip.Addr) {
	if p.perHost[host]--; p.perHost[host] <= 0 {
		delete(p.perHost, host)
		p.sources.Drop(host)
	}
}

// destroy makes the port destroy a queue pair, in a goroutine of its own.
func (p *ProxyQPs) destroy(qp uint32, qpn ib.QPN) {
	p.Ask.Go(func() {
		p.ends <- struct{}{}
		defer func() { <-p.ends }()
		if err := p.Port.DestroyProxyQP(qp); err != nil {
			p.Log.Warn("proxy_qp_leaked", "qpn", qpn, "error", err)
		}
	})
}

// RemoveHost ends all proxy QPs of a host.
func (p *ProxyQPs) RemoveHost(host netip.Addr, why string) {
	var keys []key
	for s := range p.Tables.Of(host) {
		keys = append(keys, s.HostQP)
	}
	for _, k := range keys {
		p.remove(k, why)
	}
	p.cancelIf(func(m *making) bool { return m.Host == host }, punt.RejectSource, errRemoved(why))
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
