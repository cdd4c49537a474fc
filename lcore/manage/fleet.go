// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"context"

	"causeway/lcore/frame"
	"causeway/lcore/manage/local"
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
