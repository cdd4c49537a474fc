// SPDX-License-Identifier: Apache-2.0

package console

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"os/signal"
	"sync"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// A Save saves what the bridge may not, and returns what to tell the user. ask asks at the terminal, and returns what
// is typed: because the bridge asks for the saving, and may not be told by its user to do so.
type Save func(ask func(question string) string) string

// Interact connects a terminal to a session until the session or ctx ends. It is a telnet client that sends each key.
// The session has the lines of the history, and adds its own. A nil save is for bridges of other machines.
func Interact(ctx context.Context, conn net.Conn, terminal *os.File, out io.Writer, history *History, save Save) error {
	fd := int(terminal.Fd())
	before, err := term.MakeRaw(fd)
	if err != nil {
		return err
	}
	defer func() { _ = term.Restore(fd, before) }() // nothing can be done about an error
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	var mu sync.Mutex
	send := func(b []byte) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = conn.Write(b) // the reader gets the error, too
	}
	send([]byte{iac, do, optEcho, iac, do, optSGA, iac, will, optNAWS, iac, will, optHistory})
	if save != nil {
		send([]byte{iac, will, optSave})
	}
	window := func() {
		if w, h, err := term.GetSize(fd); err == nil {
			send(naws(w, h))
		}
	}
	window()
	sizes := make(chan os.Signal, 1)
	signal.Notify(sizes, unix.SIGWINCH)
	defer signal.Stop(sizes)
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		for {
			select {
			case <-sizes:
				window()
			case <-ended:
				return
			}
		}
	}()
	k := &keys{out: out, send: func(b []byte) { send(keysAsTelnet(b)) }}
	go func() { // ends with the process or the terminal: a read of a terminal cannot be cancelled
		b := make([]byte, 256)
		for {
			n, err := terminal.Read(b)
			if err != nil {
				_ = conn.Close() // ends the running command
				k.typed([]byte{interrupt})
				return
			}
			k.typed(b[:n])
		}
	}()
	s := &shower{conn: conn, out: out, history: history, send: send}
	if save != nil {
		s.save = func() string { return save(func(question string) string { return k.ask(ctx, question) }) }
	}
	return s.show()
}

// KeyEnds calls stop when q or Enter is typed at a terminal, as in a session. Ctrl-C remains a signal. restore restores
// the terminal.
func KeyEnds(terminal *os.File, stop func()) (restore func()) {
	fd := int(terminal.Fd())
	before, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return func() {} // not a terminal
	}
	keys := *before
	keys.Lflag &^= unix.ICANON | unix.ECHO
	keys.Cc[unix.VMIN], keys.Cc[unix.VTIME] = 1, 0
	if unix.IoctlSetTermios(fd, unix.TCSETS, &keys) != nil {
		return func() {}
	}
	go func() { // ends with the process: a read of a terminal cannot be cancelled
		b := make([]byte, 16)
		for {
			n, err := terminal.Read(b)
			if err != nil {
				return
			}
			if bytes.ContainsAny(b[:n], "qQ\r\n") {
				stop()
				return
			}
		}
	}()
	return func() { _ = unix.IoctlSetTermios(fd, unix.TCSETS, before) } // nothing can be done about an error
}

// keysAsTelnet encodes keys for telnet: CR is CR NUL.
func keysAsTelnet(b []byte) (out []byte) {
	for _, x := range escape(b) {
		out = append(out, x)
		if x == '\r' {
			out = append(out, 0)
		}
	}
	return out
}

// A shower shows a session.
type shower struct {
	conn    net.Conn
	out     io.Writer
	history *History
	save    func() string
	send    func([]byte)
}

// show prints a session's output, without telnet commands, until it ends, and keeps its history. A bridge that asks for
// the history gets it, and one that asks to save what it may not.
func (s *shower) show() error {
	t := telnet{}
	b := make([]byte, 4096)
	for given := false; ; {
		n, err := s.conn.Read(b)
		if text := t.shown(b[:n]); len(text) > 0 {
			if _, err := s.out.Write(text); err != nil {
				return err
			}
		}
		if t.offered[optHistory] && !given {
			given = true
			for _, line := range s.history.Lines() {
				s.send(historyLine(line))
			}
		}
		for _, line := range t.taken() {
			s.history.Add(line)
		}
		if len(t.saves) > 0 && s.save != nil {
			t.saves = nil
			said := s.save()
			s.send(subnegotiation(optSave, said[:min(len(said), lineMost)]))
		}
		if err != nil {
			return nil
		}
	}
}

// shown removes telnet commands from a server's output. They need no response: the client has sent its options, and
// only notes that the server takes a history, and asks to save.
func (t *telnet) shown(in []byte) (text []byte) {
	for _, b := range in {
		switch {
		case t.state == inSub || t.state == inSubCommand:
			t.inside(b)
		case t.state == inOption:
			t.state = inData
			if t.verb == do && (b == optHistory || b == optSave) {
				t.offered[b] = true
			}
		case t.state == inCommand && b == iac:
			text, t.state = append(text, b), inData
		case t.state == inCommand && b == sb:
			t.sub, t.state = t.sub[:0], inSub
		case t.state == inCommand && b >= will:
			t.verb, t.state = b, inOption
		case t.state == inCommand:
			t.state = inData
		case b == iac:
			t.state = inCommand
		case b != 0:
			text = append(text, b)
		}
	}
	return text
}
