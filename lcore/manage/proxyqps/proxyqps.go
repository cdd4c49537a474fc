// SPDX-License-Identifier: Apache-2.0

package proxyqps

import (
	"cmp"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/manage/limit"
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

	answered bool // something came back from InfiniBand
}

// ProxyQPs are all proxy QPs. New makes them.
type ProxyQPs struct {
	Deps
	inUse
	cfg     Config
	sources Sources
	policy  policy

	making   map[key]*making
	waiting  waiting
	perHost  map[netip.Addr]int       // made and being made
	crowded  map[netip.Addr]time.Time // hosts at their limit, all of whose proxy QPs were in use then
	promises promises
	rates    rates
	sweep    sweep
	turn     int // of workers, to get the next proxy QP of a service
	count    Counters

	pressed time.Time // when one host's proxy QP last made room for another's
	device  *device
	ceiling ceiling
}

// New makes ProxyQPs. Connect completes them.
func New(c Config, d Deps) *ProxyQPs {
	device := newDevice(&d)
	p := &ProxyQPs{
		Deps: d, cfg: c, making: map[key]*making{}, perHost: map[netip.Addr]int{}, crowded: map[netip.Addr]time.Time{},
		inUse:   inUse{tables: d.Tables, log: d.Log, isBehind: device.isBehind, proxyQPs: map[key]proxyQP{}, order: limit.NewLRU[key](classes)},
		waiting: waiting{most: cmp.Or(c.Waiting, WaitMost), of: map[netip.Addr]int{}},
		rates:   rates{hosts: map[netip.Addr]*limit.Rate{}}, promises: newPromises(), device: device, ceiling: ceiling{limit: c.Max, log: d.Log},
	}
	p.rates.set(c.Rate, c.RatePerHost)
	return p
}

// Connect gives the parts of management that proxy QPs need, and that themselves need proxy QPs. It is called before
// any other method.
func (p *ProxyQPs) Connect(h Hosts, s Sources) { p.hosts, p.promises.hosts, p.sources = h, h, s }

// Of returns how many proxy QPs a host has, those that are being made included.
func (p *ProxyQPs) Of(host netip.Addr) int { return p.perHost[host] }

// Hosts yields the hosts with proxy QPs.
func (p *ProxyQPs) Hosts() iter.Seq[netip.Addr] { return maps.Keys(p.perHost) }

// Most returns how many proxy QPs there can be: the limit, or what the device makes.
func (p *ProxyQPs) Most(now time.Time) int { return p.ceiling.most(now) }

// Counters returns a copy of the counters.
func (p *ProxyQPs) Counters() Counters { return p.count }

// SetLimits changes limits. Proxy QPs that are too many stay until they are idle.
func (p *ProxyQPs) SetLimits(l Limits) {
	p.cfg.Limits = l
	p.rates.set(l.Rate, l.RatePerHost)
}

// SetMax changes how many there may be, and how many packets may wait for them; 0: WaitMost. Those that are too many
// stay until they are idle.
func (p *ProxyQPs) SetMax(most, waiting int) {
	p.cfg.Max, p.ceiling.limit, p.waiting.most = most, most, cmp.Or(waiting, WaitMost)
}

// Clear ends all: their segment is there no more.
func (p *ProxyQPs) Clear() {
	for k := range maps.Clone(p.proxyQPs) {
		p.remove(k, "segment removed")
	}
	p.cancelIf(func(*making) bool { return true }, punt.RejectSegment, errRemoved("segment removed"))
}

// SetAllow lets these hosts have proxy QPs, and no others: those of others end. The workers know the policy already.
func (p *ProxyQPs) SetAllow(allow []netip.Prefix) {
	p.policy = policy{slices.Clone(allow), true}
	var denied []key
	for k := range p.proxyQPs {
		if p.policy.denies(k.Host) {
			denied = append(denied, k)
		}
	}
	for _, k := range denied {
		p.remove(k, "denied")
	}
	p.cancelIf(func(m *making) bool { return p.policy.denies(m.Host) }, punt.RejectDenied, errRemoved("denied"))
}

