// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unicode"
	"unicode/utf8"

	"causeway/ibside/ib"
)

// The handshake over the socket, one datagram each way, numbers big-endian:
//
//	hello:  magic 4 | version 2 | wanted MTU 1 | name length 1 | GUID 8 | name
//	reply:  magic 4 | version 2 | status 2 | GID 16 | LID 2 | SM LID 2 | LMC, MTU 1 | P_Key count 1 | P_Keys
//	reject: magic 4 | version 2 | status 2 | text
//
// After it, each datagram is one InfiniBand packet, LRH to VCRC, or tells the client the state of its link:
//
//	link:   magic 4 | version 2 | cut 1
//
// The magic is no packet's: its bits of the LRH's version are not 0.
const (
	helloMagic       = "CwIB"
	handshakeVersion = 1

	helloLen = 16
	replyLen = 30

	maxPKeys = 128
	maxText  = 512
)

// MaxName is how many bytes the name of a port on another process's subnet has at most.
const MaxName = 64

// Statuses of a reply.
const (
	replyOK       = 0
	replyRejected = 1 // the text says why
	replyInUse    = 2 // likewise: another port has the GUID
)

// hello is the client's first message.
type hello struct {
	name string
	guid ib.GUID
	mtu  ib.MTU // upper limit; zero: the subnet's
}

func (h *hello) append(b []byte) []byte {
	b = append(b, helloMagic...)
	b = binary.BigEndian.AppendUint16(b, handshakeVersion)
	b = append(b, byte(h.mtu), byte(len(h.name)))
	b = binary.BigEndian.AppendUint64(b, uint64(h.guid))
	return append(b, h.name...)
}

// parseHello parses a hello. Its error is sent to the client.
func parseHello(b []byte) (hello, error) {
	if len(b) < helloLen || string(b[:4]) != helloMagic {
		return hello{}, errors.New("this is not a causeway handshake")
	}
	if v := binary.BigEndian.Uint16(b[4:]); v != handshakeVersion {
		return hello{}, fmt.Errorf("handshake version %d; this subnet uses %d", v, handshakeVersion)
	}
	h := hello{mtu: ib.MTU(b[6]), guid: ib.GUID(binary.BigEndian.Uint64(b[8:])), name: string(b[helloLen:])}
	switch {
	case int(b[7]) != len(h.name):
		return hello{}, fmt.Errorf("the name is %d bytes long, not %d", len(h.name), b[7])
	case h.name == "" || len(h.name) > MaxName || !printable(h.name):
		return hello{}, fmt.Errorf("the name must be 1 to %d bytes of printable UTF-8", MaxName)
	case h.guid == 0:
		return hello{}, errors.New("the GUID is zero")
	case h.mtu != 0 && !h.mtu.Valid():
		return hello{}, fmt.Errorf("MTU code %d; use 1 (256) to 5 (4096)", uint8(h.mtu))
	}
	return h, nil
}

// printable reports whether s is valid UTF-8 without control characters.
func printable(s string) bool {
	for _, r := range s {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}

func appendReply(b []byte, p PortInfo) []byte {
	b = append(b, helloMagic...)
	b = binary.BigEndian.AppendUint16(b, handshakeVersion)
	b = binary.BigEndian.AppendUint16(b, replyOK)
	b = append(b, p.GID[:]...)
	b = binary.BigEndian.AppendUint16(b, uint16(p.LID))
	b = binary.BigEndian.AppendUint16(b, uint16(p.SMLID))
	b = append(b, p.LMC<<4|byte(p.MTU), byte(len(p.PKeys)))
	for _, k := range p.PKeys {
		b = binary.BigEndian.AppendUint16(b, uint16(k))
	}
	return b
}

func appendRejection(b []byte, why error) []byte {
	text := why.Error()
	b = append(b, helloMagic...)
	b = binary.BigEndian.AppendUint16(b, handshakeVersion)
	status := uint16(replyRejected)
	if errors.Is(why, ErrGUIDInUse) {
		status = replyInUse
	}
	b = binary.BigEndian.AppendUint16(b, status)
	return append(b, text[:min(len(text), maxText)]...)
}

// rejection is the error of a handshake that the subnet has rejected, in its words.
type rejection struct {
	text []byte
	why  error // nil: nothing that may pass
}

func (r rejection) Error() string { return fmt.Sprintf("rejected: %q", r.text) }
func (r rejection) Unwrap() error { return r.why }

const linkLen = 7

// appendLink appends a datagram that tells whether the client's link is cut.
func appendLink(b []byte, cut bool) []byte {
	b = append(b, helloMagic...)
	b = binary.BigEndian.AppendUint16(b, handshakeVersion)
	if cut {
		return append(b, 1)
	}
	return append(b, 0)
}

// parseLink parses one; it reports false for any other datagram.
func parseLink(b []byte) (cut, is bool) {
	if len(b) != linkLen || string(b[:4]) != helloMagic {
		return false, false
	}
	return b[6] != 0, true
}

// parseReply parses the reply to a hello.
func parseReply(b []byte) (PortInfo, error) {
	if len(b) < 8 || string(b[:4]) != helloMagic {
		return PortInfo{}, errors.New("the other end is not a causeway subnet")
	}
	if v := binary.BigEndian.Uint16(b[4:]); v != handshakeVersion {
		return PortInfo{}, fmt.Errorf("the subnet uses handshake version %d, not %d", v, handshakeVersion)
	}
	switch binary.BigEndian.Uint16(b[6:]) {
	case replyOK:
	case replyInUse:
		return PortInfo{}, rejection{b[8:], ErrGUIDInUse}
	default:
		return PortInfo{}, rejection{b[8:], nil}
	}
	if len(b) < replyLen+2 {
		return PortInfo{}, errors.New("the reply is truncated")
	}
	p := PortInfo{
		GID: ib.GID(b[8:24]), LID: ib.LID(binary.BigEndian.Uint16(b[24:])),
		SMLID: ib.LID(binary.BigEndian.Uint16(b[26:])), LMC: b[28] >> 4, MTU: ib.MTU(b[28] & 0x0f),
	}
	for k := b[replyLen:]; len(k) >= 2; k = k[2:] {
		p.PKeys = append(p.PKeys, ib.PKey(binary.BigEndian.Uint16(k)))
	}
	if len(b) != replyLen+2*int(b[29]) || !p.LID.IsUnicast() || !p.SMLID.IsUnicast() ||
		!p.MTU.Valid() || p.LMC > ib.MaxLMC {
		return PortInfo{}, errors.New("the reply is not valid")
	}
	return p, nil
}
