// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Faults of operators and of the machine, none of which may cost a message unless it says so.

// reloaded changes the configuration by SIGHUP, and waits until it is in force.
func reloaded(r *rig) fault {
	number := r.random.IntN(1000)
	return fault{fmt.Sprintf("reload of configuration %d by SIGHUP", number), "configuration", nil, false, func() error {
		return r.reload(number, func() (string, error) { return "", r.bridge.cmd.Process.Signal(syscall.SIGHUP) })
	}}
}

// squeezed has one blank for several.
func squeezed(text string) string { return strings.Join(strings.Fields(text), " ") }

func reloadedByConsole(r *rig) fault {
	number := r.random.IntN(1000)
	return fault{fmt.Sprintf("reload of configuration %d by the console", number), "configuration", nil, false, func() error {
		return r.reload(number, func() (string, error) { return r.bridge.command(r.ctx, "reload") })
	}}
}

// rejected reloads a file that is wrong, or needs a restart: nothing may change.
func rejected(r *rig) fault {
	wrong := []string{"[roce]\nport = 7\n", "[[[", strings.Replace(r.bridge.configText(1), "mbufs        = 8192", "mbufs = 4096", 1)}[r.random.IntN(3)]
	return fault{"a reload that is rejected", "configuration", nil, false, func() error {
		good, err := os.ReadFile(r.bridge.file("bridge.toml"))
		if err != nil {
			return err
		}
		before, err := r.bridge.ctl(r.ctx, "show", "config")
		if err != nil {
			return err
		}
		if err := os.WriteFile(r.bridge.file("bridge.toml"), []byte(wrong), 0o600); err != nil {
			return err
		}
		_, rejected := r.bridge.ctl(r.ctx, "reload")
		after, err := r.bridge.ctl(r.ctx, "show", "config")
		if rejected == nil || after != before {
			err = errors.Join(err, fmt.Errorf("it was not rejected (%v), or changed something:\n%s\nwas before\n%s", rejected, after, before))
		}
		return errors.Join(err, os.WriteFile(r.bridge.file("bridge.toml"), good, 0o600))
	}}
}

func groupsByConsole(r *rig) fault {
	ip := fmt.Sprintf("239.1.4.%d", 1+r.random.IntN(200))
	add := []string{"add", "group", ip}
	if p := r.anyPartition(); p.of() != "" {
		add = append(add, "pkey", p.pkey().String())
	}
	return fault{"group " + ip + " is added and removed by the console", "configuration", nil, false, func() error {
		_, err := r.bridge.ctl(r.ctx, add...)
		if err != nil {
			return err
		}
		_, err = r.bridge.ctl(r.ctx, "remove", "group", ip)
		return err
	}}
}

// neverReads asks for much output, several times, and never reads any. Others must be served meanwhile.
func neverReads(r *rig) fault {
	n, d := 1+r.random.IntN(4), r.between(100*time.Millisecond, 2*time.Second)
	return fault{fmt.Sprintf("%d console clients never read for %v", n, d), "console", nil, false, func() error {
		for range n {
			c, err := net.Dial("unix", r.bridge.file("console.sock"))
			if err != nil {
				return err
			}
			defer c.Close()
			_ = c.SetWriteDeadline(time.Now().Add(d))
			// It stops at some time: so it should.
			_, _ = c.Write([]byte(strings.Repeat("show workers\nshow drops\nhelp show\n", 2000)))
		}
		time.Sleep(d)
		_, err := r.bridge.ctl(r.ctx, "show", "status")
		return err
	}}
}

func garbage(r *rig) fault {
	b := make([]byte, 1+r.random.IntN(1<<16))
	for i := range b {
		b[i] = byte(r.random.Uint32())
	}
	return fault{fmt.Sprintf("%d bytes of garbage to the console", len(b)), "console", nil, false, func() error {
		c, err := net.Dial("unix", r.bridge.file("console.sock"))
		if err != nil {
			return err
		}
		_ = c.SetDeadline(time.Now().Add(time.Second))
		_, _ = c.Write(b) // it may hang up
		_ = c.Close()
		_, err = r.bridge.ctl(r.ctx, "show", "status")
		return err
	}}
}

// notReady is what a bridge may rightly say while something is wrong, with the reason: see quiet.
var notReady = regexp.MustCompile(`503 [^:]*: \S`)

