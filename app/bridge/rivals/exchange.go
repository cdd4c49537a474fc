// SPDX-License-Identifier: Apache-2.0

package rivals

import (
	"math/rand/v2"
	"slices"
	"time"

	"causeway/lcore/frame"
	"causeway/lcore/manage/bridges"
)

// other is another bridge.
type other struct {
	bridges.Bridge
	found    time.Time
	asked    time.Time
	answered time.Time   // zero: never
	last     message     // its answer
	nonces   []nonce     // of what it was asked lately
	echo     uint64      // the nonce of its own last ask
	at       []frame.MAC // where it is, as it said last
	asks     int         // that have come in this turn and are perhaps not its own

	of       uint64 // the digest of the claims that are being told
	partial  set
	digest   uint64 // of those that are known
	claims   set
	complete bool // some are known
	overlap  set  // with the bridge's own
}

// A nonce is taken for one answer: an overheard one is worth nothing.
type nonce struct {
	number   uint64
	answered bool
}

const (
	recent = 8 // nonces, for more than a second
	// mostClaims bounds what is kept of another bridge's: one that says that it has more is asked for none, and so has something in common.
	mostClaims = 1 << 16
	mostAsks   = 8 // that are answered in a turn without a proof that they are the other's own
)

// sent returns a nonce that the other bridge was sent lately; nil: it was not.
func (o *other) sent(number uint64) *nonce {
	if i := slices.IndexFunc(o.nonces, func(n nonce) bool { return n.number == number }); i >= 0 {
		return &o.nonces[i]
	}
	return nil
}

// answers reports whether a message is the first answer to what the other bridge was sent.
func (o *other) answers(m *message) bool {
	n := o.sent(m.nonce)
	if n == nil || n.answered {
		return false
	}
	n.answered = true
	return true
}

// say sends a message to all ports of another one, with a nonce of its own.
func (r *Rivals) say(o *other, m *message) {
	for m.nonce == 0 {
		m.nonce = rand.Uint64()
	}
	if o.nonces = append(o.nonces, nonce{number: m.nonce}); len(o.nonces) > recent {
		o.nonces = o.nonces[1:]
	}
	m.echo = o.echo
	data := m.seal()
	for _, gid := range o.GIDs {
		_ = r.cfg.Ask(gid, data) // it is asked again
	}
}

// head begins a message to another.
func (r *Rivals) head(what byte, o *other) message {
	r.refresh()
	m := message{what: what, from: r.cfg.Instance, to: o.Instance, came: r.came, digest: r.digest, number: uint32(len(r.own))}
	if r.self.Wants {
		m.flags |= wants
	}
	if r.self.Carries && (r.free || r.changing) {
		m.flags |= carries
	}
	if !r.settled {
		m.flags |= fresh
	}
	if r.names(o) {
		m.flags |= allows
	}
	return m
}

// refresh brings the bridge's own claims up to date.
func (r *Rivals) refresh() {
	if c := r.cfg.InForce(); c != r.ownOf {
		r.ownOf, r.own = c, of(c)
		r.digest = r.own.digest()
		for _, o := range r.all {
			o.overlap = r.own.overlap(o.claims)
		}
	}
}

// wish asks for the claims that are not known yet, of one that the bridge may be beside.
func (r *Rivals) wish(o *other, now time.Time) {
	switch {
	case !r.allowed(o) || !o.there(now) || o.complete && o.digest == o.last.digest || o.last.number > mostClaims:
		return
	case o.of != o.last.digest:
		o.of, o.partial = o.last.digest, nil
	}
	if len(o.partial) < int(o.last.number) {
		m := r.head(wish, o)
		m.digest, m.number = o.of, uint32(len(o.partial))
		r.say(o, &m)
		return
	}
	r.refresh()
	o.claims, o.digest, o.complete, o.partial = o.partial, o.of, true, nil
	o.overlap = r.own.overlap(o.claims)
}

// take takes a message of one that is listed; what others send is nobody's.
func (r *Rivals) take(m *message, now time.Time) {
	o := r.all[m.from]
	if o == nil {
		return
	}
	switch m.what {
	case ask, wish:
		own := o.sent(m.echo) != nil // another bridge has not got that
		if o.asks++; !own && o.asks > mostAsks {
			return
		}
		if own || o.echo == 0 {
			o.echo = m.nonce
		}
		if m.what == ask {
			r.answer(o, m, own)
		} else if own && r.allowed(o) {
			r.tell(o, m)
		}
	case answer:
		if o.answers(m) {
			o.answered, o.last = now, *m
			r.wish(o, now)
		}
	case told:
		if o.answers(m) && m.digest == o.of && int(m.number) == len(o.partial) {
			o.partial = append(o.partial, m.claims...)
			r.wish(o, now)
		}
	}
}

// answer answers an ask at each MAC address that it names, and that its record has if it may be another's: at which of them the bridge is
// heard is not known here.
func (r *Rivals) answer(o *other, m *message, own bool) {
	at := m.macs
	if !own {
		at = slices.DeleteFunc(slices.Clone(at), func(x frame.MAC) bool { return !slices.Contains(o.MACs, x) })
	}
	if own || o.at == nil {
		o.at = at
	}
	x := r.head(answer, o)
	x.nonce, x.name, x.fleet = m.nonce, r.cfg.Name, r.cfg.Fleet
	for _, mac := range at {
		_ = r.cfg.Answer(mac, x.seal()) // it is asked for again
	}
}

// tell tells some claims.
func (r *Rivals) tell(o *other, m *message) {
	r.refresh()
	if m.digest != r.digest || int(m.number) >= len(r.own) {
		return
	}
	x := r.head(told, o)
	x.nonce, x.digest, x.number = m.nonce, m.digest, m.number
	x.claims = r.own[m.number:min(int(m.number)+mostTold, len(r.own))]
	for _, mac := range o.at {
		_ = r.cfg.Answer(mac, x.seal())
	}
}
