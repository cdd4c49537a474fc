// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"

	"causeway/fleet/bfd"
)

// A message, with numbers in network order:
//
//	 0  24  BFD control packet (RFC 5880 §4.1)
//	24   1  version of the trailer, 1
//	25   1  the fabric that it is sent over
//	26   2  how many members that are not the receiver the sender has Up on each fabric; at most 255
//	28   8  the fleet: a hash of its name, and when it was founded
//	36   8  the sender's process
//	44   8  the receiver's process
//	52   8  counter: above that of all earlier messages of the sender's process over this fabric, to whomever
//	60   1  the word's length, at most 64
//	61   n  the word
//	     16 HMAC-SHA256 with the fleet's secret of all before, of which this is the beginning
//
// The fabric and the receiver are in it so that what was recorded on the way to one member, or on one fabric, is nothing to
// another; the counter, so that what was recorded does not keep a session up.
const (
	versionAt  = bfd.Len
	fabricAt   = versionAt + 1
	upAt       = fabricAt + 1
	fleetAt    = upAt + Fabrics
	fromAt     = fleetAt + 8
	toAt       = fromAt + 8
	countAt    = toAt + 8
	wordLenAt  = countAt + 8
	wordAt     = wordLenAt + 1
	macLen     = 16
	version    = 1
	minMessage = wordAt + macLen
	// MaxWord and MaxMessage are lengths in bytes.
	MaxWord    = 64
	MaxMessage = minMessage + MaxWord
)

// message is what one says.
type message struct {
	control []byte // the BFD packet
	fabric  Fabric
	up      [Fabrics]uint8
	from    uint64
	to      uint64
	count   uint64
	word    []byte // empty: none
}

// identity is of which fleet messages are.
type identity struct {
	fleet  uint64
	secret []byte
}

func newIdentity(name string, founded uint64, secret []byte) *identity {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64([]byte(name), founded))
	return &identity{binary.BigEndian.Uint64(sum[:]), secret}
}

func (id *identity) sign(b []byte) []byte {
	h := hmac.New(sha256.New, id.secret)
	h.Write(b)
	return h.Sum(nil)[:macLen]
}

// seal returns a message's bytes.
func (id *identity) seal(m *message) []byte {
	b := make([]byte, 0, minMessage+len(m.word))
	b = append(b, m.control...)
	b = append(b, version, byte(m.fabric))
	b = append(b, m.up[:]...)
	for _, n := range []uint64{id.fleet, m.from, m.to, m.count} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	b = append(b, byte(len(m.word)))
	b = append(b, m.word...)
	return append(b, id.sign(b)...)
}

// open returns a message that came by a fabric to a process, as a copy, or why it is none.
func (id *identity) open(b []byte, by Fabric, to uint64) (*message, reason) {
	number := func(at int) uint64 { return binary.BigEndian.Uint64(b[at:]) }
	switch {
	case len(b) < minMessage:
		return nil, malformed
	case b[versionAt] != version: // which may have another length
		return nil, otherVersion
	case b[wordLenAt] > MaxWord || len(b) != minMessage+int(b[wordLenAt]):
		return nil, malformed
	case number(fleetAt) != id.fleet:
		return nil, otherFleet
	case Fabric(b[fabricAt]) != by:
		return nil, otherFabric
	case number(toAt) != to:
		return nil, otherReceiver
	}
	signed := len(b) - macLen
	if !hmac.Equal(b[signed:], id.sign(b[:signed])) {
		return nil, unsigned
	}
	m := &message{fabric: by, from: number(fromAt), to: to, count: number(countAt)}
	m.control = append(m.control, b[:bfd.Len]...)
	m.word = append(m.word, b[wordAt:signed]...)
	copy(m.up[:], b[upAt:])
	return m, taken
}
