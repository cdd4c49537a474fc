// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"causeway/app/slowtest"
	"causeway/dpdk"
	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/lcore/frame"
)

func init() { tasks["overload"] = taskOverload }

// ServeConsole serves a bridge's console at a socket until end is called, and AskConsole has it do a command:
// console_test.go's.
var (
	ServeConsole func(b *Bridge, socket string) (end func(), err error)
	AskConsole   func(socket, line string) error
)

// answeredIn is how long a command may take, whatever else happens.
const answeredIn = 100 * time.Millisecond

const (
	overloadLasts = 1500 * time.Millisecond
	overloadBurst = 32
)

// asked are commands that ask the workers, management, and the tables.
var asked = []string{"show status", "show groups", "show hosts", "show drops", "show proxy-qps", "show nodes"}

// A load offers frames to a bridge that is full, faster than it takes them.
type load struct {
	*Bridge
	frames          [][]byte
	next            int
	held            []dpdk.Mbuf // those of the burst that the bridge has not taken
	offered, missed uint64
}

// newLoad is messages to a group and to the echo, ARP, reports of groups and messages to nodes that nobody has: a
// quarter of them is management's.
func newLoad(b *Bridge, known *talker) *load {
	l := &load{Bridge: b}
	for i := range 1024 {
		var f []byte
		switch i % 8 {
		case 0:
			f = known.messages(b)[0]
		case 1:
			f = noisy.arp(frame.Broadcast)
		case 2:
			f = igmpFrame(b, i)
		case 3:
			p := message(b, crowdIP(i), 0x78, i)
			p.Src, p.SrcIP = noisy.mac, noisy.ip
			f = p.AppendTo(nil)
		default:
			p := message(b, b.cfg.Groups[0].IP, ib.QPMulticast, i)
			p.Src, p.SrcIP = known.mac, known.ip
			f = p.AppendTo(nil)
		}
		l.frames = append(l.frames, f)
	}
	return l
}

// offer offers a burst. What the bridge does not take is lost, as a port loses it, and its mbufs are those of the next
// burst.
func (l *load) offer() error {
	for len(l.held) < overloadBurst {
		m, err := l.pool.Alloc(l.frames[l.next%len(l.frames)])
		if err != nil { // the bridge has all others
			break
		}
		l.next++
		l.held = append(l.held, m)
	}
	n := 0
	if len(l.held) > 0 {
		n = l.ethernet[0].port.RingPort().ToPort(0).Enqueue(l.held)
	}
	l.held = append(l.held[:0], l.held[n:]...)
	l.offered += overloadBurst
	l.missed += uint64(overloadBurst - n)
	l.discard()
	return nil
}

// run offers frames for a time, at a rate; 0: as fast as the bridge takes them. It returns how many a second were
// offered, and taken.
func (l *load) run(rate float64, lasts time.Duration) (offered, taken float64, err error) {
	began, first, missed := time.Now(), l.offered, l.missed
	for time.Since(began) < lasts {
		if err := l.offer(); err != nil {
			return 0, 0, err
		}
		for rate > 0 && float64(l.offered-first) > rate*time.Since(began).Seconds() {
			runtime.Gosched()
		}
	}
	seconds := time.Since(began).Seconds()
	offered = float64(l.offered-first) / seconds
	return offered, offered - float64(l.missed-missed)/seconds, nil
}

// asking asks the console until stop is closed, and returns how often, and how long the longest answer took.
func asking(socket string, stop <-chan struct{}) (n int, longest time.Duration, err error) {
	for ; ; n++ {
		select {
		case <-stop:
			return n, longest, nil
		case <-time.After(10 * time.Millisecond):
		}
		began := time.Now()
		if err := AskConsole(socket, asked[n%len(asked)]); err != nil {
			return n, longest, err
		}
		longest = max(longest, time.Since(began))
	}
}

// under offers a load while the console is asked, and says how that went.
func (l *load) under(times int, rate float64, socket string) (string, error) {
	type answers struct {
		n       int
		longest time.Duration
		err     error
	}
	stop, done := make(chan struct{}), make(chan answers, 1)
	go func() {
		var a answers
		a.n, a.longest, a.err = asking(socket, stop)
		done <- a
	}()
	offered, taken, err := l.run(float64(times)*rate, overloadLasts)
	close(stop)
	a := <-done
	if err = errors.Join(err, a.err); err == nil && a.n == 0 {
		err = errors.New("the console was asked nothing")
	}
	return fmt.Sprintf("%d times: %.0f thousand frames/s offered, %.0f taken; %d commands took %v at most", times, offered/1e3, taken/1e3, a.n,
		a.longest.Round(10*time.Microsecond)), err
}

// taskOverload offers a bridge 2, 5 and 10 times what it takes, and asks its console meanwhile. Every frame is counted.
func taskOverload() (string, error) {
	runtime.GOMAXPROCS(runtime.NumCPU() + 1) // who sends is no part of the bridge
	dir, err := os.MkdirTemp("", "console")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	b, err := builtAfter(besiegeable("hosts = 1024\nproxy_qps = 512") + "[[range]]\nip = \"239.2.0.0/16\"\nfrom = [\"reports\"]\nmost = 64\nmgid = \"rdmacm\"\n")
	if err != nil {
		return "", err
	}
	var said []string
	err = running(b, func() error {
		socket := filepath.Join(dir, "console.sock")
		end, err := ServeConsole(b, socket)
		if err != nil {
			return err
		}
		defer end()
		l := newLoad(b, newTalker(20, 1))
		_, rate, err := l.run(0, overloadLasts)
		if err != nil {
			return err
		}
		for _, times := range []int{1, 2, 5, 10} {
			line, err := l.under(times, rate, socket)
			if said = append(said, line); err != nil {
				return err
			}
		}
		for _, m := range l.held {
			m.Free()
		}
		return l.settled()
	})
	return strings.Join(said, "\n"), err
}

// settled waits until the workers have received all that the port took: messages, and frames for management.
func (l *load) settled() error {
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		l.discard()
		c := l.Counters()
		in := c.Direction[lcore.RoCEToIB]
		if in.Received+c.Punt.Received == l.offered-l.missed && in.Conserved() && c.Punt.Received == c.Punt.Handed+c.Punt.Full {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("%d frames were offered and %d of them missed; counted %+v, %+v", l.offered, l.missed, in, c.Punt)
		}
	}
}

var atMost = regexp.MustCompile(`took (\S+) at most`)

// logAnswers runs a task that must succeed, logs what it says, and checks how long answers took.
func logAnswers(t *testing.T, name string) {
	t.Helper()
	meter, err := slowtest.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer meter.Close()
	text, err := task(t, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + text)
	limit := slowtest.Stretch(t, answeredIn, meter.Worst())
	all := atMost.FindAllStringSubmatch(text, -1)
	if len(all) == 0 {
		t.Error("no answers")
	}
	for _, m := range all {
		if took, err := time.ParseDuration(m[1]); err != nil || took > limit {
			t.Errorf("an answer took %v, want %v at most; %v", took, limit, err)
		}
	}
}

// TestConsoleUnderOverload checks that the console answers in a tenth of a second while more frames come than the
// bridge can take.
func TestConsoleUnderOverload(t *testing.T) {
	logAnswers(t, "overload")
}
