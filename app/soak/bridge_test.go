// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"causeway/app/segment"
)

// within is how long anything may take that should take a moment: the machine may be far too busy.
const within = time.Minute

// pollEvery is how often something is looked at that is waited for.
const pollEvery = 20 * time.Millisecond

// await waits until done reports true.
func await(ctx context.Context, what string, done func() bool) error {
	ctx, stop := context.WithTimeoutCause(ctx, within, fmt.Errorf("not within %v", within))
	defer stop()
	for !done() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, context.Cause(ctx))
		case <-time.After(pollEvery):
		}
	}
	return nil
}

// A bridge is bin/causeway in a process of its own, in the segment's network namespace and in a mount namespace that
// has a small disk. The kernel kills the process when the thread that started it ends.
type bridge struct {
	bin, dir string
	layout
	jobs  chan func()
	cmd   *exec.Cmd
	done  chan struct{}
	short shortage // of file descriptors
}

// diskBytes is the size of the disk that has the log and the captures.
const diskBytes = 16 << 20

func newBridge(s *segment.Segment, bin, dir string, l layout) (*bridge, error) {
	b := &bridge{bin: bin, dir: dir, layout: l, jobs: make(chan func())}
	entered := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread is in other namespaces
		err := s.Do(func() error {
			disk := filepath.Join(dir, "disk")
			if err := errors.Join(unix.Unshare(unix.CLONE_NEWNS), unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), os.Mkdir(disk, 0o700)); err != nil {
				return err
			}
			err := unix.Mount("tmpfs", disk, "tmpfs", 0, fmt.Sprintf("size=%d", diskBytes))
			entered <- err
			for job := range b.jobs {
				job()
			}
			return err
		})
		if err != nil {
			entered <- err
		}
	}()
	return b, <-entered
}

// inside runs f where the bridge is: in its network and with its disk.
func (b *bridge) inside(f func() error) error {
	result := make(chan error, 1)
	b.jobs <- func() { result <- f() }
	return <-result
}

func (b *bridge) file(name string) string { return filepath.Join(b.dir, name) }
func (b *bridge) log() string             { return b.file("disk/log") }

// readLog returns what the bridge has logged.
func (b *bridge) readLog() string {
	var text []byte
	err := b.inside(func() (err error) { text, err = os.ReadFile(b.log()); return err })
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// start starts the bridge, with an empty log. It is not ready yet.
func (b *bridge) start() error {
	for i := range b.fabrics {
		_ = os.Remove(b.subnetSocket(i)) // of one that was killed
	}
	b.cmd = exec.Command(b.bin, "run", "-c", b.file("bridge.toml"))
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	err := b.inside(func() error {
		log, err := os.OpenFile(b.log(), os.O_CREATE|os.O_TRUNC|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		defer log.Close()
		b.cmd.Stderr = log
		return b.cmd.Start()
	})
	if err != nil {
		return fmt.Errorf("start the bridge: %w", err)
	}
	done := make(chan struct{})
	b.done = done
	go func(cmd *exec.Cmd) {
		_ = cmd.Wait() // its ProcessState says how it ended
		close(done)
	}(b.cmd)
	return nil
}

func (b *bridge) pid() int { return b.cmd.Process.Pid }

func (b *bridge) running() bool {
	select {
	case <-b.done:
		return false
	default:
		return true
	}
}

// end sends a signal and waits for the end.
func (b *bridge) end(ctx context.Context, s syscall.Signal) error {
	if err := b.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return await(ctx, fmt.Sprintf("the bridge ends after %v", s), func() bool { return !b.running() })
}

// stop ends the bridge in order, which must be with exit code 0 and with every packet counted.
func (b *bridge) stop(ctx context.Context) error {
	if _, err := b.ctl(ctx, "set", "log", "level", "info"); err != nil { // else it may not log its counters
		return err
	}
	if err := b.end(ctx, syscall.SIGTERM); err != nil {
		return err
	}
	log := b.readLog()
	if code := b.cmd.ProcessState.ExitCode(); code != 0 || strings.Count(log, "conserved=true") != 2 {
		return fmt.Errorf("the bridge ended with exit code %d, or has lost count of packets; it logged:\n%s", code, lastLines(log))
	}
	return nil
}

func lastLines(text string) string {
	const most = 30
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-most):], "\n")
}

// get reads a page of the bridge's.
func (b *bridge) get(ctx context.Context, page string) (string, error) {
	client := http.Client{Timeout: within, Transport: &http.Transport{DisableKeepAlives: true, DialContext: b.dial}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+metricsListen+page, nil)
	if err != nil {
		return "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", page, response.Status, text)
	}
	return string(text), err
}

// dial dials from inside. The address is literal, so package net opens the socket on the calling thread.
func (b *bridge) dial(ctx context.Context, network, address string) (c net.Conn, err error) {
	err = b.inside(func() error {
		c, err = (&net.Dialer{Timeout: within}).DialContext(ctx, network, address)
		return err
	})
	return c, err
}

// metrics returns the values of one scrape, by name with labels.
func (b *bridge) metrics(ctx context.Context) (map[string]float64, error) {
	text, err := b.get(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	all := map[string]float64{}
	for line := range strings.Lines(text) {
		if at := strings.LastIndexByte(strings.TrimSpace(line), ' '); at > 0 && line[0] != '#' {
			if all[line[:at]], err = strconv.ParseFloat(strings.TrimSpace(line[at:]), 64); err != nil {
				return nil, fmt.Errorf("the metric %q: %w", line, err)
			}
		}
	}
	return all, nil
}

type direction struct {
	Received, Sent, Dropped uint64
	Drops                   map[string]uint64
}

// status is what the soak reads of /status.json.
type status struct {
	Ready      bool
	Directions map[string]direction
	Port       struct {
		RxFrames uint64 `json:"rx_frames"`
		RxMissed uint64 `json:"rx_missed"`
		RxNoMbuf uint64 `json:"rx_no_mbuf"`
		TxFrames uint64 `json:"tx_frames"`
		TxErrors uint64 `json:"tx_errors"`
	}
}

func (b *bridge) status(ctx context.Context) (s status, err error) {
	text, err := b.get(ctx, "/status.json")
	if err == nil {
		err = json.Unmarshal([]byte(text), &s)
	}
	return s, err
}
