// SPDX-License-Identifier: Apache-2.0

package slowtest

import (
	"syscall"
	"testing"
	"time"
)

// TestMeter checks that a Meter notices that its process of echoes is stopped, that it forgets that, and that a bound
// follows.
func TestMeter(t *testing.T) {
	m, err := Start()
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(10 * unitTakes)
	t.Logf("undisturbed, the slowest unit of work takes %.2f of the time that it may take", m.Worst())
	if err := signalStop(m, true); err != nil {
		t.Fatal(err)
	}
	time.Sleep(20 * unitTakes)
	slow := m.Worst()
	if err := signalStop(m, false); err != nil {
		t.Fatal(err)
	}
	if slow < 15 {
		t.Errorf("work that has not ended in %v is %.1f times as slow as usual", 20*unitTakes, slow)
	}
	if got := Stretch(t, time.Second, 2.5); got != 2500*time.Millisecond {
		t.Errorf("a bound of a second is %v", got)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

// TestFactorOf checks the measure: twice the work takes about twice as long, and none no less than usual.
func TestFactorOf(t *testing.T) {
	work := func(d time.Duration) func() error {
		return func() error { time.Sleep(d); return nil }
	}
	if f := FactorOf(time.Second, work(0)); f != 1 {
		t.Errorf("no work: %v", f)
	}
	if f := FactorOf(10*time.Millisecond, work(20*time.Millisecond)); f < 2 {
		t.Errorf("twice the work: %v", f)
	}
}

// signalStop stops the process of echoes, or has it go on.
func signalStop(m *Meter, stop bool) error {
	if stop {
		return m.echo.Process.Signal(syscall.SIGSTOP)
	}
	return m.echo.Process.Signal(syscall.SIGCONT)
}
