// SPDX-License-Identifier: Apache-2.0

// Package console is where operators talk to the bridge: by telnet, nc or "causeway ctl", many at once.
//
//	socket ─▶ telnet's commands out ─▶ keys ─▶ line editing ─▶ app/command ─▶ pages ─▶ socket
//
// A session costs the bridge two goroutines and at most some hundred kilobytes. Who is slow, or writes nonsense, loses the
// session and disturbs nobody.
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
	"causeway/config"
)

// Config is what a console needs to know.
type Config struct {
	Env   *command.Env
	Name  string // the bridge's, for the prompt
	Token string // what makes admins of those who come by TCP; "": nothing does
	Log   *slog.Logger
	Idle  time.Duration // a session that is silent for so long ends; 0: half an hour
}

const (
	// sessionsMost bounds the sessions of those who may only look; adminsMost those of admins, so that nobody locks them out.
	sessionsMost = 16
	adminsMost   = 16
	idleDefault  = 30 * time.Minute
	// atOnce bounds the commands that run at a time.
	atOnce = 4
)

type server struct {
	Config
	slots [2]chan struct{} // by role, at the beginning
	busy  chan struct{}    // holds a token for each command that runs

	mu    sync.Mutex
	conns map[net.Conn]bool // whether text may be sent there, and not frames alone
	ended bool
	all   sync.WaitGroup
}

// Listen listens on the addresses. The socket of a bridge that has gone is taken over, that of one that runs is not.
func Listen(at []config.Listen) (all []net.Listener, err error) {
	for _, a := range at {
		l, failed := listen(a)
		if failed != nil {
			for _, l := range all {
				err = errors.Join(err, l.Close())
			}
			return nil, errors.Join(fmt.Errorf("causeway: [console] listen %q: %w", a.Address, failed), err)
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
			_ = c.Close() // it was only a question
			return nil, errors.New("another bridge listens there; use another path, or end it")
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
	// Who may do what is decided by who asks, so all may ask.
	if err := os.Chmod(a.Address, 0o666); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Serve answers on the listeners until ctx ends, and closes them. When it returns, no session is left.
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
	s := &server{Config: c, conns: map[net.Conn]bool{}, busy: make(chan struct{}, atOnce),
		slots: [2]chan struct{}{make(chan struct{}, sessionsMost), make(chan struct{}, adminsMost)}}
	talking, done := context.WithCancel(context.WithoutCancel(ctx)) // until the sessions have been told
	defer done()
	s.all.Go(func() { c.Env.Sampler.Run(ctx) })
	for _, l := range listeners {
		s.all.Go(func() { s.accept(ctx, talking, l) })
	}
	<-ctx.Done()
	for _, l := range listeners {
		_ = l.Close() // nobody waits for more
	}
	s.mu.Lock()
	s.ended = true
	for conn, talks := range s.conns {
		if talks { // who does not read does not keep the bridge from its end
			_ = conn.SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
			_, _ = conn.Write([]byte("\r\nThe bridge has ended.\r\n"))
		}
		_ = conn.Close() // that is all
	}
	s.mu.Unlock()
	done()
	s.all.Wait()
}

func (s *server) accept(ctx, talking context.Context, l net.Listener) {
	for {
		conn, err := l.Accept()
		switch {
		case err == nil:
			s.admit(talking, conn)
		case errors.Is(err, net.ErrClosed) || ctx.Err() != nil:
			return
		default: // no file descriptor, for one
			s.Log.Warn("console", "listen", l.Addr().String(), "error", err)
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		}
	}
}

// onlyFrames notes that a client wants nothing but frames.
func (s *server) onlyFrames(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns[conn] = false
}

// admit begins a session, if there is room for one.
func (s *server) admit(ctx context.Context, conn net.Conn) {
	role, user := identify(conn)
	slots := s.slots[role]
	select {
	case slots <- struct{}{}:
	default:
		_ = conn.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)) // a new connection has room for a line
		_, _ = fmt.Fprintf(conn, "There are %d sessions already; try again when one has ended.\r\n", cap(slots))
		_ = conn.Close()
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		_ = conn.Close()
		<-slots
		return
	}
	s.conns[conn] = true
	s.all.Go(func() {
		defer func() {
			s.mu.Lock()
			delete(s.conns, conn)
			s.mu.Unlock()
			_ = conn.Close() // it may have been closed by the other end
			<-slots
		}()
		newSession(s, conn, role, user).run(ctx)
	})
}
