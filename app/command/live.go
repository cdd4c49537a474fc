// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"causeway/app/capture"
	"causeway/app/house"
	"causeway/app/trace"
	"causeway/lcore"
)

// A watcher shows packets at points of their way.
type watcher interface {
	Watch(ctx context.Context, f lcore.Filter, snap int, see func(lcore.Sight) bool) (missed uint64, err error)
}

// filter reads the arguments that filterArgs are.
func (c *Call) filter() (lcore.Filter, error) {
	var words []string
	for i := range filterArgs {
		name := filterArgs[i].Name
		if v, given := c.values[name]; given {
			words = append(words, name, fmt.Sprint(v))
		}
	}
	f, err := lcore.ParseFilter(words)
	if err != nil {
		return f, &Usage{strings.TrimPrefix(err.Error(), "filter: ")}
	}
	return f, nil
}

// bounded returns a context that ends as the arguments count and for ask, and how many packets that are at most.
func bounded(ctx context.Context, c *Call, packets uint64) (context.Context, context.CancelFunc, uint64) {
	n := value(c, "count", uint64(0))
	if d, given := c.values["for"]; given {
		ctx, done := context.WithTimeout(ctx, d.(time.Duration))
		return ctx, done, n // 0: only the time counts
	}
	if n == 0 {
		n = packets
	}
	ctx, done := context.WithCancel(ctx)
	return ctx, done, n
}

// A Capture is what a capture or a trace wants.
type Capture struct {
	Filter  lcore.Filter
	Packets uint64 // 0: no bound
	Snap    int    // 0: all of each packet
}

func streamCapture(ctx context.Context, c *Call, out Out) error {
	f, err := c.filter()
	if err != nil {
		return err
	}
	ctx, done, n := bounded(ctx, c, 1000)
	defer done()
	what := Capture{f, n, int(value(c, "snap", uint64(0)))}
	to := c.Value("to")
	if to == "" {
		return captureLines(ctx, c, out, what)
	}
	b, ok := c.Env.Bridge.(watcher)
	if !ok {
		return noAnswer("capture")
	}
	if to != "-" {
		return captureFile(ctx, c, b, out, what, to)
	}
	raw := out.Raw()
	if raw == nil {
		return usagef("\"to -\" is for causeway ctl, with its output not on a terminal; write a file's path here")
	}
	_, err = capture.Write(ctx, b, f, writerFunc(raw), what.limits())
	return err
}

func (c *Capture) limits() capture.Limits { return capture.Limits{Packets: c.Packets, Snap: c.Snap} }

type writerFunc func([]byte) error

// Write implements io.Writer.
func (f writerFunc) Write(b []byte) (int, error) {
	if err := f(b); err != nil {
		return 0, err
	}
	return len(b), nil
}

// captureFile captures to a file that must not be there yet, so that nothing is overwritten and no link is followed.
func captureFile(ctx context.Context, c *Call, b watcher, out Out, what Capture, path string) error {
	if c.Remote {
		return errors.New("files are for those who come by the Unix socket: causeway ctl, on the bridge's machine")
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		return fmt.Errorf("capture to %s: that is there already; write a new file", path)
	case err != nil:
		return fmt.Errorf("capture to: %w", err)
	}
	c.changed("capture", "to", path, "filter", what.Filter.String())
	if err := out.Show(text(fmt.Sprintf("Capturing to %s; q, Ctrl-C or Enter ends it.", path))); err != nil {
		return errors.Join(err, file.Close())
	}
	said, err := capture.Write(ctx, b, what.Filter, file, what.limits())
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	return out.Show(text(said.String()))
}

// captureLines shows a line for each packet at each point.
func captureLines(ctx context.Context, c *Call, out Out, what Capture) error {
	b, ok := c.Env.Bridge.(watcher)
	if !ok {
		return noAnswer("capture")
	}
	const headers = 128
	seen := uint64(0)
	var failed error
	missed, err := b.Watch(ctx, what.Filter, headers, func(s lcore.Sight) bool {
		seen++
		failed = out.Show(sightResult(s))
		return failed == nil && (what.Packets == 0 || seen < what.Packets)
	})
	if missed > 0 && failed == nil && err == nil {
		err = out.Show(text(fmt.Sprintf("%d more were not seen: they came too fast.", missed)))
	}
	return errors.Join(err, failed)
}

// sightResult is a packet at a point, in a row.
func sightResult(s lcore.Sight) Result {
	var why any
	if s.Point == lcore.Dropped {
		why = s.Drop
	}
	p := Part{Name: "packet", Pairs: []Pair{
		{"time", s.Time}, {"packet", s.Packet}, {"worker", s.Worker}, {"direction", s.Direction}, {"point", s.Point}, {"door", s.Door},
		{"drop", why}, {"length", s.Len}, {"what", describe(&s)}}}
	const serial = 1<<48 - 1 // above it is who saw the packet first
	p.Line = fmt.Sprintf("%s %5d  %-10v %-4v %-10v %s, %d bytes", s.Time.Format("15:04:05.000000"), s.Packet&serial, s.Direction, s.Door, s.Point,
		describe(&s), s.Len)
	if s.Point == lcore.Dropped {
		p.Line += fmt.Sprintf("  %v: %s", s.Drop, s.Drop.Sentence())
	}
	return Result{Parts: []Part{p}}
}

func streamTrace(ctx context.Context, c *Call, out Out) error {
	f, err := c.filter()
	if err != nil {
		return err
	}
	b, canWatch := c.Env.Bridge.(watcher)
	tables, canExplain := c.Env.Bridge.(interface{ Shelves() house.Shelves })
	if !canWatch || !canExplain {
		return noAnswer("trace")
	}
	ctx, done, n := bounded(ctx, c, 10)
	defer done()
	seen := uint64(0)
	var failed error
	missed, err := trace.Follow(ctx, b, tables.Shelves(), f, func(e trace.Explanation) bool {
		seen++
		failed = out.Show(Result{Parts: []Part{{Name: "packet", Lines: e.Lines(), Value: e}}})
		return failed == nil && (n == 0 || seen < n)
	})
	if missed > 0 && failed == nil && err == nil {
		err = out.Show(text(fmt.Sprintf("%d sights were missed: packets came too fast.", missed)))
	}
	return errors.Join(err, failed)
}
