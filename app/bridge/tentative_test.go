// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"causeway/config"
)

// taskTentative checks that a change goes back by itself unless it is confirmed, that no other one is made meanwhile,
// and that the bridge's end forgets it.
func taskTentative() (string, error) {
	h, err := built()
	if err != nil {
		return "", err
	}
	ctx, long := context.Background(), time.Hour
	add := func(within time.Duration, port int) (config.Changes, error) {
		return h.Tentatively(ctx, within, func(ctx context.Context) (config.Changes, error) {
			return h.Add(ctx, fmt.Sprintf("[[service]]\nport = %d\n", port))
		})
	}
	err = running(h, func() error {
		was := h.Config()
		if err := errors.Join(tentativeEnds(h, add), tentativeConfirmed(h, add), tentativeUndone(h, add)); err != nil {
			return err
		}
		if changes, err := add(long, 9); err != nil || len(changes) != 1 { // pending at the end
			return fmt.Errorf("%v %w", changes, err)
		}
		if _, err := add(long, 10); !errors.Is(err, errPending) {
			return fmt.Errorf("a second one: %w", err)
		}
		if _, err := h.Reload(ctx, was); !errors.Is(err, errPending) {
			return fmt.Errorf("a reload: %w", err)
		}
		if _, err := h.Tentatively(ctx, long, h.Undo); !errors.Is(err, errPending) {
			return fmt.Errorf("an undo that waits, too: %w", err)
		}
		if err := errors.Join(h.Drain(ctx), h.Resume(ctx)); err != nil {
			return err
		}
		if n := len(config.Diff(was, h.Config())); n != 2 { // the confirmed one, and this
			return fmt.Errorf("%d changes at the end", n)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	if _, is := h.Pending(); is {
		return "", errors.New("the change is pending when the bridge has ended")
	}
	return "there and back", nil
}

// tentativeEnds waits for a change to go back.
func tentativeEnds(h *Bridge, add func(time.Duration, int) (config.Changes, error)) error {
	was, older := h.Config(), h.before
	if _, err := add(50*time.Millisecond, 7); err != nil {
		return err
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if _, is := h.Pending(); !is {
			break
		}
		if time.Now().After(deadline) {
			return errors.New("the change does not go back")
		}
	}
	if d := config.Diff(was, h.Config()); len(d) > 0 {
		return fmt.Errorf("after going back: %v", d)
	}
	if h.before != older {
		return errors.New("after going back, undo makes the change again")
	}
	if err := h.Confirm(context.Background()); err == nil {
		return errors.New("what has gone back was confirmed")
	}
	return nil
}

// tentativeConfirmed confirms a change, and checks that it stays, even if its time was over at the same moment.
func tentativeConfirmed(h *Bridge, add func(time.Duration, int) (config.Changes, error)) error {
	was := h.Config()
	_, err := add(time.Hour, 8)
	p := h.pending.Load()
	if err := errors.Join(err, h.Confirm(context.Background())); err != nil || p == nil {
		return fmt.Errorf("pending %v, %w", p, err)
	}
	if p.timer.Stop() {
		return errors.New("after confirm the time goes on")
	}
	h.goBack(p)
	if d := config.Diff(was, h.Config()); len(d) != 1 {
		return fmt.Errorf("after confirm: %v", d)
	}
	return nil
}

// tentativeUndone takes a pending change back, and checks that nothing is pending then.
func tentativeUndone(h *Bridge, add func(time.Duration, int) (config.Changes, error)) error {
	was := h.Config()
	_, err := add(time.Hour, 6)
	_, undo := h.Undo(context.Background())
	if _, is := h.Pending(); err != nil || undo != nil || is || len(config.Diff(was, h.Config())) > 0 {
		return fmt.Errorf("pending %v, %v after undo, %w", is, config.Diff(was, h.Config()), errors.Join(err, undo))
	}
	return nil
}

func TestTentative(t *testing.T) {
	out, err := task(t, "tentative")
	if err != nil {
		t.Fatal(err)
	}
	t.Log(out)
}
