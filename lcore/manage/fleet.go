// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"bytes"
	"context"
	"errors"
	"time"

	"causeway/lcore/frame"
	"causeway/lcore/manage/local"
	"causeway/lcore/manage/messages"
	"causeway/tables"
)

// Fleet says which bridge of several a station reaches nodes by. Its methods are called in the loop.
type Fleet = local.Fleet

// TakeOver has switches learn that these MAC addresses are here now, by a frame of each on each segment. It waits for
// nothing but room in the loop's inbox. The workers send none of an address that is another's by then.
func TakeOver(ctx context.Context, l *Loop, macs []frame.MAC) {
	l.inbox.Later(ctx, func() { announce(l, macs) })
}

// Remind is TakeOver for what switches know, and may forget. It waits for nothing, and is lost when the loop has no time for it.
func Remind(l *Loop, macs []frame.MAC) { l.inbox.Try(func() { announce(l, macs) }) }

func announce(l *Loop, macs []frame.MAC) {
	for _, s := range l.segments {
		for _, mac := range macs {
			s.announce(l, 0, mac)
		}
	}
}

// announce has a worker send a frame of a MAC address on the segment.
func (s *segment) announce(l *Loop, worker int, mac frame.MAC) {
	link := s.local.Link
	link.MAC = mac
	l.frames.By(s.cfg.Port).Send(worker, frame.AppendRARP(nil, link))
}

// contradictionsPerSecond bounds what the bridge says against others on a segment: all shards that it may have, a few times.
const contradictionsPerSecond = 256

// contradict has switches learn again that a MAC address is here: a station elsewhere has said that it is there.
func (s *segment) contradict(l *Loop, worker int, mac frame.MAC, now time.Time) {
	if f := s.local.Fleet; f == nil || !f.Has(mac) || !s.contradictions.Allows(now) {
		l.frames.NotForUs()
		return
	}
	s.contradictions.Take(now)
	s.announce(l, worker, mac)
	if l.log.Allow("shard_claimed", 1) {
		l.log.Warn("shard_claimed", "mac", mac, "segment", s.name(), "note", "another station says that the shard's address is there; this bridge has it, and says so")
	}
}

// SendEverywhere is SendMessage to the link-local address that a MAC address makes, on each segment.
func SendEverywhere(l *Loop, to frame.MAC, data []byte) error {
	return send(l, Station{MAC: to, IP: to.LinkLocal()}, data, tables.MaxSegments)
}

// send sends on so many segments, at most.
func send(l *Loop, to Station, data []byte, segments int) error {
	if err := to.Check(data); err != nil {
		return err
	}
	data = bytes.Clone(data)
	if !l.inbox.Try(func() {
		for _, s := range l.segments[:min(segments, len(l.segments))] {
			l.messages.Send(l.frames.By(s.cfg.Port), s.local, to, data)
		}
	}) {
		return ErrBusy
	}
	return nil
}

// A Station is another bridge, by its own addresses on the first segment.
type Station = messages.Station

// ErrBusy is what SendMessage returns when the loop has no room for another message, or has ended.
var ErrBusy = errors.New("manage: the loop is busy, and the message is dropped")

// SendMessage sends at most ib.BridgeDataLen bytes to another bridge on the first segment, whose Config.Heard gets them. It
// never waits, and does not know whether the message arrives. data is the caller's again when it returns. Any goroutine
// may call it.
func SendMessage(l *Loop, to Station, data []byte) error { return send(l, to, data, 1) }
