// SPDX-License-Identifier: Apache-2.0

package fleettest

import (
	"fmt"
	"regexp"
	"strings"
)

var (
	memberRow = regexp.MustCompile(`(?m)^\S+ \(this\) .*? \d+ +(\d+) +(\d+) +(?:\S*::\S* +)?\d+ `)
	openNote  = regexp.MustCompile(`This bridge has (\d+) host and (\d+) group shards open`)
	hostRow   = regexp.MustCompile(`(?m)^host/\d+ +\S+ +(\S+).*$`)
)

// Passed reports whether a member forwards the shards that the assignment gives it, and no others, by what it says to "show fleet" and
// "show shards": an owner whose shards have passed goes on for a moment, and no next assignment tells when that is over.
func Passed(member, fleet, shards string) bool {
	given, open := memberRow.FindStringSubmatch(fleet), openNote.FindStringSubmatch(strings.Join(strings.Fields(fleet), " "))
	if given == nil || open == nil || fmt.Sprint(given[1:]) != fmt.Sprint(open[1:]) || strings.Contains(fleet, "Shards pass") {
		return false
	}
	for _, row := range hostRow.FindAllStringSubmatch(shards, -1) {
		if (row[1] == member) != strings.Contains(row[0], " open") {
			return false
		}
	}
	return true
}
