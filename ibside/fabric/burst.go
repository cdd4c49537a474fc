// SPDX-License-Identifier: Apache-2.0

package fabric

import "causeway/ibside/ib"

// maxOverhead is what a packet has beside its payload, with all headers and the longest pad.
const maxOverhead = ib.UDMaxLen - 4096 + 3

// DropLeaseEnded is the reason of a message that its sender may not send any more: see HCA.SendWhile.
const DropLeaseEnded = "lease_ended"

// Post is a message, and the queue pair that sends it.
type Post struct {
	QP *QP
	Send
}

// SendBurst sends messages of this adapter's queue pairs, in order. In why, which is as long, each gets "", or the
// reason for which it was dropped and counted. Their packets share one allocation.
func (h *HCA) SendBurst(posts []Post, why []string) { h.SendWhile(nil, posts, why) }

// SendWhile is SendBurst for one who may send as long as may returns true: it is asked right before each packet leaves, so
// that a process that was stopped meanwhile sends at most one when it goes on. The rest is dropped. nil: there is no end.
func (h *HCA) SendWhile(may func() bool, posts []Post, why []string) {
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
		took, ended := h.sendPackets(may, packets)
		h.dropRest(why, took, ended)
	}
	h.countSends(why)
}

// sendPackets returns how many packets the port took, and whether may has ended it.
func (h *HCA) sendPackets(may func() bool, packets [][]byte) (took int, ended bool) {
	if may == nil {
		return h.port.Send(packets...), false
	}
	for i := range packets {
		if !may() {
			return i, true
		}
		if h.port.Send(packets[i]) == 0 {
			return i, false
		}
	}
	return len(packets), false
}

// dropRest marks all good messages as dropped but the first, which the port took.
func (h *HCA) dropRest(why []string, took int, ended bool) {
	for i := range why {
		switch {
		case why[i] != "":
		case took > 0:
			took--
		case ended:
			why[i] = DropLeaseEnded
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
