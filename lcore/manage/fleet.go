// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"bytes"
	"context"
	"errors"

	"causeway/lcore/frame"
	"causeway/lcore/manage/local"
	"causeway/lcore/manage/messages"
	"causeway/tables"
)

// Fleet says which bridge of several a station reaches nodes by. Its method is called in the loop.
type Fleet = local.Fleet

// TakeOver has switches learn that these MAC addresses are here now, by a frame of each on each segment. It waits for
// nothing but room in the loop's inbox.
func TakeOver(ctx context.Context, l *Loop, macs []frame.MAC) {
	l.inbox.Later(ctx, func() {
		for _, s := range l.segments {
			frames, link := l.frames.By(s.cfg.Port), s.local.Link
			for _, link.MAC = range macs {
				frames.Send(0, frame.AppendRARP(nil, link))
			}
		}
	})
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
