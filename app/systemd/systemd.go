// SPDX-License-Identifier: Apache-2.0

// Package systemd tells the service manager how the bridge stands, after sd_notify(3): when it bridges, when it
// reloads its configuration, when it stops, one line of status, and, as long as everybody makes progress, that it lives.
// A process that no service manager waits for sends nothing.
package systemd

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"causeway/lcore"
	"causeway/lcore/manage"
)

// A Bridge is what is watched. *house.House is one.
type Bridge interface {
	Workers() []lcore.Counters // each worker's own; none after the bridge's end
	Status() manage.Status
}

const (
	// unwatched is how often an unwatched bridge's line of status is looked at.
	unwatched = 2 * time.Second
	// quickest bounds what a watchdog may ask for: management shows itself ten times a second.
	quickest = 250 * time.Millisecond
)

// A Service is the process, as the service manager sees it. Its methods may be called from any goroutine.
type Service struct {
	log      *slog.Logger
	interval time.Duration // the watchdog's; 0: there is none
	there    bool          // a service manager waits to hear

	mu    sync.Mutex
	state state
	line  string // of status, as sent last
	mute  bool   // a notification failed, and the log has it
}

// state is how far the process is.
type state int

const (
	starting state = iota
	ready
	reloading
	stopping
)

// New reads from the environment who wants to hear, and how often (sd_watchdog_enabled(3)).
func New(log *slog.Logger) *Service {
	s := &Service{log: log, there: os.Getenv("NOTIFY_SOCKET") != ""}
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("service_manager", "error", err, "effect", "no watchdog")
	}
	s.interval = interval
	return s
}

// Ready says that the bridge bridges: every group is joined on both sides.
func (s *Service) Ready() { s.enter(ready, daemon.SdNotifyReady) }

// Stopping says that the bridge is about to end.
func (s *Service) Stopping() { s.enter(stopping, daemon.SdNotifyStopping) }

// Reloading says that the bridge takes a new configuration, until what it returns is called; whether it was taken or refused
// is no matter to the service manager. The time is how it tells this reload from the one before.
func (s *Service) Reloading() (done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != ready { // a bridge that is not ready yet, or no longer, does not become so by a reload
		return func() {}
	}
	s.state = reloading
	s.send(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec())
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.state == reloading {
			s.state = ready
			s.send(daemon.SdNotifyReady)
		}
	})
}

// enter enters a state once, and never goes back.
func (s *Service) enter(to state, say string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state < to {
		s.state = to
		s.send(say)
	}
}

// send needs s.mu, so that what is said comes in order.
func (s *Service) send(what string) {
	if !s.there {
		return
	}
	_, err := daemon.SdNotify(false, what)
	if err != nil && !s.mute { // a broken socket would else fill the log
		s.log.Warn("service_manager", "error", err)
	}
	s.mute = err != nil
}

// Watch tells how the bridge stands and feeds the watchdog, from before the bridge runs until end is called. It says that the
// bridge stops when ctx ends, or at the latest with end.
func (s *Service) Watch(ctx context.Context, b Bridge) (end func()) {
	if !s.there {
		return func() {}
	}
	unhook := context.AfterFunc(ctx, s.Stopping)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		s.watch(b, stop)
	}()
	return sync.OnceFunc(func() {
		unhook()
		s.Stopping()
		close(stop)
		<-stopped
	})
}

// watch feeds at half of the interval, as sd_watchdog_enabled(3) has it.
func (s *Service) watch(b Bridge, stop <-chan struct{}) {
	every := unwatched
	if s.interval > 0 {
		every = max(s.interval/2, quickest)
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	var seen progress
	for {
		select {
		case <-tick.C:
		case <-stop:
			return
		}
		status := b.Status()
		now := progressOf(b.Workers(), status)
		stuck := now.stuck(seen)
		seen = now
		s.tell(status, stuck, every)
	}
}

// tell sends one line of status, if it is another, and food. A bridge that still waits to be ready has no watchdog yet, but a
// time limit for its start: it may wait for its subnet for as long as it likes, while everybody makes progress.
func (s *Service) tell(status manage.Status, stuck string, every time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if line := statusLine(s.state, status, stuck); line != s.line {
		s.line = line
		s.send("STATUS=" + line)
	}
	switch {
	case stuck != "" || s.interval == 0:
	case s.state == starting:
		s.send(fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", (4 * every).Microseconds()))
	default:
		s.send(daemon.SdNotifyWatchdog)
	}
}
