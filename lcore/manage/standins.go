// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"net/netip"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/tables"
)

// RoCE versions, as tables have them.
const (
	roceV1 = 1
	roceV2 = 2
)

// A stand-in is a UD QP on the IB side that stands for one RoCE (host, QPN).
type standInKey struct {
	host netip.Addr
	qpn  ib.QPN
}

type standIn struct {
	qp     uint32    // the IB door's handle
	qpn    ib.QPN    // on IB
	usedAt time.Time // when it was last seen to have been used
}

// standInFor gives the source of a held frame its stand-in, and the frame back to its worker.
func (l *Loop) standInFor(f frame.Frame, held Held) {
	src, deth, version := transportOf(f)
	if deth == nil {
		held.Refuse(RefuseSource)
		return
	}
	if l.isDenied(src) { // since the worker looked
		held.Refuse(RefuseDenied)
		return
	}
	key := standInKey{src, deth.SrcQP()}
	if _, there := l.standIns[key]; there { // made for an earlier frame of the same burst
		held.Again()
		return
	}
	err := l.roomFor(src) // before a host that is known makes room for this one, in vain
	if err == nil {
		if why, ok := l.learn(src, f.Eth.Src(), vlanOf(f), version); !ok {
			l.count.StandInsDenied++
			held.Refuse(why)
			return
		}
		err = l.makeStandIn(key, held.Worker(), deth.QKey(), version)
	}
	if err != nil {
		l.count.StandInsDenied++
		if l.mayLog("standin_refused", 1) {
			l.log.Warn("standin_refused", "host", key.host, "qpn", key.qpn, "error", err)
		}
		held.Refuse(RefuseFull)
		return
	}
	held.Again()
}

// transportOf returns the source of a RoCE frame, its DETH and its RoCE version. The worker has checked it.
func transportOf(f frame.Frame) (src netip.Addr, deth ib.DETH, version uint8) {
	var bth []byte
	if f.Type == frame.TypeRoCEv1 {
		grh, ok := ib.AsGRH(f.Payload)
		if !ok {
			return src, nil, 0
		}
		src, bth, version = grh.SGID().Addr(), f.Payload[ib.GRHLen:], roceV1
	} else {
		_, payload, fault := f.UDP()
		if fault != "" {
			return src, nil, 0
		}
		src, bth, version = f.Src(), payload, roceV2
	}
	if len(bth) < ib.BTHLen {
		return src, nil, 0
	}
	deth, _ = ib.AsDETH(bth[ib.BTHLen:])
	return src, deth, version
}

// roomFor reports why a host gets no further stand-in.
func (l *Loop) roomFor(host netip.Addr) error {
	switch {
	case len(l.standIns) >= l.cfg.StandIns:
		return errTotal(l.cfg.StandIns)
	case l.perHost[host] >= l.cfg.StandInsPerHost && !l.makeRoom(host, time.Now()):
		return errPerHost(l.cfg.StandInsPerHost)
	}
	return nil
}

func (l *Loop) makeStandIn(key standInKey, worker int, qkey ib.QKey, version uint8) error {
	qp, qpn, err := l.door.CreateStandIn(worker, qkey)
	if err != nil {
		return err
	}
	_, err = l.tables.PutStandIn(tables.StandIn{
		Host: key.host, HostQPN: key.qpn, QP: qp, QPN: qpn, QKey: qkey, Worker: worker, Version: version,
		Source: l.port.sources.Give(key.host),
	})
	if err != nil {
		if undo := l.door.DestroyStandIn(qp); undo != nil {
			l.log.Warn("standin_leaked", "qpn", qpn, "error", undo)
		}
		if l.perHost[key.host] == 0 {
			l.port.sources.Drop(key.host)
		}
		return err
	}
	l.standIns[key] = standIn{qp, qpn, time.Now()}
	l.perHost[key.host]++
	l.count.StandInsMade++
	l.log.Debug("standin_made", "host", key.host, "host_qpn", key.qpn, "qpn", qpn, "worker", worker)
	return nil
}
