// SPDX-License-Identifier: Apache-2.0

package manage_test

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// TestLinkUp checks that the groups are reported and the addresses announced at once when the Ethernet port's link is
// there again, and repeated as at the start; and not again after that.
func TestLinkUp(t *testing.T) {
	bubble(t, "up again", func(t *testing.T) {
		up := make(chan struct{}, 1)
		s := start(t, func(c *manageConfig, d *ibPort) {
			with(toIB(group4), toIB(group6))(c, d)
			c.LinkUp = up
		})
		sleep(time.Minute)
		s.w.take()
		s.w.takeTold()
		for range 2 {
			up <- struct{}{}
			const soon = 10 * time.Millisecond // turns of the loop
			const all = "10.9.0.254 10.9.0.7 fd09::7 fd09::fe"
			if got := strings.Fields(s.told(soon)); strings.Join(slices.Sorted(slices.Values(got)), " ") != all {
				t.Errorf("announced %q", got)
			}
			s.wantReports("at once", join4, join6)
			sleep(time.Minute)
			s.wantReports("once more", join4, join6)
			if n := len(s.w.takeTold()); n != 6 { // the rest of two for each IPv4 address, and three for each IPv6 address
				t.Errorf("%d more announcements", n)
			}
		}
	})
}
