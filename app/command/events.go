// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"strings"
	"time"

	"causeway/app/logs"
)

// eventsShown is how many of the last events are shown first, as tail does.
const eventsShown = 10

// streamEvents shows the last events, and each that comes. A client that is too slow for them is told how many it has
// lost; none is kept for it.
func streamEvents(ctx context.Context, c *Call, out Out) error {
	if c.Env.Logs == nil {
		return notAvailable("the log")
	}
	ctx, done, left := bounded(ctx, c, 0)
	defer done()
	for follower := c.Env.Logs.Follow(int(value(c, "last", uint64(eventsShown)))); ; {
		events, lost, err := follower.Next(ctx)
		if err != nil {
			return nil // it was to end
		}
		if lost > 0 {
			if err := out.Show(lostEvents(lost)); err != nil {
				return err
			}
		}
		for i := range events {
			if err := out.Show(eventResult(&events[i])); err != nil {
				return err
			}
			if left--; left == 0 { // not if it was 0: without a bound
				return nil
			}
		}
	}
}

func lostEvents(n uint64) Result {
	return Result{Parts: []Part{{Name: "lost", Value: n,
		Line: fmt.Sprintf("%s lost: they came faster than they were read", counted(int(n), "event"))}}}
}

// eventResult is the line of an event.
func eventResult(e *logs.Event) Result {
	level := strings.ToLower(e.Level.String())
	value := object{{"time", e.At.Format(time.RFC3339Nano)}, {"level", level}, {"name", e.Name}}
	if e.Values != nil {
		value = append(value, Pair{"details", e.Values})
	} else {
		value = append(value, Pair{"details", e.Details})
	}
	line := fmt.Sprintf("%s %-5s %s  %s", e.At.Format("15:04:05.000"), level, e.Name, e.Details)
	return Result{Parts: []Part{{Name: "event", Value: value, Line: strings.TrimRight(line, " ")}}}
}
