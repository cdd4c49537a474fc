// SPDX-License-Identifier: Apache-2.0

package rivals

import (
	"encoding/binary"

	"causeway/lcore/frame"
)

// A message is at most ib.BridgeDataLen bytes, with numbers in network byte order. Its first byte is none that a message of a
// fleet begins with, whose first three bits are a version of BFD.
//
//	 0  1  what it is
//	 1  1  version
//	 2  1  flags
//	 3  1  number of MAC addresses, or of claims
//	 4  8  sender's instance
//	12  8  receiver's instance
//	20  8  nonce: the asker's, and back
//	28  8  when the sender came
//	36  8  digest of the sender's claims, or of those that are asked for
//	44  4  how many claims the sender has, or the number of the first one that is asked for or told
//	48  8  in an ask and a wish: the nonce of what the receiver has asked last
//	56  in an ask: the sender's MAC addresses, at whose link-local addresses it hears answers
//	    in an answer: the lengths of two names, 1 byte each; the bridge's and its fleet's
//	    in claims: claimLen bytes each
//
// An ask and a wish for claims go over InfiniBand, what answers them over Ethernet: who answers is on both.
const (
	ask byte = 0xc1 + iota
	answer
	wish
	told

	version = 1
	headLen = 56
	macLen  = 6
	// What fits.
	mostMACs = 8
	mostName = 64
	mostTold = 4
)

// IsMessage reports whether data, of another bridge, is for Received.
func IsMessage(data []byte) bool { return len(data) > 0 && data[0] >= ask && data[0] <= told }

const (
	carries byte = 1 << iota // it forwards
	wants                    // it does, or would if it were not for another
	allows                   // the receiver may be beside it
	fresh                    // it has just come, and does not know yet after whom
)

type message struct {
	what     byte
	flags    byte
	from, to uint64
	nonce    uint64
	came     uint64
	digest   uint64
	number   uint32
	echo     uint64
	macs     []frame.MAC // of an ask
	name     string      // of an answer
	fleet    string      // the same; "": it is in none
	claims   []claim     // that are told
}

func (m *message) seal() []byte {
	n := max(len(m.macs), len(m.claims))
	b := []byte{m.what, version, m.flags, byte(n)}
	for _, x := range []uint64{m.from, m.to, m.nonce, m.came, m.digest} {
		b = binary.BigEndian.AppendUint64(b, x)
	}
	b = binary.BigEndian.AppendUint32(b, m.number)
	b = binary.BigEndian.AppendUint64(b, m.echo)
	switch m.what {
	case ask:
		for _, mac := range m.macs {
			b = append(b, mac[:]...)
		}
	case answer:
		name, fleet := cut(m.name), cut(m.fleet)
		b = append(b, byte(len(name)), byte(len(fleet)))
		b = append(append(b, name...), fleet...)
	case told:
		for i := range m.claims {
			b = m.claims[i].appendTo(b)
		}
	}
	return b
}

func cut(name string) string { return name[:min(len(name), mostName)] }

// open reads a message; false: it is none.
func open(b []byte) (m message, ok bool) {
	if len(b) < headLen || !IsMessage(b) || b[1] != version {
		return m, false
	}
	number := func(at int) uint64 { return binary.BigEndian.Uint64(b[at:]) }
	m = message{what: b[0], flags: b[2], from: number(4), to: number(12), nonce: number(20), came: number(28), digest: number(36), number: binary.BigEndian.Uint32(b[44:]), echo: number(48)}
	n, rest := int(b[3]), b[headLen:]
	switch m.what {
	case ask:
		if n > mostMACs || len(rest) != n*macLen {
			return m, false
		}
		for ; len(rest) > 0; rest = rest[macLen:] {
			m.macs = append(m.macs, frame.MAC(rest))
		}
	case answer:
		if n != 0 || len(rest) < 2 || int(rest[0]) > mostName || int(rest[1]) > mostName || len(rest) != 2+int(rest[0])+int(rest[1]) {
			return m, false
		}
		m.name, m.fleet = string(rest[2:2+rest[0]]), string(rest[2+rest[0]:])
	case wish:
		if n+len(rest) != 0 {
			return m, false
		}
	case told:
		if n > mostTold || len(rest) != n*claimLen {
			return m, false
		}
		for ; len(rest) > 0; rest = rest[claimLen:] {
			c := readClaim(rest)
			if c.kind < group || c.kind > aliases || c.bits > 128 {
				return m, false
			}
			m.claims = append(m.claims, c)
		}
	}
	return m, true
}

// isAnswer reports whether a message comes over Ethernet.
func (m *message) isAnswer() bool { return m.what == answer || m.what == told }
