// SPDX-License-Identifier: Apache-2.0

package talk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"causeway/ibside/ib"
)

// Sending says what to send, and where to.
type Sending struct {
	To       Group         // a group, an IP address or a GID; without an address: the first who calls (Listening.Call)
	QPN      ib.QPN        // of an address
	Size     int           // of a message, bytes
	Rate     float64       // messages a second; 0: as fast as possible
	Burst    int           // messages at a time
	Count    uint64        // 0: no end
	Duration time.Duration // 0: no end
	Seed     uint64        // of the bytes behind the heads

	Ready func(Where, string) error // is told where it is, and where it sends to; before a call, ""
	Live  *os.File                  // a terminal for the live line; nil: none
}

// A SendReport is what was sent.
type SendReport struct {
	On      string  `json:"on"`
	To      string  `json:"to"`
	Stream  string  `json:"stream"`
	Size    int     `json:"size"`
	Sent    uint64  `json:"sent"`
	Unsent  uint64  `json:"unsent"` // there was no room for
	Seconds float64 `json:"seconds"`
	Rate    float64 `json:"rate_pps"`
	Behind  float64 `json:"behind_seconds"` // given up on: the rate was more than could be
}

// sender is a run.
type sender struct {
	Sending
	end    End
	way    Way
	stream uint32
	calls  chan Message
	sent   atomic.Uint64
	unsent atomic.Uint64
	behind time.Duration
}

// Send sends until the count, the duration or ctx ends.
func Send(ctx context.Context, c Config, s Sending) (r SendReport, err error) {
	x := &sender{Sending: s, stream: rand.Uint32(), calls: make(chan Message, 1)}
	c.OnMessage = x.message
	if x.end, err = Open(c); err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, x.end.Close()) }()
	if err = x.check(); err != nil {
		return r, err
	}
	if x.way, err = x.find(ctx); err != nil || x.way == nil {
		return r, err
	}
	if err = s.Ready(x.end.Where(), x.way.String()); err != nil {
		return r, err
	}
	began := time.Now()
	stop := x.live(began)
	err = x.run(ctx)
	took := time.Since(began)
	stop()
	return x.report(took), err
}

// check checks the size against the end.
func (x *sender) check() error {
	w := x.end.Where()
	if x.Size < HeadLen || x.Size > w.MTU {
		return fmt.Errorf("-size %d: %s carries messages of %d (the head) to %d bytes; for larger ones: %s", x.Size, w.On, HeadLen, w.MTU, w.larger)
	}
	return nil
}

// find returns the way to whom to send to; nil when ctx ends before somebody has called.
func (x *sender) find(ctx context.Context) (Way, error) {
	switch {
	case x.To.Addr.IsMulticast():
		return x.end.Join(ctx, x.To, false)
	case x.To.Addr.IsValid():
		return x.end.Find(ctx, x.To.Addr, x.QPN)
	}
	if err := x.Ready(x.end.Where(), ""); err != nil {
		return nil, err
	}
	select {
	case m := <-x.calls:
		return x.end.Back(&m), nil
	case <-ctx.Done():
		return nil, nil
	case <-x.end.Gone():
		return nil, fmt.Errorf("%s: it has gone, before anybody called", x.end.Where().On)
	}
}

// message takes calls, the first of which counts.
func (x *sender) message(m *Message) {
	h, c := read(m.Payload)
	if c != whole || h.Number != callNumber {
		return
	}
	caller := *m
	caller.Payload = nil
	select {
	case x.calls <- caller:
	default:
	}
}

func (x *sender) run(ctx context.Context) error {
	if x.Duration > 0 {
		limited, cancel := context.WithTimeout(ctx, x.Duration)
		defer cancel()
		ctx = limited
	}
	b := filler(x.Seed, x.Size)
	pace, release := newPacer(x.Rate, x.Burst)
	defer release()
	defer func() { x.behind = pace.lost }()
	for number := uint64(0); ; {
		if pace.wait(ctx) != nil {
			return nil
		}
		for range x.Burst {
			if x.Count > 0 && number == x.Count {
				return nil
			}
			number++
			Head{Stream: x.stream, Number: number, Sent: time.Now()}.put(b)
			switch err := x.way.Send(b); {
			case err == nil:
				x.sent.Add(1)
			case errors.Is(err, ErrFull):
				x.unsent.Add(1)
			default:
				return err
			}
		}
	}
}

func (x *sender) report(took time.Duration) SendReport {
	r := SendReport{
		On: x.end.Where().On, To: x.way.String(), Stream: fmt.Sprintf("0x%08x", x.stream), Size: x.Size, Sent: x.sent.Load(),
		Unsent: x.unsent.Load(), Seconds: took.Seconds(), Behind: x.behind.Seconds(),
	}
	if took > 0 {
		r.Rate = float64(r.Sent) / took.Seconds()
	}
	return r
}

// live shows a line that lives, until the function that it returns is called.
func (x *sender) live(began time.Time) (stop func()) {
	var last uint64
	at := began
	return showLive(x.Live, func() string {
		sent, now := x.sent.Load(), time.Now()
		rate := float64(sent-last) / max(now.Sub(at).Seconds(), 1e-3)
		last, at = sent, now
		line := fmt.Sprintf("%.0f s  %d sent, %.0f a second, to %s", now.Sub(began).Seconds(), sent, rate, x.way)
		if n := x.unsent.Load(); n > 0 {
			line += fmt.Sprintf(", %d had no room", n)
		}
		return line
	})
}

// Write writes the report as text.
func (r SendReport) Write(w io.Writer) {
	fmt.Fprintf(w, "%d messages of %d bytes sent to %s in %.2f s, %.0f a second\n", r.Sent, r.Size, r.To, r.Seconds, r.Rate)
	if r.Unsent > 0 {
		fmt.Fprintf(w, "  %d more had no room at the interface and were not sent: their numbers are missing\n", r.Unsent)
	}
	if r.Behind > 0 {
		fmt.Fprintf(w, "  this machine could not keep up with the rate: it fell behind by %.2f s\n", r.Behind)
	}
}

// ParseTo reads whom to send to: a group or an address, or "caller".
func ParseTo(s string) (netip.Addr, error) {
	if s == "caller" {
		return netip.Addr{}, nil
	}
	a, err := netip.ParseAddr(s)
	if err != nil || a.Zone() != "" || a.IsUnspecified() {
		return a, fmt.Errorf("%q is no address; use a group like 239.1.2.3, an IP address or GID, or caller", s)
	}
	return a.Unmap(), nil
}
