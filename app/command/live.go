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

	"causeway/app/bridge"
	"causeway/app/capture"
	"causeway/app/trace"
	"causeway/lcore"
)

// filter returns the filter that the arguments of filterArgs describe.
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

// bounded returns a context that ends when the argument "for" says, and the most packets: the argument "count", else
// packets, or 0, no bound, when only "for" is given.
func bounded(ctx context.Context, c *Call, packets uint64) (context.Context, context.CancelFunc, uint64) {
	n := value(c, "count", uint64(0))
	if d, given := c.values["for"]; given {
		ctx, done := context.WithTimeout(ctx, d.(time.Duration))
		return ctx, done, n
	}
	if n == 0 {
		n = packets
	}
	ctx, done := context.WithCancel(ctx)
	return ctx, done, n
}

// captureOptions are the options of a capture.
type captureOptions struct {
	filter  lcore.Filter
	packets uint64 // 0: no bound
	snap    int    // 0: all of each packet
}

func streamCapture(ctx context.Context, c *Call, out Out) error {
	b, f, err := c.mirror("capture")
	if err != nil {
		return err
	}
	ctx, done, n := bounded(ctx, c, 1000)
	defer done()
	what := captureOptions{f, n, int(value(c, "snap", uint64(0)))}
	to := c.Value("to")
	if to == "" {
		return captureLines(ctx, b, out, what)
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

func (o *captureOptions) limits() capture.Limits {
	return capture.Limits{Packets: o.packets, Snap: o.snap}
}

type writerFunc func([]byte) error

// Write implements io.Writer.
func (f writerFunc) Write(b []byte) (int, error) {
	if err := f(b); err != nil {
		return 0, err
	}
	return len(b), nil
}

// captureFile captures to a new file, so that nothing is overwritten and no link is followed.
func captureFile(ctx context.Context, c *Call, b capture.Mirror, out Out, what captureOptions, path string) error {
	if c.Remote {
		return errors.New("a file can only be written from the Unix socket: use causeway ctl on the bridge's machine")
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		return fmt.Errorf("capture to %s: the file exists; name a new one", path)
	case err != nil:
		return fmt.Errorf("capture to: %w", err)
	}
	c.changed("capture", "to", path, "filter", what.filter.String())
	if err := out.Show(text(fmt.Sprintf("Capturing to %s; q, Ctrl-C or Enter ends the capture.", path))); err != nil {
		return errors.Join(err, file.Close())
	}
	result, err := capture.Write(ctx, b, what.filter, file, what.limits())
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	return out.Show(captured(&result))
}

// captured is the result of a capture to a file.
func captured(r *capture.Result) Result {
	dropped := object{}
	for _, d := range lcore.Drops() {
		if n := r.Dropped[d]; n > 0 {
			dropped = append(dropped, Pair{d.String(), n})
		}
	}
	return table(Part{Name: "captured", Lines: []string{r.String()}, Value: object{{"roce", r.Packets[0]}, {"infiniband", r.Packets[1]},
		{"dropped", dropped}, {"bytes", r.Bytes}, {"seconds", r.Duration.Seconds()}, {"missed", r.Missed}}})
}

// missedResult says how many packets are not in what was shown.
func missedResult(n uint64, line string) Result {
	return table(Part{Name: "missed", Lines: []string{fmt.Sprintf(line, n)}, Value: n})
}

// captureLines shows each copy of a packet in a line.
func captureLines(ctx context.Context, b capture.Mirror, out Out, what captureOptions) error {
	const headers = 128
	seen := uint64(0)
	var failed error
	missed, err := b.Mirror(ctx, what.filter, headers, func(m lcore.MirroredPacket) bool {
		seen++
		failed = out.Show(mirrorResult(m))
		return failed == nil && (what.packets == 0 || seen < what.packets)
	})
	if missed > 0 && failed == nil && err == nil {
		err = out.Show(missedResult(missed, "%d more were missed: packets came too fast."))
	}
	return errors.Join(err, failed)
}

// portOf names the port of a mirrored packet, where there are several.
func portOf(m *lcore.MirroredPacket) any {
	name := m.PortName
	if m.IB != nil {
		name = m.IB.Ports
	}
	if name == "" {
		return nil
	}
	return name
}

// mirrorResult is the line of a mirrored packet.
func mirrorResult(m lcore.MirroredPacket) Result {
	var why any
	if m.Point == lcore.Dropped {
		why = m.Drop
	}
	p := Part{Name: "packet", Pairs: []Pair{
		{"time", m.Time}, {"packet", m.Packet}, {"worker", m.Worker}, {"direction", m.Direction}, {"point", m.Point}, {"side", m.Side}, {"port", portOf(&m)},
		{"drop", why}, {"length", m.Len}, {"what", describe(&m)}}}
	const serial = 1<<48 - 1 // the bits above are the worker that received the packet
	p.Line = fmt.Sprintf("%s %5d  %-10v %-4v %-10v %s, %d bytes", m.Time.Format("15:04:05.000000"), m.Packet&serial, m.Direction, m.Side, m.Point,
		describe(&m), m.Len)
	if port := portOf(&m); port != nil {
		p.Line += fmt.Sprintf(", port %v", port)
	}
	if m.Point == lcore.Dropped {
		p.Line += fmt.Sprintf("  %v: %s", m.Drop, m.Drop.Sentence())
	}
	return Result{Parts: []Part{p}}
}

func streamTrace(ctx context.Context, c *Call, out Out) error {
	b, f, err := c.mirror("trace")
	if err != nil {
		return err
	}
	tables, canExplain := c.Env.Bridge.(interface{ Tables() bridge.Tables })
	if !canExplain {
		return notAvailable("trace")
	}
	ctx, done, n := bounded(ctx, c, 10)
	defer done()
	seen := uint64(0)
	var failed error
	missed, err := trace.Follow(ctx, b, tables.Tables(), f, func(e trace.Explanation) bool {
		seen++
		failed = out.Show(Result{Parts: []Part{{Name: "packet", Lines: e.Lines(), Value: e}}})
		return failed == nil && (n == 0 || seen < n)
	})
	if missed > 0 && failed == nil && err == nil {
		err = out.Show(missedResult(missed, "%d mirrored packets were missed: packets came too fast."))
	}
	return errors.Join(err, failed)
}
