// SPDX-License-Identifier: Apache-2.0

package proxyqps

import (
	"errors"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore/manage/punt"
	"causeway/tables"
)

const (
	// makesAtOnce bounds how many queue pairs the port makes at a time. An HCA takes that many commands, and more would
	// only wait in its driver.
	makesAtOnce = 16
	endsAtOnce  = 4
	// waitMost bounds the packets that wait for proxy QPs that are being made, for each takes an mbuf; waitByQP bounds
	// those of one RoCE queue pair.
	waitMost = 2048
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

// begin makes the port make a queue pair, in a goroutine of its own.
func (p *ProxyQPs) begin(m *making) *making {
	p.making[m.key] = m
	p.perHost[m.Host]++
	running, pkey := p.Ask.Running(), p.cfg.PKey(m.Partition)
	p.Ask.Go(func() {
		var qp uint32
		var qpn ib.QPN
		err := errStopped
		select {
		case p.makes <- struct{}{}:
			qp, qpn, err = p.Port.CreateProxyQP(m.worker, pkey, m.qkey)
			<-p.makes
		case <-running.Done():
		}
		p.Ask.Tell(func() { p.made(m, qp, qpn, err) })
	})
	return m
}

// beginAnew begins with another Q_Key in place of m. What waits for m waits on.
func (p *ProxyQPs) beginAnew(m *making, qkey ib.QKey) *making {
	p.perHost[m.Host]-- // begin counts it
	anew := *m
	anew.qkey = qkey
	return p.begin(&anew)
}

// wait keeps a packet until its proxy QP is made.
func (p *ProxyQPs) wait(m *making, packet punt.PendingPacket) {
	if p.waiting >= waitMost || len(m.packets) >= waitByQP {
		packet.Reject(punt.RejectBusy)
		return
	}
	p.waiting++
	m.packets = append(m.packets, packet)
}

// made takes the port's result.
func (p *ProxyQPs) made(m *making, qp uint32, qpn ib.QPN, err error) {
	if p.making[m.key] != m { // cancelled
		if err == nil {
			p.destroy(qp, qpn)
		}
		return
	}
	if err == nil {
		if err = p.put(m, qp, qpn); err != nil {
			p.destroy(qp, qpn)
		}
	}
	if err != nil {
		why := punt.RejectFull
		if errors.Is(err, errStopped) {
			why = punt.RejectStopped
		}
		p.denied(m.key, err)
		p.cancel(m, why, err)
		return
	}
	delete(p.making, m.key)
	p.waiting -= len(m.packets)
	for _, packet := range m.packets {
		packet.Requeue()
	}
	for _, then := range m.services {
		then(qpn, nil)
	}
}

func (p *ProxyQPs) put(m *making, qp uint32, qpn ib.QPN) error {
	_, err := p.Tables.Put(tables.ProxyQP{
		HostQP: m.key, QP: qp, QPN: qpn, QKey: m.qkey, Worker: m.worker, Version: m.version, Source: p.sources.Give(m.Host),
	})
	if err != nil {
		return err
	}
	p.proxyQPs[m.key] = proxyQP{qp, qpn, time.Now()}
	p.count.ProxyQPsMade++
	p.Log.Debug("proxy_qp_made", "host", m.Host, "host_qpn", m.HostQPN, "qpn", qpn, "worker", m.worker)
	return nil
}

// cancel ends a proxy QP that is being made: what the port makes for it is destroyed at once.
func (p *ProxyQPs) cancel(m *making, why punt.Rejection, err error) {
	delete(p.making, m.key)
	p.uncount(m.Host)
	p.waiting -= len(m.packets)
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
