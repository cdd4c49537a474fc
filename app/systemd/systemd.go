// SPDX-License-Identifier: Apache-2.0

// Package systemd reports the bridge's state to the service manager with sd_notify(3): when it is ready, reloads or
// stops, a line of status, and the watchdog, as long as all workers and management make progress. Without a service
// manager it does nothing.
package systemd

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"causeway/app/condition"
	"causeway/lcore"
	"causeway/lcore/manage"
)

// A Source has the state that is reported. A *bridge.Bridge is one.
type Source interface {
	Workers() []lcore.Counters // by worker; none when the bridge has stopped
	Status() manage.Status
}

const (
	// statusInterval is how often the line of status is updated without a watchdog.
	statusInterval = 2 * time.Second
	// minInterval bounds the watchdog's interval, because management publishes its state ten times a second.
	minInterval = 250 * time.Millisecond
)

// A Service is the process as the service manager sees it. Its methods may be called from any goroutine.
type Service struct {
	log      *slog.Logger
	interval time.Duration // the watchdog's; 0: no watchdog
	enabled  bool          // NOTIFY_SOCKET is set

	mu     sync.Mutex
	state  state
	line   string // of status, as sent last
	failed bool   // the last notification failed, and was logged
}

// state is the state of the process.
type state int

const (
	starting state = iota
	ready
	reloading
	stopping
)

// New reads the notification socket and the watchdog's interval from the environment (sd_watchdog_enabled(3)).
func New(log *slog.Logger) *Service {
	s := &Service{log: log, enabled: os.Getenv("NOTIFY_SOCKET") != ""}
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("service_manager", "error", err, "effect", "no watchdog")
	}
	s.interval = interval
	return s
}

// Ready reports that the bridge is ready: every group is joined on both sides.
func (s *Service) Ready() { s.enter(ready, daemon.SdNotifyReady) }

// Stopping reports that the bridge is stopping.
func (s *Service) Stopping() { s.enter(stopping, daemon.SdNotifyStopping) }

// Reloading reports a reload until done is called. The service manager does not need to know whether the reload was
// rejected. The time in the notification distinguishes reloads.
func (s *Service) Reloading() (done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != ready { // a reload does not make a bridge ready
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

// enter enters a later state and notifies; it never goes back.
func (s *Service) enter(to state, notification string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state < to {
		s.state = to
		s.send(notification)
	}
}

// send sends a notification. The caller holds s.mu, which keeps notifications in order.
func (s *Service) send(notification string) {
	if !s.enabled {
		return
	}
	_, err := daemon.SdNotify(false, notification)
	if err != nil && !s.failed { // log only the first of several failures
		s.log.Warn("service_manager", "error", err)
	}
	s.failed = err != nil
}

// Report reports the state of src and triggers the watchdog until end is called. Start it before the bridge runs. It
// reports that the bridge stops when ctx ends, at the latest in end.
func (s *Service) Report(ctx context.Context, src Source) (end func()) {
	if !s.enabled {
		return func() {}
	}
	unhook := context.AfterFunc(ctx, s.Stopping)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		s.report(src, stop)
	}()
	return sync.OnceFunc(func() {
		unhook()
		s.Stopping()
		close(stop)
		<-stopped
	})
}

// report triggers the watchdog at half of its interval, as sd_watchdog_enabled(3) recommends.
func (s *Service) report(src Source, stop <-chan struct{}) {
	every := statusInterval
	if s.interval > 0 {
		every = max(s.interval/2, minInterval)
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	var last progress
	for {
		select {
		case <-tick.C:
		case <-stop:
			return
		}
		status := src.Status()
		now := progressOf(src.Workers(), status)
		stalled := now.stalled(last)
		last = now
		var faults []string
		if b, ok := src.(condition.Source); ok {
			faults = condition.Faults(b)
		}
		s.notify(statusLine(s.at(), status, stalled, faults), stalled, every)
	}
}

func (s *Service) at() state {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// notify sends the line of status when it has changed, and triggers the watchdog unless something is stalled. While the
// bridge starts, systemd has no watchdog but a start timeout, which notify extends: the bridge may wait for its subnet
// without limit.
func (s *Service) notify(line, stalled string, every time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if line != s.line {
		s.line = line
		s.send("STATUS=" + line)
	}
	switch {
	case stalled != "" || s.interval == 0:
	case s.state == starting:
		s.send(fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", (4 * every).Microseconds()))
	default:
		s.send(daemon.SdNotifyWatchdog)
	}
}