// scraped reads everything that there is to read.
func scraped(r *rig) fault {
	return fault{"every page and every table is read", "web", nil, false, func() error {
		var errs []error
		for _, page := range []string{"/", "/metrics", "/healthz", "/readyz", "/status.json"} {
			_, err := r.bridge.get(r.ctx, page)
			if page != "/readyz" || err != nil && !notReady.MatchString(err.Error()) {
				errs = append(errs, err)
			}
		}
		for _, what := range []string{"status", "hosts", "nodes", "proxy-qps", "groups", "sidr", "drops", "latency", "log", "memory"} {
			_, err := r.bridge.ctl(r.ctx, "show", what)
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}}
}

// diskFull fills the disk of the log, and has a capture written there, which must fail or end by itself.
func diskFull(r *rig) fault {
	d := r.between(100*time.Millisecond, time.Second)
	return fault{"the disk is full for " + d.String(), "disk", nil, false, func() error {
		disk := filepath.Dir(r.bridge.log())
		fill, capture := filepath.Join(disk, "fill"), filepath.Join(disk, "capture.pcapng")
		err := r.bridge.inside(func() error {
			f, err := os.Create(fill)
			if err != nil {
				return err
			}
			defer f.Close()
			for size := 1 << 20; size > 0; size /= 2 {
				for err = nil; err == nil; {
					_, err = f.Write(make([]byte, size))
				}
				if !errors.Is(err, unix.ENOSPC) {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		_, captured := r.bridge.ctl(r.ctx, "capture", "to", capture, "count", "1000", "for", "2s")
		time.Sleep(d)
		_, err = r.bridge.ctl(r.ctx, "show", "status")
		if captured == nil {
			err = errors.Join(err, errors.New("a capture to a full disk was not reported as failed"))
		}
		return errors.Join(err, r.bridge.inside(func() error {
			_ = os.Remove(capture) // it may not have been made
			return os.Remove(fill)
		}))
	}}
}

// limited sets a resource limit of the bridge for a time.
func (r *rig) limited(resource int, limit uint64, d time.Duration) error {
	var old unix.Rlimit
	if err := unix.Prlimit(r.bridge.pid(), resource, nil, &old); err != nil {
		return err
	}
	if err := unix.Prlimit(r.bridge.pid(), resource, &unix.Rlimit{Cur: limit, Max: old.Max}, nil); err != nil {
		return err
	}
	time.Sleep(d)
	if err := unix.Prlimit(r.bridge.pid(), resource, &old, nil); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	return nil
}

// noDescriptors leaves the bridge no descriptor for another client, nor for a file. It must serve again afterwards.
func noDescriptors(r *rig) fault {
	d := r.between(100*time.Millisecond, 2*time.Second)
	return fault{"no file descriptors for " + d.String(), "limit", nil, false, func() error {
		open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", r.bridge.pid()))
		if err != nil {
			return err
		}
		lines := [2]int{r.bridge.shortLines("console"), r.bridge.shortLines("metrics")}
		ctl := make(chan struct{})
		go func() {
			defer close(ctl)
			_, _ = r.bridge.command(r.ctx, "show", "status") // it may fail now
		}()
		r.bridge.short.begun.Add(1)
		err = r.limited(unix.RLIMIT_NOFILE, uint64(len(open)), d)
		r.bridge.short.ended.Add(1)
		<-ctl
		if err != nil {
			return err
		}
		_, err = r.bridge.ctl(r.ctx, "show", "status")
		for i, event := range []string{"console", "metrics"} {
			if n := r.bridge.shortLines(event) - lines[i]; n > 1 {
				err = errors.Join(err, fmt.Errorf("%d lines say that clients wait: %s", n, event))
			}
		}
		return err
	}}
}

// noMemory leaves the bridge no more address space. It may go on, or end, and is then started anew.
func noMemory(r *rig) fault {
	d := r.between(100*time.Millisecond, 2*time.Second)
	return fault{"no more memory for " + d.String(), "process", everything, true, func() error {
		u, err := r.usage()
		if err != nil {
			return err
		}
		if err := r.limited(unix.RLIMIT_AS, u.virtual, d); err != nil {
			return err
		}
		if _, err := r.bridge.ctl(r.ctx, "show", "status"); err == nil && r.bridge.running() {
			return nil
		}
		r.note("the bridge ended without memory: %v", r.bridge.cmd.ProcessState)
		if err := r.bridge.end(r.ctx, syscall.SIGKILL); err != nil {
			return err
		}
		return r.again()
	}}
}

// injected has the bridge drop messages, which the console counts.
func injected(r *rig) fault {
	share, d := fmt.Sprintf("%d%%", 1+r.random.IntN(20)), r.between(100*time.Millisecond, time.Second)
	return fault{share + " dropped by injection for " + d.String(), "injection", everything, false, func() error {
		for _, direction := range []string{"roce_to_ib", "ib_to_roce"} {
			if _, err := r.bridge.ctl(r.ctx, "set", "injection", direction, "drop", share); err != nil {
				return err
			}
		}
		time.Sleep(d)
		_, err := r.bridge.ctl(r.ctx, "clear", "injection")
		return err
	}}
}
