// SPDX-License-Identifier: Apache-2.0

package traffic

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
	"causeway/ibside/stamp"
)

// SendConfig says what to send, and where to.
type SendConfig struct {
	To       Group         // a group, an IP address or a GID; without an address: the first caller (ListenConfig.Call)
	QPN      ib.QPN        // at an address
	Size     int           // of a message, bytes
	Rate     float64       // messages a second; 0: as fast as possible
	Burst    int           // messages at a time
	Count    uint64        // 0: unlimited
	Duration time.Duration // 0: unlimited
	Seed     uint16        // of the pattern behind the stamps

	// Called with the destination before the first message; with "" before waiting for a caller.
	Ready func(Info, string) error
	Live  *os.File // a terminal for the status line; nil: none
}

// A SendReport is what was sent.
type SendReport struct {
	On      string  `json:"on"`
	To      string  `json:"to"`
	Stream  string  `json:"stream"`
	Size    int     `json:"size"`
	Sent    uint64  `json:"sent"`
	Unsent  uint64  `json:"unsent"` // there was no room for them
	Seconds float64 `json:"seconds"`
	Rate    float64 `json:"rate_pps"`
	Behind  float64 `json:"behind_seconds"` // not made up for: the rate was too high for this machine
}

// A sender is a run of Send.
type sender struct {
	SendConfig
	from   Endpoint
	to     Destination
	stream uint32
	calls  chan Message
	sent   atomic.Uint64
	unsent atomic.Uint64
	behind time.Duration
}

// Send sends until the count, the duration or ctx ends.
func Send(ctx context.Context, c Config, s SendConfig) (r SendReport, err error) {
	x := &sender{SendConfig: s, stream: rand.Uint32(), calls: make(chan Message, 1)}
	c.OnMessage = x.message
	if x.from, err = open(c); err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, x.from.Close()) }()
	if err = x.check(); err != nil {
		return r, err
	}
	if x.to, err = x.destination(ctx); err != nil || x.to == nil {
		return r, err
	}
	if err = s.Ready(x.from.Info(), x.to.String()); err != nil {
		return r, err
	}
	began := time.Now()
	stop := x.live(began)
	err = x.run(ctx)
	took := time.Since(began)
	stop()
	return x.report(took), err
}

// check checks the size against the endpoint's MTU.
func (x *sender) check() error {
	i := x.from.Info()
	if x.Size < stamp.Len || x.Size > i.MTU {
		return fmt.Errorf("-size %d: %s carries messages of %d (the stamp) to %d bytes; for larger ones: %s", x.Size, i.On, stamp.Len, i.MTU, i.larger)
	}
	return nil
}

// destination returns where to send to; nil when ctx ends before a listener has called.
func (x *sender) destination(ctx context.Context) (Destination, error) {
	switch {
	case x.To.Addr.IsMulticast():
		return x.from.Join(ctx, x.To, false)
	case x.To.Addr.IsValid():
		return x.from.Resolve(ctx, x.To.Addr, x.QPN)
	}
	if err := x.Ready(x.from.Info(), ""); err != nil {
		return nil, err
	}
	select {
	case m := <-x.calls:
		return x.from.ReplyTo(&m), nil
	case <-ctx.Done():
		return nil, nil
	case <-x.from.Done():
		return nil, fmt.Errorf("%s: it has gone, before a listener called", x.from.Info().On)
	}
}

// message accepts the first call.
func (x *sender) message(m *Message) {
	if s, v := stamp.Read(m.Payload); v != stamp.Whole || s.Number != callNumber {
		return
	}
	call := *m
	call.Payload = nil
	select {
	case x.calls <- call:
	default:
	}
}

// callNumber is the number of a call, with which a listener asks a sender for messages. Those begin at 1.
const callNumber = 0

// run sends until the count, the duration or ctx ends.
func (x *sender) run(ctx context.Context) error {
	if x.Duration > 0 {
		limited, cancel := context.WithTimeout(ctx, x.Duration)
		defer cancel()
		ctx = limited
	}
	b := make([]byte, x.Size)
	stamp.Fill(b, x.Seed)
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
			stamp.Stamp{Stream: x.stream, Number: number, Time: stamp.Now(), Seed: x.Seed}.Put(b)
			switch err := x.to.Send(b); {
			case err == nil:
				x.sent.Add(1)
			case errors.Is(err, errFull):
				x.unsent.Add(1)
			default:
				return err
			}
		}
	}
}

func (x *sender) report(took time.Duration) SendReport {
	r := SendReport{
		On: x.from.Info().On, To: x.to.String(), Stream: fmt.Sprintf("0x%08x", x.stream), Size: x.Size, Sent: x.sent.Load(),
		Unsent: x.unsent.Load(), Seconds: took.Seconds(), Behind: x.behind.Seconds(),
	}
	if took > 0 {
		r.Rate = float64(r.Sent) / took.Seconds()
	}
	return r
}

// live shows the status line until stop is called.
func (x *sender) live(began time.Time) (stop func()) {
	var last uint64
	at := began
	return showLive(x.Live, func() string {
		sent, now := x.sent.Load(), time.Now()
		rate := float64(sent-last) / max(now.Sub(at).Seconds(), 1e-3)
		last, at = sent, now
		line := fmt.Sprintf("%.0f s  %d sent, %.0f a second, to %s", now.Sub(began).Seconds(), sent, rate, x.to)
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

// ParseTo parses a destination: a group, an address, or "caller", for which it returns the zero Addr.
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
