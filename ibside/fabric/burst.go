// SPDX-License-Identifier: Apache-2.0

package fabric

import "causeway/ibside/ib"

// maxOverhead is what a packet has beside its payload, with all headers and the longest pad.
const maxOverhead = ib.UDMaxLen - 4096 + 3

// Post is a message, and the queue pair that sends it.
type Post struct {
	QP *QP
	Send
}

// SendBurst sends messages of this adapter's queue pairs, in order. In why, which is as long, each gets "", or the
// reason for which it was dropped and counted. Their packets share one allocation.
func (h *HCA) SendBurst(posts []Post, why []string) {
	room := 0
	for i := range posts {
		if why[i] = posts[i].QP.check(&posts[i].Send); why[i] == "" {
			room += maxOverhead + len(posts[i].Payload)
		}
	}
	all, packets := make([]byte, 0, room), make([][]byte, 0, len(posts))
	for i := range posts {
		if why[i] != "" {
			continue
		}
		from := len(all)
		all = posts[i].QP.appendPacket(all, &posts[i].Send)
		packets = append(packets, all[from:len(all):len(all)])
	}
	if len(packets) > 0 {
		h.dropRest(why, h.port.Send(packets...))
	}
	h.countSends(why)
}

// dropRest marks all good messages as dropped but the first, which the port took.
func (h *HCA) dropRest(why []string, took int) {
	for i := range why {
		switch {
		case why[i] != "":
		case took > 0:
			took--
		case h.Down() != "":
			why[i] = DropLinkDown
		default:
			why[i] = DropPortClosed
		}
	}
}

func (h *HCA) countSends(why []string) {
	sent := uint64(0)
	for _, cause := range why {
		if cause == "" {
			sent++
		} else {
			h.sendDrops.add(cause)
		}
	}
	h.sent.Add(sent)
}
