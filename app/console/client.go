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

// Interact connects a terminal to a session until the session or ctx ends. It is a telnet client that sends each key.
func Interact(ctx context.Context, conn net.Conn, terminal *os.File, out io.Writer) error {
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
	send([]byte{iac, do, optEcho, iac, do, optSGA, iac, will, optNAWS})
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
	go func() { // ends with the process or the terminal: a read of a terminal cannot be cancelled
		b := make([]byte, 256)
		for {
			n, err := terminal.Read(b)
			if err != nil {
				_ = conn.Close() // ends the running command
				return
			}
			send(keysAsTelnet(b[:n]))
		}
	}()
	return show(conn, out)
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

// show prints a session's output, without telnet commands, until it ends.
func show(conn net.Conn, out io.Writer) error {
	t := telnet{}
	b := make([]byte, 4096)
	for {
		n, err := conn.Read(b)
		if text := t.shown(b[:n]); len(text) > 0 {
			if _, err := out.Write(text); err != nil {
				return err
			}
		}
		if err != nil {
			return nil
		}
	}
}

// shown removes telnet commands from a server's output. They need no response: the client has sent its options.
func (t *telnet) shown(in []byte) (text []byte) {
	for _, b := range in {
		switch {
		case t.state == inOption:
			t.state = inData
		case t.state == inCommand && b == iac:
			text, t.state = append(text, b), inData
		case t.state == inCommand && b >= will:
			t.state = inOption
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
