// SPDX-License-Identifier: Apache-2.0

package proxyqps

import (
	"time"

	"causeway/lcore/manage/ratelog"
)

const (
	// ceilingTime is how long a device counts as one that makes no more: other programs use its queue pairs, too, and end.
	ceilingTime = 10 * time.Second
	// ceilingLine is the least time between two lines of the log about the same number.
	ceilingLine = 10 * time.Minute
)

// A ceiling is how many proxy QPs a device makes, where those are fewer than the limit. It is found out by trying: what
// a device says of itself is for all programs together, and its memory may end before.
type ceiling struct {
	limit  int
	log    *ratelog.Logger
	device int       // how many the device has made
	until  time.Time // when more are tried again
	logged time.Time
	said   int // device, as logged
}

// most returns how many proxy QPs there can be: the limit, or what the device makes.
func (c *ceiling) most(now time.Time) int {
	if now.Before(c.until) {
		return min(c.limit, c.device)
	}
	return c.limit
}

// errFull says why there is no room for another proxy QP.
func (c *ceiling) errFull(now time.Time) error {
	if most := c.most(now); most < c.limit {
		return errDevice(most)
	}
	return errTotal(c.limit)
}

// reached notes that the device makes no more than so many, as the error says: so nobody is promised what it will not
// make, and idle proxy QPs make room. Where others are still under way, they will tell the number to log.
func (c *ceiling) reached(made int, othersUnderWay bool, err error, now time.Time) {
	c.device, c.until = made, now.Add(ceilingTime)
	if othersUnderWay || c.said == c.device && now.Sub(c.logged) < ceilingLine {
		return
	}
	c.logged, c.said = now, c.device
	c.log.Warn("proxy_qps_short", "made", c.device, "limit", c.limit, "error", err,
		"note", "the InfiniBand device makes no more queue pairs: lower [workers] proxy_qps, or let other programs on it have fewer")
}
