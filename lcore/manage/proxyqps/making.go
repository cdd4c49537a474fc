// SPDX-License-Identifier: Apache-2.0

package proxyqps

import (
	"errors"
	"net/netip"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore/manage/punt"
	"causeway/tables"
)

const (
	// WaitMost bounds the packets that wait for proxy QPs that are being made, for each takes an mbuf; those of one host
	// are no more than there is room for others. waitByQP bounds those of one RoCE queue pair.
	WaitMost = 4096
	waitByQP = 256
)

// A making is a proxy QP whose queue pair the port is making. It counts as one of its host's.
type making struct {
	key
	worker  int
	qkey    ib.QKey
	version uint8

	packets  []punt.PendingPacket
	services []func(ib.QPN, error)
}

// begin makes the port make a queue pair.
func (p *ProxyQPs) begin(m *making) *making {
	p.making[m.key] = m
	p.perHost[m.Host]++
	p.device.make(m.worker, p.cfg.PKey(m.Partition), m.qkey, func(qp uint32, qpn ib.QPN, err error) { p.made(m, qp, qpn, err) })
	return m
}

// beginAnew begins with another Q_Key in place of m. What waits for m waits on.
func (p *ProxyQPs) beginAnew(m *making, qkey ib.QKey) *making {
	p.perHost[m.Host]-- // begin counts it
	anew := *m
	anew.qkey = qkey
	return p.begin(&anew)
}

// waiting are the packets that wait for proxy QPs that are being made.
type waiting struct {
	most int
	n    int                // in all
	of   map[netip.Addr]int // by host
}

// add keeps a packet until its proxy QP is made.
func (w *waiting) add(m *making, packet punt.PendingPacket) {
	if w.of[m.Host] >= w.most-w.n || len(m.packets) >= waitByQP {
		packet.Reject(punt.RejectBusy)
		return
	}
	w.n++
	w.of[m.Host]++
	m.packets = append(m.packets, packet)
}

// end gives back the room of the packets that waited.
func (w *waiting) end(m *making) {
	w.n -= len(m.packets)
	if w.of[m.Host] -= len(m.packets); w.of[m.Host] <= 0 {
		delete(w.of, m.Host)
	}
}

// made takes the port's result.
func (p *ProxyQPs) made(m *making, qp uint32, qpn ib.QPN, err error) {
	if p.making[m.key] != m { // cancelled
		if err == nil {
			p.device.destroy(qp, qpn)
		}
		return
	}
	if err == nil {
		if err = p.put(m, qp, qpn); err != nil {
			p.device.destroy(qp, qpn)
		}
	}
	if err != nil {
		if p.IsShort(err) { // this one still counts as being made
			p.ceiling.reached(p.taken()-1, len(p.making) > 1, err, time.Now())
		}
		why := punt.RejectFull
		if errors.Is(err, errStopped) {
			why = punt.RejectStopped
		}
		p.denied(m.key, err)
		p.cancel(m, why, err)
		return
	}
	delete(p.making, m.key)
	p.waiting.end(m)
	for _, then := range m.services {
		then(qpn, nil)
	}
}

// put has workers know the proxy QP, and what waited for it sent: at once, because what comes now does not wait.
func (p *ProxyQPs) put(m *making, qp uint32, qpn ib.QPN) error {
	_, err := p.Tables.Put(tables.ProxyQP{
		HostQP: m.key, QP: qp, QPN: qpn, QKey: m.qkey, Worker: m.worker, Version: m.version, Source: p.sources.Give(m.Host),
	})
	if err != nil {
		return err
	}
	for _, packet := range m.packets {
		packet.Requeue()
	}
	p.proxyQPs[m.key] = proxyQP{qp: qp, qpn: qpn, usedAt: time.Now()}
	p.order.Put(m.key, p.classOf(m.key))
	p.count.ProxyQPsMade++
	p.Log.Debug("proxy_qp_made", "host", m.Host, "host_qpn", m.HostQPN, "qpn", qpn, "worker", m.worker)
	return nil
}

// cancel ends a proxy QP that is being made: what the port makes for it is destroyed at once.
func (p *ProxyQPs) cancel(m *making, why punt.Rejection, err error) {
	delete(p.making, m.key)
	p.uncount(m.Host)
	p.waiting.end(m)
	for _, packet := range m.packets {
		packet.Reject(why)
	}
	for _, then := range m.services {
		then(0, err)
	}
}

func (p *ProxyQPs) cancelIf(which func(*making) bool, why punt.Rejection, err error) {
	for _, m := range p.making {
		if which(m) {
			p.cancel(m, why, err)
		}
	}
}
