// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"causeway/ibside/ib"
)

// Dialer attaches to the subnet of another process.
type Dialer struct {
	MTU     ib.MTU        // upper limit; zero: the subnet's
	Timeout time.Duration // of the handshake; zero: five seconds
}

// remotePort is a port on the subnet of another process.
type remotePort struct {
	info PortInfo
	conn *net.UnixConn
	recv sync.Mutex // one receiver
	buf  []byte
	once sync.Once
}

// Dial attaches a port to the subnet whose socket is at path. The name and the GUID are the port's; the GUID must
// be unique on the subnet.
func Dial(path string, guid ib.GUID, name string) (Port, error) {
	return Dialer{}.Dial(path, guid, name)
}

// Dial is the function Dial with other settings.
func (d Dialer) Dial(path string, guid ib.GUID, name string) (Port, error) {
	fail := func(err error) (Port, error) {
		return nil, fmt.Errorf("fabric: attach to %s as %q: %w", path, name, err)
	}
	if len(name) > maxName {
		return fail(fmt.Errorf("the name has %d bytes; use at most %d", len(name), maxName))
	}
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		return fail(whyNoSocket(err))
	}
	p := &remotePort{conn: conn, buf: make([]byte, maxPacket)}
	if err := p.handshake(hello{name: name, guid: guid, mtu: d.MTU}, d.Timeout); err != nil {
		conn.Close()
		return fail(err)
	}
	return p, nil
}

// whyNoSocket says why a subnet's socket cannot be connected, and what to do. A subnet that rejects a node says why.
func whyNoSocket(err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return errors.New("this user may not connect there; use sudo, or be the user that the bridge runs as")
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return errors.New("no subnet is there; is the bridge running, with this [fabric] socket in the file that [ib] port names?")
	}
	return err
}

func (p *remotePort) handshake(h hello, timeout time.Duration) error {
	if timeout == 0 {
		timeout = handshakeTimeout
	}
	p.conn.SetDeadline(time.Now().Add(timeout))
	if _, err := p.conn.Write(h.append(nil)); err != nil {
		return err
	}
	n, err := p.conn.Read(p.buf)
	if err != nil {
		return fmt.Errorf("no reply: %w", err)
	}
	if p.info, err = parseReply(p.buf[:n]); err != nil {
		return err
	}
	p.info.Name, p.info.GUID = h.name, h.guid
	return p.conn.SetDeadline(time.Time{})
}

func (p *remotePort) Info() PortInfo {
	i := p.info
	i.PKeys = slices.Clone(i.PKeys)
	return i
}

// Send waits while the socket's buffer is full. The other end always reads, so this is short.
func (p *remotePort) Send(packets ...[]byte) bool {
	for _, b := range packets {
		if _, err := p.conn.Write(b); err != nil {
			return false
		}
	}
	return true
}

func (p *remotePort) Recv(packets [][]byte) (int, error) {
	if len(packets) == 0 {
		return 0, nil
	}
	p.recv.Lock()
	defer p.recv.Unlock()
	n, err := p.conn.Read(p.buf)
	if err != nil || n == 0 {
		return 0, ErrClosed
	}
	packets[0] = append([]byte(nil), p.buf[:n]...)
	return 1, nil
}

func (p *remotePort) Close() error {
	err := error(nil)
	p.once.Do(func() { err = p.conn.Close() })
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
