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
	"time"

	"causeway/ibside/ib"
)

// Listening says what to listen to, and for how long.
type Listening struct {
	Groups   []Group
	Call     netip.Addr    // a sender that waits to be called; the zero Addr: none
	CallQPN  ib.QPN        // its queue pair
	Count    uint64        // end after so many different messages that are whole; 0: no end
	Duration time.Duration // 0: no end
	Idle     time.Duration // end after that time without a message; 0: no end
	Expect   uint64        // different messages that are whole; 0: no matter

	Ready func(Where, []string) error // is told where it is, and which groups it has joined
	Live  *os.File                    // a terminal for the live line; nil: none
}

// A ListenReport is what came.
type ListenReport struct {
	On      string         `json:"on"`
	Seconds float64        `json:"seconds"`
	Sum     StreamReport   `json:"sum"`
	Streams []StreamReport `json:"streams"`
	Rest
	Refused map[string]uint64 `json:"refused"` // came to this end and was no message for it, by reason
	Expect  uint64            `json:"expect,omitempty"`
	Met     bool              `json:"met"` // what was expected came
}

// callEvery is how often a listener calls until something comes.
const callEvery = 500 * time.Millisecond

// Listen listens until it has had enough, or ctx ends.
func Listen(ctx context.Context, c Config, l Listening) (r ListenReport, err error) {
	t := newTally()
	c.OnMessage = t.note
	e, err := Open(c)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	var joined []string
	for _, g := range l.Groups {
		way, err := e.Join(ctx, g, true)
		if err != nil {
			return r, err
		}
		joined = append(joined, way.String())
	}
	var caller Way
	if l.Call.IsValid() {
		if caller, err = e.Find(ctx, l.Call, l.CallQPN); err != nil {
			return r, err
		}
	}
	began := time.Now()
	if err = l.Ready(e.Where(), joined); err != nil {
		return r, err
	}
	stop := showLive(l.Live, func() string { return t.line(time.Since(began)) })
	err = l.await(ctx, e, t, caller)
	stop()
	return l.report(e, t, time.Since(began)), err
}

// await waits for the end, and calls.
func (l *Listening) await(ctx context.Context, e End, t *tally, caller Way) error {
	if l.Duration > 0 {
		limited, cancel := context.WithTimeout(ctx, l.Duration)
		defer cancel()
		ctx = limited
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	began := time.Now()
	var called time.Time
	for {
		came, last := t.came()
		if last.IsZero() {
			last = began
			if caller != nil && time.Since(called) >= callEvery {
				called = time.Now()
				if err := call(caller); err != nil {
					return err
				}
			}
		}
		if l.Count > 0 && came >= l.Count || l.Idle > 0 && time.Since(last) >= l.Idle {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-e.Gone():
			return fmt.Errorf("%s: it has gone", e.Where().On)
		case <-tick.C:
		}
	}
}

// call asks a sender for messages.
func call(w Way) error {
	b := make([]byte, HeadLen)
	Head{Stream: rand.Uint32(), Number: callNumber, Sent: time.Now()}.put(b)
	if err := w.Send(b); err != nil && !errors.Is(err, ErrFull) {
		return err
	}
	return nil
}

func (l *Listening) report(e End, t *tally, took time.Duration) ListenReport {
	r := ListenReport{On: e.Where().On, Seconds: took.Seconds(), Refused: e.Refused(), Expect: l.Expect}
	r.Sum, r.Streams, r.Rest = t.report()
	r.Met = r.Sum.Whole >= l.Expect
	return r
}

// Write writes the report as text.
func (r ListenReport) Write(w io.Writer) {
	fmt.Fprintf(w, "%s: messages %d, streams %d, in %.2f s\n", r.On, r.Sum.Received, len(r.Streams), r.Seconds)
	for _, s := range r.Streams {
		fmt.Fprintf(w, "stream %s from %s QPN %s to %s:\n", s.Stream, s.From, s.QPN, s.To)
		s.write(w)
	}
	for _, x := range []struct {
		n    uint64
		what string
	}{
		{r.Headless, "more were damaged in their heads: nobody can say of which stream"},
		{r.Foreign, "messages came that no \"causeway send\" has sent"},
		{r.Untracked, fmt.Sprintf("were of more than %d streams, and were not looked at", maxStreams)},
	} {
		if x.n > 0 {
			fmt.Fprintf(w, "%d %s\n", x.n, x.what)
		}
	}
	if why := reasons(r.Refused); why != "" {
		fmt.Fprintf(w, "refused, because not for this listener or damaged on the way: %s\n", why)
	}
	if !r.Met {
		fmt.Fprintf(w, "%d different messages were expected, %d came whole\n", r.Expect, r.Sum.Whole)
	}
}
