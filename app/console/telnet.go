// SPDX-License-Identifier: Apache-2.0

package console

import "slices"

// Telnet's commands and options (RFC 854, 857, 858, 860, 1073).
const (
	iac  = 255
	dont = 254
	do   = 253
	wont = 252
	will = 251
	sb   = 250
	ayt  = 246 // are you there
	ip   = 244 // interrupt process
	brk  = 243
	se   = 240

	optEcho = 1
	optSGA  = 3 // suppress go-ahead
	optTM   = 6 // timing mark
	optNAWS = 31
	// optHistory is no standard's. Each subnegotiation is a line of the history: from the client one of an earlier
	// session, to it one to keep for the next.
	optHistory = 201
	// optSave is no standard's, either. The server's subnegotiation asks a client that can to save what the bridge may
	// not; the client's is what to tell the user.
	optSave = 202
)

// interrupt is Ctrl-C.
const interrupt = 3

// subMost bounds the bytes kept of a subnegotiation: NAWS has five.
const subMost = 32

// A telnet is one end of a telnet connection. It removes commands from the input, and returns the responses.
type telnet struct {
	state   int
	verb    byte
	sub     []byte
	afterCR bool

	detected bool      // the peer has sent a telnet command
	echo     bool      // the peer has us echo, so it sends each key
	offered  [256]bool // options that we have sent WILL or DO for
	refused  [256]bool // options that we have sent WONT or DONT for, once each, which avoids loops
	width    int       // of the peer's window; 0: unknown
	height   int
	lines    []string // of the history, which have come
	saves    []string // subnegotiations of optSave that have come
}

// States of the telnet reader.
const (
	inData = iota
	inCommand
	inOption
	inSub
	inSubCommand
)

// offer returns the options that a server offers first.
func (t *telnet) offer() []byte {
	t.offered[optEcho], t.offered[optSGA], t.offered[optNAWS] = true, true, true
	return []byte{iac, will, optEcho, iac, will, optSGA, iac, do, optNAWS}
}

// feed decodes input. data is what was typed: each line end, in any form, is one CR, and each interrupt Ctrl-C. answer
// is the response to the peer.
func (t *telnet) feed(in []byte) (data, answer []byte) {
	for _, b := range in {
		switch t.state {
		case inData:
			data = t.data(data, b)
		case inCommand:
			data, answer = t.command(data, answer, b)
		case inOption:
			t.state = inData
			answer = append(answer, t.negotiate(t.verb, b)...)
		case inSub, inSubCommand:
			t.inside(b)
		}
	}
	return data, answer
}

// inside decodes a byte of a subnegotiation.
func (t *telnet) inside(b byte) {
	switch {
	case t.state == inSub && b == iac:
		t.state = inSubCommand
	case t.state == inSub || b == iac:
		t.state = inSub
		if len(t.sub) < t.room() {
			t.sub = append(t.sub, b)
		}
	default: // its end; or that is missing
		t.state = inData
		if b == se {
			t.subnegotiated()
		}
	}
}

// room is how many bytes are kept of a subnegotiation.
func (t *telnet) room() int {
	if len(t.sub) > 0 && (t.sub[0] == optHistory || t.sub[0] == optSave) && t.offered[t.sub[0]] {
		return 1 + lineMost
	}
	return subMost
}

// data decodes a byte outside of commands. CR NUL, CR LF (RFC 854) and LF alone are one line end.
func (t *telnet) data(data []byte, b byte) []byte {
	after := t.afterCR
	t.afterCR = b == '\r'
	switch {
	case b == iac:
		t.state = inCommand
		t.afterCR = after
	case b == '\n' && after, b == 0:
	case b == '\n':
		data = append(data, '\r')
	default:
		data = append(data, b)
	}
	return data
}

func (t *telnet) command(data, answer []byte, b byte) ([]byte, []byte) {
	t.state = inData
	switch b {
	case iac:
		return append(data, iac), answer // never in UTF-8; the line editor drops it
	case will, wont, do, dont:
		t.verb, t.state = b, inOption
	case sb:
		t.sub, t.state = t.sub[:0], inSub
	case ip, brk:
		data = append(data, interrupt)
	case ayt:
		answer = append(answer, "\r\n[yes]\r\n"...)
	}
	t.detected = true
	return data, answer
}

// negotiate returns the response to one verb for one option. It agrees to echo, to suppress go-ahead, to a history and
// to saving, asks for the window's size, and refuses all other options, once each.
func (t *telnet) negotiate(verb, option byte) []byte {
	t.detected = true
	ours := option == optEcho || option == optSGA
	switch {
	case verb == do && ours:
		if option == optEcho {
			t.echo = true
		}
		return t.agree(will, option)
	case verb == dont && ours:
		if option == optEcho {
			t.echo = false
		}
		if t.offered[option] {
			t.offered[option] = false
			return []byte{iac, wont, option}
		}
	case verb == will && (option == optNAWS || option == optHistory || option == optSave):
		return t.agree(do, option)
	case verb == wont && option == optNAWS:
		t.width, t.height = 0, 0
	case verb == do && option == optTM: // each request needs a response
		return []byte{iac, wont, option}
	case verb == do && !t.refused[option]:
		t.refused[option] = true
		return []byte{iac, wont, option}
	case verb == will && !t.refused[option]:
		t.refused[option] = true
		return []byte{iac, dont, option}
	}
	return nil
}

// agree agrees to an option, unless it was offered before.
func (t *telnet) agree(verb, option byte) []byte {
	if t.offered[option] {
		return nil
	}
	t.offered[option] = true
	return []byte{iac, verb, option}
}

// subnegotiated takes what a subnegotiation has said: the window's size (NAWS), two bytes each, a line of the history,
// or about saving.
func (t *telnet) subnegotiated() {
	switch {
	case len(t.sub) == 5 && t.sub[0] == optNAWS:
		const most = 1000 // bounds the memory of a drawing
		size := func(b []byte) int { return min(int(b[0])<<8|int(b[1]), most) }
		t.width, t.height = size(t.sub[1:]), size(t.sub[3:])
	case len(t.sub) > 1 && t.sub[0] == optHistory && t.offered[optHistory]:
		t.lines = append(t.lines, string(t.sub[1:]))
	case len(t.sub) > 0 && t.sub[0] == optSave && t.offered[optSave]:
		t.saves = append(t.saves[:0], string(t.sub[1:])) // one at a time
	}
}

// taken returns the lines of the history that have come, once.
func (t *telnet) taken() (lines []string) {
	lines, t.lines = t.lines, nil
	return lines
}

// escape doubles IAC bytes.
func escape(b []byte) []byte {
	if !slices.Contains(b, iac) {
		return b
	}
	out := make([]byte, 0, len(b)+8)
	for _, x := range b {
		if x == iac {
			out = append(out, iac)
		}
		out = append(out, x)
	}
	return out
}

// naws encodes a window's size.
func naws(width, height int) []byte {
	out := []byte{iac, sb, optNAWS}
	size := []byte{byte(width >> 8), byte(width), byte(height >> 8), byte(height)}
	return append(append(out, escape(size)...), iac, se)
}

// historyLine encodes a line of the history.
func historyLine(line string) []byte { return subnegotiation(optHistory, line) }

// subnegotiation encodes what one end tells the other about an option.
func subnegotiation(option byte, text string) []byte {
	return append(append([]byte{iac, sb, option}, escape([]byte(text))...), iac, se)
}
