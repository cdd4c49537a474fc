// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"causeway/ibside/ib"
)

// Dialer attaches to the subnet of another process.
type Dialer struct {
	MTU     ib.MTU        // upper limit; zero: the subnet's
	Timeout time.Duration // of the handshake; zero: five seconds
	// Patience is how long Send waits for a process that does not read, before it takes the link for lost. Zero: for ever.
	Patience time.Duration
}

// remotePort is a port on the subnet of another process.
type remotePort struct {
	info     PortInfo
	conn     *net.UnixConn
	patience time.Duration
	cut      atomic.Bool // as the switch has told
	recv     sync.Mutex  // one receiver
	waits    atomic.Bool // the receiver has found nothing since it processed the last packet
	buf      []byte
	once     sync.Once
}

// Dial attaches a port to the subnet whose socket is at path. The name and the GUID are the port's; the GUID must
// be unique on the subnet.
func Dial(path string, guid ib.GUID, name string) (Port, error) {
	return Dialer{}.Dial(path, guid, name)
}

// Dial is the function Dial with other settings.
func (d Dialer) Dial(path string, guid ib.GUID, name string) (Port, error) {
	p, err := d.dial(context.Background(), path, guid, name)
	if err != nil {
		return nil, err // not a nil *remotePort in a Port
	}
	return p, nil
}

func (d Dialer) dial(ctx context.Context, path string, guid ib.GUID, name string) (*remotePort, error) {
	fail := func(err error) (*remotePort, error) {
		return nil, fmt.Errorf("fabric: attach to %s as %q: %w", path, name, err)
	}
	if len(name) > MaxName {
		return fail(fmt.Errorf("the name has %d bytes; use at most %d", len(name), MaxName))
	}
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		return fail(whyNoSocket(err))
	}
	p := &remotePort{conn: conn, patience: d.Patience, buf: make([]byte, maxPacket)}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if err := p.handshake(hello{name: name, guid: guid, mtu: d.MTU}, d.Timeout); err != nil {
		conn.Close()
		return fail(err)
	}
	return p, nil
}

// The reasons for which Dial fails that may pass.
var (
	ErrNoSubnet  = errors.New("no subnet is there; is the bridge running, with this [fabric] socket in the file that [ib] port names?")
	ErrGUIDInUse = errors.New("is in use")
)

// AtSocket reports whether a path is that of another process's subnet, and not of a topology file. What is there
// decides; where nothing is, that its name ends in ".sock".
func AtSocket(path string) bool {
	at, err := os.Stat(path)
	if err != nil {
		return strings.HasSuffix(path, ".sock")
	}
	return at.Mode()&os.ModeSocket != 0
}

// Probe returns why no subnet can be reached at a socket now; nil: one can.
func Probe(path string) error {
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		return whyNoSocket(err)
	}
	return conn.Close()
}

// whyNoSocket says why a subnet's socket cannot be connected, and what to do. A subnet that rejects a node says why.
func whyNoSocket(err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return errors.New("this user may not connect there; use sudo, or be the user that the bridge runs as")
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return ErrNoSubnet
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

// Down implements Port.
func (p *remotePort) Down() string {
	if p.cut.Load() {
		return linkCut(p.info.Name)
	}
	return ""
}

// Send waits while the socket's buffer is full. The other end always reads, so this is short.
func (p *remotePort) Send(packets ...[]byte) int {
	if p.patience > 0 {
		p.conn.SetWriteDeadline(time.Now().Add(p.patience))
	}
	for i, b := range packets {
		if _, err := p.conn.Write(b); err != nil {
			return i
		}
	}
	return len(packets)
}

// Sent implements Port: what the other process has not read yet is in the socket.
func (p *remotePort) Sent() bool { return p.queued(unix.SIOCOUTQ) == 0 }

// Drained implements Port. What came before is in the socket, or the receiver is processing it.
func (p *remotePort) Drained() bool { return p.queued(unix.SIOCINQ) == 0 && p.waits.Load() }

// queued returns how many bytes one of the socket's queues has; none when it is closed.
func (p *remotePort) queued(which uint) (bytes int) {
	raw, err := p.conn.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		if bytes, err = unix.IoctlGetInt(int(fd), which); err != nil {
			bytes = 0
		}
	})
	return bytes
}

// read waits for one packet.
func (p *remotePort) read() (n int, err error) {
	raw, err := p.conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	ended := raw.Read(func(fd uintptr) bool {
		p.waits.Store(false)
		for n, err = unix.Read(int(fd), p.buf); errors.Is(err, unix.EINTR); n, err = unix.Read(int(fd), p.buf) {
		}
		if errors.Is(err, unix.EAGAIN) {
			p.waits.Store(true)
			return false
		}
		return true
	})
	return n, errors.Join(ended, err)
}

func (p *remotePort) Recv(packets [][]byte) (int, error) {
	if len(packets) == 0 {
		return 0, nil
	}
	p.recv.Lock()
	defer p.recv.Unlock()
	n, err := p.read()
	if err != nil || n == 0 {
		return 0, ErrClosed
	}
	if cut, is := parseLink(p.buf[:n]); is {
		p.cut.Store(cut)
		return 0, nil
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
