// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
)

// What an operator does at the console, also while the bridge has no file descriptor left: a command that needs one is
// rejected then, in one line that says why, and the operator enters it again when there are some.

// A shortage has the times without file descriptors. They do not overlap.
type shortage struct{ begun, ended atomic.Uint64 }

// since reports whether there has been one since so many had ended.
func (s *shortage) since(ended uint64) bool { return s.begun.Load() > ended }

// over waits until there is none.
func (s *shortage) over(ctx context.Context) error {
	return await(ctx, "there are file descriptors again", func() bool { return !s.since(s.ended.Load()) })
}

// ctl runs a command of the console, until it is not rejected for want of file descriptors.
func (b *bridge) ctl(ctx context.Context, words ...string) (string, error) {
	for {
		ended := b.short.ended.Load()
		out, err := b.command(ctx, words...)
		if err == nil || !b.short.since(ended) || !isShort(out) {
			return out, err
		}
		if err := b.short.over(ctx); err != nil {
			return "", err
		}
	}
}

// command runs a command of the console, and returns what it has printed, and an error with that when it failed.
func (b *bridge) command(ctx context.Context, words ...string) (string, error) {
	ctx, stop := context.WithTimeout(ctx, within)
	defer stop()
	cmd := exec.CommandContext(ctx, b.bin, append([]string{"ctl", "-s", b.file("console.sock")}, words...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("causeway ctl %s: %w: %s", strings.Join(words, " "), err, out)
	}
	return string(out), err
}

// noDescriptor is how the kernel says it, and so how what the bridge says ends.
const noDescriptor = "too many open files"

// isShort reports whether a command was rejected because there was no file descriptor, in one line that says so.
func isShort(out string) bool {
	line := strings.TrimSpace(out)
	return strings.HasSuffix(line, noDescriptor) && !strings.Contains(line, "\n")
}

// shortLines returns how many lines of the log say of an event that there was no file descriptor. A reload that is rejected
// is one; so are clients of the console, or of the metrics, that wait.
func (b *bridge) shortLines(event string) (n int) {
	for line := range strings.Lines(b.readLog()) {
		if strings.Contains(line, "msg="+event+" ") && strings.Contains(line, noDescriptor) {
			n++
		}
	}
	return n
}

// reload writes a configuration and has the bridge read it, again when there was no file descriptor to read it with: one
// line of the log says so, and nothing has changed. once asks for it, and returns what the console has printed.
func (r *rig) reload(number int, once func() (out string, err error)) error {
	if err := r.bridge.writeConfig(number); err != nil {
		return err
	}
	for {
		ended, before := r.bridge.short.ended.Load(), r.bridge.shortLines("reload_rejected")
		if out, err := once(); err != nil && !isShort(out) {
			return err
		}
		inForce, rejected, got := false, 0, ""
		err := await(r.ctx, "the configuration is in force", func() bool {
			rejected = r.bridge.shortLines("reload_rejected") - before
			got, inForce = r.inForce(number)
			return inForce || rejected > 0
		})
		switch {
		case err != nil:
			return fmt.Errorf("%w: in force is\n%s", err, got)
		case rejected == 0:
			return nil
		case rejected != 1 || !r.bridge.short.since(ended):
			return fmt.Errorf("%d lines say that a reload was rejected for want of file descriptors", rejected)
		}
		r.note("the bridge has rejected a reload for want of file descriptors")
		if err := r.bridge.short.over(r.ctx); err != nil {
			return err
		}
	}
}

// inForce returns the configuration in force, and whether it is that one.
func (r *rig) inForce(number int) (text string, is bool) {
	text, err := r.bridge.ctl(r.ctx, "show", "config")
	groups := strings.Count(r.bridge.configText(number), "239.1.3.")
	want := fmt.Sprintf("proxy_qp_idle %d", 60+number%4)
	return text, err == nil && strings.Contains(squeezed(text), want) && strings.Count(text, "239.1.3.") == groups
}

// TestIsShort: only one line that ends with the kernel's words is such a rejection.
func TestIsShort(t *testing.T) {
	for out, want := range map[string]bool{
		"config: /x/bridge.toml: too many open files\n": true, "": false, "config: /x/bridge.toml: this is a folder\n": false,
		"reload: nothing was changed\nconfig: too many open files\n": false, "too many open files: and more\n": false,
	} {
		if got := isShort(out); got != want {
			t.Errorf("%q: %v", out, got)
		}
	}
}
