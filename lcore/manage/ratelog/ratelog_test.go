// SPDX-License-Identifier: Apache-2.0

package ratelog_test

import (
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"causeway/lcore/manage/ratelog"
)

// TestAllow checks that each event is limited separately, in each second.
func TestAllow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := ratelog.New(slog.New(slog.NewTextHandler(io.Discard, nil)))
		n := map[string]int{}
		for range 10 {
			for range 100 {
				for event, most := range map[string]int{"a": 1, "b": 7} {
					if l.Allow(event, most) {
						n[event]++
					}
				}
			}
			time.Sleep(time.Second)
		}
		if n["a"] != 10 || n["b"] != 70 {
			t.Errorf("allowed %v", n)
		}
	})
}
