// SPDX-License-Identifier: Apache-2.0

// Package console serves the console: sessions with telnet, nc or "causeway ctl", on Unix sockets and TCP.
//
//	socket ─▶ telnet decoder ─▶ keys ─▶ line editor ─▶ app/command ─▶ pager ─▶ socket
//
// A session takes two goroutines and at most some hundred kilobytes. A slow or hostile client loses its session and
// does not affect others.
package console

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
	"unicode"

	"golang.org/x/sys/unix"

	"causeway/app/command"
	"causeway/app/seats"
	"causeway/config"
)

// Config configures a console.
type Config struct {
	Env   *command.Env
	Name  string // the bridge's, for the prompt
	Token string // for login; "": no login
	Log   *slog.Logger
	Idle  time.Duration // ends a session without input; 0: half an hour
}

const (
	idleDefault = 30 * time.Minute
	// commandsMost bounds the commands of a role that run at the same time.
	commandsMost = 4
)

type server struct {
	Config
	seats [classes]*seats.Seats
	busy  [2]chan struct{} // by role: holds a token for each command that runs

	mu    sync.Mutex
	conns map[net.Conn]bool // true: interactive; false: takes only frames
	ended bool
	all   sync.WaitGroup
}

// Listen listens on the addresses. It replaces the socket that a bridge left behind, but not that of a running bridge.
func Listen(at []config.Listen) (all []net.Listener, err error) {
	for _, a := range at {
		l, failed := listen(a)
		if failed != nil {
			for _, l := range all {
				err = errors.Join(err, l.Close())
			}
			return nil, errors.Join(ListenError("console", a, failed), err)
		}
		all = append(all, l)
	}
	return all, nil
}

func listen(a config.Listen) (net.Listener, error) {
	if a.Network != "unix" {
		return net.Listen(a.Network, a.Address)
	}
	if err := os.MkdirAll(filepath.Dir(a.Address), 0o755); err != nil {
		return nil, err
	}
	if info, err := os.Lstat(a.Address); err == nil && info.Mode()&os.ModeSocket != 0 {
		c, err := net.Dial("unix", a.Address)
		if err == nil {
			_ = c.Close() // only a test
			return nil, errors.New("another bridge listens there; use another path, or stop it")
		}
		if errors.Is(err, unix.ECONNREFUSED) {
			if err := os.Remove(a.Address); err != nil {
				return nil, err
			}
		}
	}
	l, err := net.Listen("unix", a.Address)
	if err != nil {
		return nil, err
	}
	// Roles depend on the peer's credentials, so everybody may connect.
	if err := os.Chmod(a.Address, 0o666); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Serve serves sessions until ctx ends, and closes the listeners. When it returns, all sessions have ended.
func Serve(ctx context.Context, listeners []net.Listener, c Config) {
	if c.Idle == 0 {
		c.Idle = idleDefault
	}
	c.Name = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, c.Name)
	s := &server{Config: c, conns: map[net.Conn]bool{}, seats: newSeats(),
		busy: [2]chan struct{}{make(chan struct{}, commandsMost), make(chan struct{}, commandsMost)}}
	sessions, done := context.WithCancel(context.WithoutCancel(ctx)) // ends after the sessions' last message
	defer done()
	for _, l := range listeners {
		s.all.Go(func() { s.accept(ctx, sessions, l) })
	}
	<-ctx.Done()
	for _, l := range listeners {
		_ = l.Close() // no more connections
	}
	s.mu.Lock()
	s.ended = true
	for conn, interactive := range s.conns {
		if interactive { // with a deadline: a client that does not read must not delay the end
			_ = conn.SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
			_, _ = conn.Write([]byte("\r\nThe bridge has ended.\r\n"))
		}
		_ = conn.Close() // nothing more to send
	}
	s.mu.Unlock()
	done()
	s.all.Wait()
}

func (s *server) accept(ctx, sessions context.Context, l net.Listener) {
	waiting := seats.NewWaiting(l, func(err error) { s.Log.Warn("console", "listen", l.Addr().String(), "error", err) })
	defer context.AfterFunc(ctx, func() { _ = waiting.Close() })()
	for {
		conn, err := waiting.Accept()
		if err != nil {
			return
		}
		s.admit(sessions, conn)
	}
}

// onlyFrames marks a client that takes only frames.
func (s *server) onlyFrames(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns[conn] = false
}

// admit starts a session if there is a seat.
func (s *server) admit(ctx context.Context, conn net.Conn) {
	x := newSession(s, conn)
	if !x.takeSeat() {
		_ = conn.SetWriteDeadline(time.Now().Add(farewell)) // fits the socket's buffer
		_, _ = fmt.Fprintf(conn, "%s\r\n", crowded(x.class))
		_ = conn.Close()
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		_ = conn.Close()
		x.seat.Leave()
		return
	}
	s.conns[conn] = true
	s.all.Go(func() {
		defer func() {
			s.mu.Lock()
			delete(s.conns, conn)
			s.mu.Unlock()
			_ = conn.Close() // the client may have closed it
			x.seat.Leave()
		}()
		x.run(ctx)
	})
}
