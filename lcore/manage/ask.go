// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"context"
	"math/rand/v2"
	"time"
)

// ask puts a question to the subnet administrator in a goroutine of its own, again with back-off until it
// succeeds or ctx ends. Who waits for the next try does not keep others from theirs.
func (l *Loop) ask(ctx context.Context, question func(context.Context) error) {
	l.asking.Go(func() { l.persist(ctx, l.together, question) })
}

// persist asks again and again, each time with one of the slots.
func (l *Loop) persist(ctx context.Context, slots chan struct{}, question func(context.Context) error) {
	retry(ctx, func() error {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		defer func() { <-slots }()
		asking, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		return question(asking)
	})
}

// askTimeout bounds one question to the subnet administrator, its retransmissions included.
const askTimeout = 5 * time.Second

// Back-off between two tries of what did not succeed.
const (
	leastWait = 100 * time.Millisecond
	mostWait  = 10 * time.Second
)

// retry calls f until it succeeds or ctx ends, after 0.1 s, 0.2 s … at most 10 s; each a quarter shorter or longer by
// chance, so that what failed together, on all bridges of a subnet, does not come back together.
func retry(ctx context.Context, f func() error) {
	for wait := leastWait; f() != nil && ctx.Err() == nil; wait = min(2*wait, mostWait) {
		pause(ctx, wait*3/4+rand.N(wait/2))
	}
}

// pause waits until ctx ends, at most d.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
