// SPDX-License-Identifier: Apache-2.0

package console

import "slices"

// What telnet's commands and options are (RFC 854, 857, 858, 860, 1073).
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
)

// interrupt is what the keyboard sends for it.
const interrupt = 3

// subMost bounds the bytes of a subnegotiation that are kept: NAWS has five.
const subMost = 32

// A telnet is one end of a telnet connection: it takes commands out of what comes, and says what to answer.
type telnet struct {
	state   int
	verb    byte
	sub     []byte
	afterCR bool

	spoken  bool      // the other end speaks telnet
	echo    bool      // it wants us to echo: it sends each key
	offered [256]bool // options that we have said WILL or DO to
	refused [256]bool // options that we have said WONT or DONT to, so that nobody answers answers
	width   int       // of its window; 0: not known
	height  int
}

// States of the telnet reader.
const (
	inData = iota
	inCommand
	inOption
	inSub
	inSubCommand
)

// offer is what a server says first to a client that waits for it.
func (t *telnet) offer() []byte {
	t.offered[optEcho], t.offered[optSGA], t.offered[optNAWS] = true, true, true
	return []byte{iac, will, optEcho, iac, will, optSGA, iac, do, optNAWS}
}

// feed reads what has come. data is what was typed: each end of a line, in whichever form, is one CR, and what interrupts is
// Ctrl-C. answer goes back.
func (t *telnet) feed(in []byte) (data, answer []byte) {
	for _, b := range in {
		switch t.state {
		case inData:
			data = t.plain(data, b)
		case inCommand:
			data, answer = t.command(data, answer, b)
		case inOption:
			t.state = inData
			answer = append(answer, t.negotiate(t.verb, b)...)
		case inSub:
			switch {
			case b == iac:
				t.state = inSubCommand
			case len(t.sub) < subMost:
				t.sub = append(t.sub, b)
			}
		case inSubCommand:
			switch {
			case b == iac && len(t.sub) < subMost:
				t.sub = append(t.sub, iac)
				t.state = inSub
			case b == se:
				t.state = inData
				t.window()
			default: // an option's end is missing
				t.state = inData
			}
		}
	}
	return data, answer
}

// plain takes a byte that is no command's. CR NUL and CR LF are one end of a line (RFC 854), and so is LF alone.
func (t *telnet) plain(data []byte, b byte) []byte {
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
		return append(data, iac), answer // no UTF-8 has it; who edits the line drops it
	case will, wont, do, dont:
		t.verb, t.state = b, inOption
	case sb:
		t.sub, t.state = t.sub[:0], inSub
	case ip, brk:
		data = append(data, interrupt)
	case ayt:
		answer = append(answer, "\r\n[yes]\r\n"...)
	}
	t.spoken = true
	return data, answer
}

// negotiate answers one verb about one option. It agrees to echo and to suppress go-ahead, wants to know the window, and
// refuses all else, once each.
func (t *telnet) negotiate(verb, option byte) []byte {
	t.spoken = true
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
	case verb == will && option == optNAWS:
		return t.agree(do, option)
	case verb == wont && option == optNAWS:
		t.width, t.height = 0, 0
	case verb == do && option == optTM: // each is a question of its own
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

// agree says yes where that has not been said.
func (t *telnet) agree(verb, option byte) []byte {
	if t.offered[option] {
		return nil
	}
	t.offered[option] = true
	return []byte{iac, verb, option}
}

// window reads NAWS: the width and the height, two bytes each.
func (t *telnet) window() {
	if len(t.sub) != 5 || t.sub[0] != optNAWS {
		return
	}
	const most = 1000 // wider is somebody's joke
	size := func(b []byte) int { return min(int(b[0])<<8|int(b[1]), most) }
	t.width, t.height = size(t.sub[1:]), size(t.sub[3:])
}

// escape doubles the bytes that would be commands.
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

// naws says how large a window is.
func naws(width, height int) []byte {
	out := []byte{iac, sb, optNAWS}
	size := []byte{byte(width >> 8), byte(width), byte(height >> 8), byte(height)}
	return append(append(out, escape(size)...), iac, se)
}
