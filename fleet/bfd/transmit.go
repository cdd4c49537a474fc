// SPDX-License-Identifier: Apache-2.0

package bfd

import (
	"time"

	"github.com/gopacket/gopacket/layers"
)

// Tick does what is due, and returns a packet that is to be sent, if one is, and when to Tick again at the latest. The packet
// becomes the caller's. Again is zero when only a packet that comes can change anything.
func (s *Session) Tick(now time.Time) (packet []byte, again time.Time) {
	s.detect(now)
	due, periodic := s.due()
	if s.final || periodic && (s.news || !now.Before(due)) {
		packet = s.Packet(now)
		due, periodic = s.due()
	}
	if periodic {
		again = due
	}
	if !s.heard.IsZero() {
		if lost := s.heard.Add(s.detection()); again.IsZero() || lost.Before(again) {
			again = lost
		}
	}
	return packet, again
}

// Packet returns a packet that is to be sent now, whatever is due, which becomes the caller's. The next one is due an interval
// later. It is for a caller who sends more with the packet, and knows that the other end takes more packets than it says.
func (s *Session) Packet(now time.Time) []byte {
	p := &layers.BFD{
		Version: 1, Diagnostic: s.diag, State: s.state, Final: s.final,
		Poll:             s.poll != noPoll && !s.final, // RFC 5880 §6.5: no packet has both
		DetectMultiplier: layers.BFDDetectMultiplier(s.config.Mult),
		MyDiscriminator:  layers.BFDDiscriminator(s.config.Discriminator), YourDiscriminator: layers.BFDDiscriminator(s.remote.discriminator),
		DesiredMinTxInterval: microseconds(s.minTx), RequiredMinRxInterval: microseconds(s.config.MinRx),
	}
	if p.Poll {
		s.poll = pollSent
	}
	s.final, s.news, s.sent, s.fraction = false, false, now, s.jitter()
	return encode(p)
}

// jitter returns which part of an interval the next packet follows after (RFC 5880 §6.8.7). Where one lost packet ends the
// session, each is at least a tenth of the interval early.
func (s *Session) jitter() float64 {
	const least = 0.75
	most := 1.0
	if s.config.Mult == 1 {
		most = 0.9
	}
	return least + (most-least)*s.config.Rand.Float64()
}

// due returns when the next periodic packet is; false: none is sent, because the other end wants none, or asks for what it
// wants to know (RFC 5880 §6.8.7).
func (s *Session) due() (at time.Time, periodic bool) {
	demand := s.remote.demand && s.state == Up && s.remote.state == Up
	if s.remote.minRx == 0 || demand && s.poll == noPoll {
		return at, false
	}
	if s.sent.IsZero() {
		return s.since, true
	}
	every := max(s.minTx, s.remote.minRx) // a shorter one counts from the last packet, too (RFC 5880 §6.8.3)
	return s.sent.Add(time.Duration(s.fraction * float64(every))), true
}

// detection returns after how long a silence the session is down (RFC 5880 §6.8.4).
func (s *Session) detection() time.Duration {
	return s.remote.mult * max(s.config.MinRx, s.remote.minTx)
}

// detect takes the session down when nothing has come for the detection time. The other end's discriminator is forgotten then
// in any state (RFC 5880 §6.8.1): who starts anew has another one, and would discard packets with this one.
func (s *Session) detect(now time.Time) {
	if s.heard.IsZero() || now.Sub(s.heard) < s.detection() {
		return
	}
	s.heard = time.Time{}
	s.remote.discriminator = 0
	if s.state == Init || s.state == Up {
		s.become(Down, layers.BFDDiagnosticTimeExpired, now)
	}
}

func microseconds(d time.Duration) layers.BFDTimeInterval {
	return layers.BFDTimeInterval(d / time.Microsecond)
}
