// SPDX-License-Identifier: Apache-2.0

package sidr

import (
	"net/netip"
	"slices"

	"causeway/ibside"
	"causeway/ibside/ib"
)

// Where InfiniBand knows hosts and nodes by other addresses than RoCE, they are translated at the IB port only: in
// requests to it, and in requests of IB nodes. Everything else here, also the log, has the RoCE side's addresses.
//
//	RoCE host ─ IP header, CMA header: 10.9.0.1 to 10.9.0.7 ─▶ bridge ─ Connect: 10.10.9.1 to 10.10.9.7 ─▶ IB node
//	          ◀ IP header, CMA header: 10.9.0.7 to 10.9.0.1 ─  bridge ◀ Serve:   10.10.9.7 to 10.10.9.1 ── IB node

// toRoCE gives a request of an IB node's the RoCE side's addresses. It leaves it as it is and reports false when one of
// them has no translation. Any goroutine may call it.
func (q *questions) toRoCE(r *ibside.ServiceRequest) bool {
	ts := q.translate.Load()
	from, known := ts.ToRoCE(r.From)
	to, too := ts.ToRoCE(r.To)
	if known && too {
		r.From, r.To = from, to
	}
	return known && too
}

// toIB returns two addresses as InfiniBand knows them; false when one of them has no translation.
func (c *Config) toIB(from, to netip.Addr) (a, b netip.Addr, ok bool) {
	a, known := c.Translate.ToIB(from)
	b, too := c.Translate.ToIB(to)
	return a, b, known && too
}

// OwnGID returns the GID that is a host's address on IB. It is zero, which no port has, when the address has no
// translation.
func (s *SIDR) OwnGID(host netip.Addr) ib.GID {
	if a, ok := s.cfg.Translate.ToIB(host); ok {
		return ib.GIDFromAddr(a)
	}
	return ib.GID{}
}

// Translations returns the translations.
func (s *SIDR) Translations() ib.Translations { return s.cfg.Translate }

// Translates reports whether these are the translations.
func (s *SIDR) Translates(ts ib.Translations) bool { return slices.Equal(ts, s.cfg.Translate) }

// SetTranslate changes the translations. Requests under way keep their addresses. OwnGID follows.
func (s *SIDR) SetTranslate(ts ib.Translations) {
	s.cfg.Translate = slices.Clone(ts)
	s.questions.setTranslate(s.cfg.Translate)
}
