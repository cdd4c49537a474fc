// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

const (
	handshakeTimeout = 5 * time.Second
	maxSessions      = 1024 // other processes, including those in the handshake
	maxPacket        = 8192 // more than PktLen can express, so that a longer datagram is detected
)

// server attaches other processes, each with a session.
//
//	client ── SEQPACKET ──▶ session.read ──▶ Switch
//	client ◀── SEQPACKET ── session.write ◀── queue
type server struct {
	fabric   *Fabric
	path     string
	listener *net.UnixListener
	ended    sync.WaitGroup

	mu       sync.Mutex
	sessions map[*net.UnixConn]bool
	closed   bool
	stats    tally
}

// The counters of Fabric.SocketStats.
const (
	SocketAccepted = "accepted"     // sessions that began
	SocketRejected = "rejected"     // rejected handshakes
	SocketTooMany  = "too_many"     // connections beyond the limit
	SocketUnsent   = "unsent"       // packets for a client that has disconnected
	SocketNoHello  = "no_handshake" // connections without a handshake in time
)

// listen creates the socket under another name and renames it, so that a process that waits for the path can connect at
// once.
func listen(f *Fabric, path string) (*server, error) {
	removeStale(path)
	if _, err := os.Lstat(path); err == nil {
		return nil, fmt.Errorf("fabric: socket %s exists and is not a stale socket; end its owner, or use another path", path)
	}
	fresh := path + ".new"
	removeStale(fresh)
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: fresh, Net: "unixpacket"})
	if err != nil {
		return nil, fmt.Errorf("fabric: socket: %w", err)
	}
	l.SetUnlinkOnClose(false)
	if err := errors.Join(os.Chmod(fresh, 0o660), os.Rename(fresh, path)); err != nil {
		return nil, errors.Join(fmt.Errorf("fabric: socket: %w", err), l.Close(), os.Remove(fresh))
	}
	s := &server{fabric: f, path: path, listener: l, sessions: map[*net.UnixConn]bool{}}
	s.ended.Go(s.accept)
	return s, nil
}

// removeStale removes a socket without a listener.
func removeStale(path string) {
	info, err := os.Lstat(path)
	if err != nil || info.Mode()&os.ModeSocket == 0 {
		return
	}
	c, err := net.Dial("unixpacket", path)
	if err == nil {
		c.Close() // there is a listener: listening will fail with an error
		return
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		os.Remove(path)
	}
}

func (s *server) accept() {
	for {
		conn, err := s.listener.AcceptUnix()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // such as no descriptors: possibly temporary
			time.Sleep(100 * time.Millisecond)
			continue
		}
		if !s.begin(conn) {
			conn.Close()
			continue
		}
		s.ended.Go(func() {
			defer s.end(conn)
			s.session(conn)
		})
	}
}

func (s *server) begin(conn *net.UnixConn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.sessions) >= maxSessions {
		s.stats.add(SocketTooMany)
		return false
	}
	s.sessions[conn] = true
	return true
}

func (s *server) end(conn *net.UnixConn) {
	conn.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, conn)
}

// session serves one client from its handshake to its end.
func (s *server) session(conn *net.UnixConn) {
	port := s.handshake(conn)
	if port == nil {
		return
	}
	s.stats.add(SocketAccepted)
	var writer sync.WaitGroup
	writer.Go(func() { s.write(conn, port) })
	read(conn, port)
	port.Close()
	conn.Close() // unblocks a writer that waits for a client
	writer.Wait()
}

func (s *server) handshake(conn *net.UnixConn) *switchPort {
	conn.SetDeadline(time.Now().Add(handshakeTimeout))
	buf := make([]byte, maxPacket)
	n, err := conn.Read(buf)
	if err != nil {
		s.stats.add(SocketNoHello)
		return nil
	}
	h, err := parseHello(buf[:n])
	var port *switchPort
	if err == nil {
		port, err = s.fabric.attach(PortConfig{Name: h.name, GUID: h.guid, MTU: h.mtu})
	}
	if err != nil {
		s.stats.add(SocketRejected)
		conn.Write(appendRejection(nil, err))
		return nil
	}
	if _, err := conn.Write(appendReply(nil, port.info)); err != nil {
		port.Close()
		return nil
	}
	conn.SetDeadline(time.Time{})
	return port
}

// read passes packets from the client to the switch, which checks and counts them.
func read(conn *net.UnixConn, port *switchPort) {
	buf := make([]byte, maxPacket)
	for {
		port.awaitCredits(&port.stalled)
		n, err := conn.Read(buf)
		if err != nil || n == 0 {
			return
		}
		if port.Send(append([]byte(nil), buf[:n]...)) == 0 {
			return
		}
	}
}

// write sends packets to the client. When it has to wait, the port's queue fills and drops packets.
func (s *server) write(conn *net.UnixConn, port *switchPort) {
	packets := make([][]byte, recvBurst)
	for {
		n, err := port.Recv(packets)
		if err != nil {
			return
		}
		port.awaitCredits(&port.withheld)
		if n == 0 {
			if _, err := conn.Write(appendLink(nil, port.cut.Load())); err != nil {
				conn.Close()
				return
			}
		}
		for i, p := range packets[:n] {
			if _, err := conn.Write(p); err != nil {
				s.stats.addN(SocketUnsent, uint64(n-i))
				conn.Close() // unblocks the reader, which closes the port
				return
			}
		}
	}
}

func (s *server) close() error {
	err := errors.Join(s.listener.Close(), os.Remove(s.path))
	s.mu.Lock()
	s.closed = true
	for conn := range s.sessions {
		conn.Close()
	}
	s.mu.Unlock()
	s.ended.Wait()
	return err
}
