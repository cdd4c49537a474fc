// SPDX-License-Identifier: Apache-2.0

package main

import (
	"regexp"
	"strings"
	"testing"
)

// wallClock matches what reads the wall clock, or waits by it: in Go, what makes a time of a number, or a number of a
// time, and so loses the reading of the monotonic clock that time.Now has; in C, the clock and the waits that have no
// other.
var wallClock = map[string]*regexp.Regexp{
	".go": regexp.MustCompile(`\btime\.Unix(Milli|Micro)?\(|\.Unix(Milli|Micro|Nano)?\(\)|\.Round\(0\)`),
	".c":  regexp.MustCompile(`\bCLOCK_REALTIME\b|\bgettimeofday\(|\btime\(NULL\)|\b(sem_timedwait|pthread_\w*timed\w*)\(`),
}

// wallClockFor are the files that need the time of day, with the reason.
var wallClockFor = map[string]string{
	"fleet/etcd/published.go":      "two fleets of one name, on machines that know nothing of each other, are ordered by when they were founded",
	"app/bridge/rivals/judge.go":   "bridges that come at once, and know nothing of each other, are ordered by when they came",
	"app/web/metrics.go":           "a metric is the time of the start",
	"app/fleettest/arrivals.go":    "captures have the time of day",
	"app/fleettest/capture.go":     "captures have the time of day",
	"ibside/stamp/stamp.go":        "messages have the time of day, because they cross between machines",
	"ibside/ib/erf.go":             "captures have the time of day",
	"ibside/ib/erftest/erftest.go": "captures have the time of day",
}

// TestClocks checks that nothing measures or waits by the wall clock. An operator or NTP may step it at any time, by
// years.
func TestClocks(t *testing.T) {
	used := map[string]bool{}
	for _, s := range sources(t, ".go", ".c", ".h") {
		folder, _, _ := strings.Cut(s.path, "/")
		if strings.HasSuffix(s.path, "_test.go") || in(s.path, "app/e2e") || in(s.path, "ibside/sa/opensmtest") || folder == "perf" {
			continue
		}
		re := wallClock[".c"]
		if strings.HasSuffix(s.path, ".go") {
			re = wallClock[".go"]
		}
		found := re.FindString(s.text)
		if used[s.path] = found != ""; found != "" && wallClockFor[s.path] == "" {
			t.Errorf("%s uses %s. Times are measured by the monotonic clock, which no step of the system's time changes: time.Since of a "+
				"time.Now, CLOCK_MONOTONIC. What needs the time of day belongs into wallClockFor, with the reason", s.path, found)
		}
	}
	for path := range wallClockFor {
		if !used[path] {
			t.Errorf("%s does not use the wall clock any more", path)
		}
	}
}
