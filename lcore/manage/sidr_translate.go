// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"net/netip"
	"slices"

	"causeway/ibside/ib"
)

// Where InfiniBand knows hosts and nodes by other addresses than RoCE, they change at the IB door, and nowhere else: what the
// door is asked for, and what it is asked by nodes. All else here, the log among it, has the RoCE side's.
//
//	RoCE host ─ IP header, CMA header: 10.9.0.1 to 10.9.0.7 ─▶ loop ─ Connect: 10.10.9.1 to 10.10.9.7 ─▶ IB node
//	          ◀ IP header, CMA header: 10.9.0.7 to 10.9.0.1 ─  loop ◀ Serve:   10.10.9.7 to 10.10.9.1 ── IB node

// toRoCE gives a request of an IB node's the RoCE side's addresses. It leaves it as it is and reports false when one of them
// is nobody's. Any goroutine may call it.
func (s *sidr) toRoCE(r *ServiceRequest) bool {
	ts := s.translate.Load()
	if ts == nil {
		return true
	}
	from, known := ts.ToRoCE(r.From)
	to, too := ts.ToRoCE(r.To)
	if known && too {
		r.From, r.To = from, to
	}
	return known && too
}

// toIB returns two addresses as InfiniBand knows them; false when one of them is nobody's there.
func (l *Loop) toIB(from, to netip.Addr) (a, b netip.Addr, ok bool) {
	a, known := l.cfg.Service.Translate.ToIB(from)
	b, too := l.cfg.Service.Translate.ToIB(to)
	return a, b, known && too
}

// ownGID is the GID that an IB port has which has a host's address. It is zero, which no port has, when nobody can have that
// address there.
func (l *Loop) ownGID(host netip.Addr) ib.GID {
	if a, ok := l.cfg.Service.Translate.ToIB(host); ok {
		return ib.GIDFromAddr(a)
	}
	return ib.GID{}
}

// setTranslate has hosts and nodes known by other addresses. Requests under way keep those that they came or went with. Who
// was seen under a GID that is not his address any more is seen under another.
func (l *Loop) setTranslate(ts ib.Translations) {
	if slices.Equal(ts, l.cfg.Service.Translate) {
		return
	}
	ts = slices.Clone(ts)
	l.refit(func() { l.cfg.Service.Translate = ts })
	l.sidr.translate.Store(&ts)
}