// A policy is which hosts may have proxy QPs.
type policy struct {
	allow []netip.Prefix // only when set
	set   bool           // SetAllow was called; until then the workers' policy is enough
}

func (y *policy) denies(host netip.Addr) bool {
	return y.set && !slices.ContainsFunc(y.allow, func(a netip.Prefix) bool { return a.Contains(host) })
}

// HandlePending learns the source of a pending packet, and requeues it once it has a proxy QP.
func (p *ProxyQPs) HandlePending(f frame.Frame, packet punt.PendingPacket, now time.Time) {
	x, ok := senderOf(f)
	if !ok {
		packet.Reject(punt.RejectSource)
		return
	}
	k := key{Host: x.host, HostQPN: x.qpn, Partition: packet.Partition()}
	if p.policy.denies(k.Host) { // since the worker looked
		packet.Reject(punt.RejectDenied)
		return
	}
	_, exists := p.proxyQPs[k] // made meanwhile, or the frame is from another MAC address
	m := p.making[k]
	if !exists && m == nil {
		if m = p.begun(x, f, packet, now); m == nil {
			return
		}
	} else if why, err := p.learn(x, f, now); err != nil {
		packet.Reject(why)
		return
	}
	if exists {
		packet.Requeue()
		return
	}
	p.waiting.add(m, packet)
}

func (p *ProxyQPs) learn(x sender, f frame.Frame, now time.Time) (punt.Rejection, error) {
	return p.hosts.Learn(x.host, f.Eth.Src(), punt.VID(f), x.version, now)
}

// begun begins the proxy QP that a packet needs, and learns its host; or rejects the packet, and returns nil. A host
// that is known is learned first: who only pretends to be that host uses up nothing of what it may have. One that is
// not known is learned last: no other makes room for it in vain.
func (p *ProxyQPs) begun(x sender, f frame.Frame, packet punt.PendingPacket, now time.Time) *making {
	k := key{Host: x.host, HostQPN: x.qpn, Partition: packet.Partition()}
	var a admission
	admit := func() (no *refusal) {
		a, no = p.admit(applicant{x.host, f.Eth.Src(), punt.VID(f)}, now)
		return no
	}
	learn := func() *refusal {
		if why, err := p.learn(x, f, now); err != nil { // which has said so
			return &refusal{why: why}
		}
		return nil
	}
	steps := [2]func() *refusal{admit, learn}
	if _, known := p.hosts.Find(x.host); known {
		steps = [2]func() *refusal{learn, admit}
	}
	for _, step := range steps {
		if no := step(); no != nil {
			p.denied(k, no.err)
			packet.Reject(no.why)
			return nil
		}
	}
	p.enter(x.host, a, now)
	p.promises.keep(k.Host)
	return p.begin(&making{key: k, worker: packet.Worker(), qkey: x.qkey, version: x.version})
}

func (p *ProxyQPs) denied(k key, err error) {
	p.count.ProxyQPsDenied++
	if err != nil && p.Log.Allow("proxy_qp_rejected", 1) {
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

// remove ends a proxy QP: first in the tables, so that no worker finds it any more. What a worker still sends by it the
// port drops.
func (p *ProxyQPs) remove(k key, why string) {
	s := p.proxyQPs[k]
	if err := p.Tables.Delete(k); err != nil {
		p.Log.Error("proxy_qp_delete", "host", k.Host, "host_qpn", k.HostQPN, "error", err)
		return
	}
	delete(p.proxyQPs, k)
	p.order.Remove(k)
	p.uncount(k.Host)
	p.device.destroy(s.qp, s.qpn)
	p.Log.Debug("proxy_qp_removed", "host", k.Host, "host_qpn", k.HostQPN, "qpn", s.qpn, "why", why)
}

// uncount notes that a host has one proxy QP less, made or being made.
func (p *ProxyQPs) uncount(host netip.Addr) {
	if p.perHost[host]--; p.perHost[host] <= 0 {
		delete(p.perHost, host)
		delete(p.crowded, host)
		p.sources.Drop(host)
	}
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
