// SPDX-License-Identifier: Apache-2.0

package console

import (
	"bytes"
	"net"
	"sync"
	"time"
)

const (
	// patience is how long a client may take for a piece of what it is sent, before its session ends.
	patience = 10 * time.Second
	piece    = 16 << 10
)

// output writes to a client. A client that does not read loses its session, and holds up nobody else.
type output struct {
	mu    sync.Mutex
	conn  net.Conn
	wait  time.Duration // patience
	net   bool          // lines end with CR LF, and bytes that would be commands are doubled: the client speaks telnet
	ended error
}

// raw writes bytes as they are.
func (o *output) raw(b []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.write(b)
}

func (o *output) write(b []byte) error {
	for len(b) > 0 && o.ended == nil {
		n := min(len(b), piece)
		if err := o.conn.SetWriteDeadline(time.Now().Add(o.wait)); err != nil {
			o.ended = err
			break
		}
		if _, err := o.conn.Write(b[:n]); err != nil {
			o.ended = err
			_ = o.conn.Close() // it has failed already
		}
		b = b[n:]
	}
	return o.ended
}

// Write implements io.Writer: text, whose lines end with LF, or with CR LF already.
func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	text := b
	if o.net {
		text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
		text = escape(bytes.ReplaceAll(text, []byte("\n"), []byte("\r\n")))
	}
	if err := o.write(text); err != nil {
		return 0, err
	}
	return len(b), nil
}

// speaksTelnet notes that the client does.
func (o *output) speaksTelnet() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.net = true
}

// failed reports whether the client has gone.
func (o *output) failed() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ended != nil
}
