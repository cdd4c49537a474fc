// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"time"

	"causeway/ibside/ib"
	"causeway/ibside/stamp"
)

// ListenConfig says what to receive, and for how long.
type ListenConfig struct {
	Groups   []Group
	Call     netip.Addr    // a sender that waits to be called; the zero Addr: none
	CallQPN  ib.QPN        // its queue pair
	Count    uint64        // end after so many different intact messages; 0: unlimited
	Duration time.Duration // 0: unlimited
	Idle     time.Duration // end after that time without a message; 0: unlimited
	Expect   uint64        // different intact messages
	// AnySource: a stream is its sender's, whatever address and queue pair its messages come from: a bridge's that has
	// taken over from another's.
	AnySource bool

	Ready func(Info, []string) error // called once the groups are joined
	Live  *os.File                   // a terminal for the status line; nil: none
}

// A ListenReport is what was received.
type ListenReport struct {
	On      string         `json:"on"`
	Seconds float64        `json:"seconds"`
	Sum     StreamReport   `json:"sum"`
	Streams []StreamReport `json:"streams"`
	Rest
	Rejected map[string]uint64 `json:"rejected"` // packets that were no message for this endpoint, by reason
	Expect   uint64            `json:"expect,omitempty"`
	Met      bool              `json:"met"` // Expect was reached
}

// callEvery is how often a listener calls until it receives something.
const callEvery = 500 * time.Millisecond

// Listen receives until a limit of l is reached, or ctx ends.
func Listen(ctx context.Context, c Config, l ListenConfig) (r ListenReport, err error) {
	t := newTally()
	t.anySource = l.AnySource
	c.OnMessage = t.note
	e, err := open(c)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	var joined []string
	for _, g := range l.Groups {
		to, err := e.Join(ctx, g, true)
		if err != nil {
			return r, err
		}
		joined = append(joined, to.String())
	}
	var sender Destination
	if l.Call.IsValid() {
		if sender, err = e.Resolve(ctx, l.Call, l.CallQPN); err != nil {
			return r, err
		}
	}
	began := time.Now()
	if err = l.Ready(e.Info(), joined); err != nil {
		return r, err
	}
	stop := showLive(l.Live, func() string { return t.line(time.Since(began)) })
	err = l.await(ctx, e, t, sender)
	stop()
	return l.report(e, t, time.Since(began)), err
}

// await waits for the end, and calls the sender, if any, until it sends.
func (l *ListenConfig) await(ctx context.Context, e Endpoint, t *tally, sender Destination) error {
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
		intact, last := t.progress()
		if last.IsZero() {
			last = began
			if sender != nil && time.Since(called) >= callEvery {
				called = time.Now()
				if err := call(sender); err != nil {
					return err
				}
			}
		}
		if l.Count > 0 && intact >= l.Count || l.Idle > 0 && time.Since(last) >= l.Idle {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-e.Done():
			return fmt.Errorf("%s: it has gone", e.Info().On)
		case <-tick.C:
		}
	}
}

// call asks a sender for messages.
func call(sender Destination) error {
	if err := sender.Send(stamp.Message(callNumber, stamp.Len)); err != nil && !errors.Is(err, errFull) {
		return err
	}
	return nil
}

func (l *ListenConfig) report(e Endpoint, t *tally, took time.Duration) ListenReport {
	r := ListenReport{On: e.Info().On, Seconds: took.Seconds(), Rejected: e.Rejected(), Expect: l.Expect}
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
		{r.BadStamp, "more had a damaged stamp: their streams are not known"},
		{r.Foreign, "messages were received that are not of \"causeway send\""},
		{r.Untracked, fmt.Sprintf("were of more than %d streams, and were not counted further", maxStreams)},
	} {
		if x.n > 0 {
			fmt.Fprintf(w, "%d %s\n", x.n, x.what)
		}
	}
	if why := reasons(r.Rejected); why != "" {
		fmt.Fprintf(w, "rejected, because not for this listener or damaged: %s\n", why)
	}
	if !r.Met {
		fmt.Fprintf(w, "%d different messages were expected, %d were received intact\n", r.Expect, r.Sum.Whole)
	}
}
