// SPDX-License-Identifier: Apache-2.0

package console

import (
	"bytes"
	"net"
	"sync"
	"time"
)

const (
	// writeTimeout is how long a client may take to read a chunk, before its session ends.
	writeTimeout = 10 * time.Second
	chunk        = 16 << 10
)

// output writes to a client. A client that does not read loses its session.
type output struct {
	mu     sync.Mutex
	conn   net.Conn
	wait   time.Duration // writeTimeout
	telnet bool          // the client speaks telnet: lines end with CR LF, IAC is doubled
	ended  error
}

// raw writes bytes as they are.
func (o *output) raw(b []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.write(b)
}

func (o *output) write(b []byte) error {
	for len(b) > 0 && o.ended == nil {
		n := min(len(b), chunk)
		if err := o.conn.SetWriteDeadline(time.Now().Add(o.wait)); err != nil {
			o.ended = err
			break
		}
		if _, err := o.conn.Write(b[:n]); err != nil {
			o.ended = err
			_ = o.conn.Close() // the write error is reported
		}
		b = b[n:]
	}
	return o.ended
}

// Write implements io.Writer for text with lines ending with LF or CR LF.
func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	text := b
	if o.telnet {
		text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
		text = escape(bytes.ReplaceAll(text, []byte("\n"), []byte("\r\n")))
	}
	if err := o.write(text); err != nil {
		return 0, err
	}
	return len(b), nil
}

// setTelnet switches to telnet's encoding.
func (o *output) setTelnet() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.telnet = true
}

// failed reports whether a write has failed.
func (o *output) failed() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ended != nil
}
