// SPDX-License-Identifier: Apache-2.0

package slowtest

import (
	"errors"
	"io"
	"os/exec"
	"runtime"
	"sync"
	"testing"
	"time"
)

// FactorOf does some work and returns how many times longer than usual it takes, at least 1; 1 when it fails.
func FactorOf(usual time.Duration, work func() error) float64 {
	start := time.Now()
	if err := work(); err != nil {
		return 1
	}
	return max(1, float64(time.Since(start))/float64(usual))
}

// Stretch stretches a bound by how slow the machine has been, and logs it where it was.
func Stretch(t testing.TB, bound time.Duration, factor float64) time.Duration {
	t.Helper()
	stretched := time.Duration(factor * float64(bound))
	if factor > 1 {
		t.Logf("the machine is busy: work takes %.1f times as long as usual, and %v is %v", factor, bound, stretched.Round(time.Millisecond))
	}
	return stretched
}

const (
	// A unit of work is what bounds of a tenth of a second are made of: a timer, some computing, and a process that is
	// woken and answers a few times.
	unitSleep   = 10 * time.Millisecond
	unitLoops   = 200_000
	unitAnswers = 3
	// unitTakes is what it takes at most, on the slower of the machines that the bounds were measured on, when idle
	// otherwise.
	unitTakes = 16 * time.Millisecond
)

// A Meter does units of work beside what is measured. One tells nothing of what slows down its own process alone.
type Meter struct {
	echo   *exec.Cmd
	in     io.WriteCloser
	out    io.ReadCloser
	stop   chan struct{}
	failed error
	ended  sync.WaitGroup

	mu    sync.Mutex
	worst float64
	began time.Time // the unit under way
}

// Start starts a Meter.
func Start() (*Meter, error) {
	m := &Meter{echo: exec.Command("cat"), stop: make(chan struct{}), worst: 1, began: time.Now()}
	var errIn, errOut error
	m.in, errIn = m.echo.StdinPipe()
	m.out, errOut = m.echo.StdoutPipe()
	if err := errors.Join(errIn, errOut); err != nil {
		return nil, err
	}
	if err := m.echo.Start(); err != nil {
		return nil, err
	}
	m.ended.Go(m.run)
	return m, nil
}

func (m *Meter) run() {
	for {
		select {
		case <-m.stop:
			return
		default:
		}
		if m.failed = m.unit(); m.failed != nil {
			return
		}
		m.mu.Lock()
		m.worst = max(m.worst, m.factor())
		m.began = time.Now()
		m.mu.Unlock()
	}
}

// factor is that of the unit under way.
func (m *Meter) factor() float64 { return float64(time.Since(m.began)) / float64(unitTakes) }

func (m *Meter) unit() error {
	time.Sleep(unitSleep)
	x := uint32(1)
	for range unitLoops {
		x = x*1664525 + 1013904223
	}
	runtime.KeepAlive(x)
	for range unitAnswers {
		b := []byte{'\n'}
		if _, err := m.in.Write(b); err != nil {
			return err
		}
		if _, err := io.ReadFull(m.out, b); err != nil {
			return err
		}
	}
	return nil
}

// Worst returns how many times longer than usual the slowest unit has taken since the last call, at least 1; also the
// one under way.
func (m *Meter) Worst() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	worst := max(m.worst, m.factor())
	m.worst = 1
	return worst
}

// Close ends it.
func (m *Meter) Close() error {
	close(m.stop)
	m.ended.Wait()
	return errors.Join(m.failed, m.in.Close(), m.echo.Wait())
}
