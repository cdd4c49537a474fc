// SPDX-License-Identifier: Apache-2.0

package manage_test

import (
	"bytes"
	"testing"
	"testing/synctest"

	"causeway/ibside/ib"
	"causeway/lcore/frame"
)

// mostAnswers is how many frames the loop may send because of one, so that it amplifies no flood.
const mostAnswers = 4

// FuzzFrame gives the loop any punted frame: ARP, ND, IGMP, MLD, pings, and what is none of them.
func FuzzFrame(f *testing.F) {
	for _, b := range [][]byte{
		arp(hostLink, frame.ARPRequest, host4, node4), arp(hostLink, frame.ARPReply, host4, bridge4), ns(hostLink, host6, node6),
		na(hostLink, host6, true), ask(host4, node4).frame(), ip4(hostLink, frame.ProtoUDP, 64, host4, node4, make([]byte, 300)),
	} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 9000 {
			return
		}
		synctest.Test(t, func(t *testing.T) {
			s := startServices(t, nil)
			if sent := frames(t, s.give(b)); len(sent) > mostAnswers {
				t.Errorf("%d frames because of one", len(sent))
			}
		})
	})
}

// FuzzMAD asks the bridge's services anything, in packets that are right otherwise, twice. What it answers is a right
// MAD, and the same both times.
func FuzzMAD(f *testing.F) {
	for _, q := range []*question{
		ask(host4, node4), ask(host6, node6),
		ask(host4, node4, func(q *question) { q.fields.ServiceID = 0x01110000 + 8005 }),
		ask(host4, node4, func(q *question) { q.spoil = func(m []byte) { m[17], m[24+5] = 0x18, 73 } }),
	} {
		q.frame()
		f.Add(q.Payload)
	}
	f.Fuzz(func(t *testing.T, mad []byte) {
		if len(mad) > ib.MADLen+8 {
			return
		}
		q := ask(host4, node4)
		q.Payload = bytes.Clone(mad)
		b := q.AppendTo(nil)
		synctest.Test(t, func(t *testing.T) {
			s := startServices(t, nil)
			others := 0
			first := s.datagrams(s.give(b), &others)
			again := s.datagrams(s.give(b), &others)
			if len(first) > 1 || len(again) > len(first) || others > mostAnswers {
				t.Errorf("%d answers, then %d; and %d other frames", len(first), len(again), others)
			}
			if len(first) == 1 && len(again) == 1 && !bytes.Equal(first[0].Payload, again[0].Payload) {
				t.Errorf("answered with %x, then with %x", first[0].Payload, again[0].Payload)
			}
		})
	})
}
