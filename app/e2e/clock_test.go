// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// clockSteps are what guest C's clock is set to, one after the other: seconds since 1970.
var clockSteps = []struct {
	name string
	to   string // for the shell; now is what the clock has
}{
	{"an hour ahead", "$((now + 3600))"},
	{"a day back", "$((now - 86400))"},
	{"the year 2100", "4102444800"},
	{"1970", "100000"},
	{"a minute back", "$((now - 60))"},
}

// TestClockStepped: the clock of the bridge's machine is stepped by up to a century, both ways, while messages cross.
// None is lost, nothing ages by it, and nothing waits for a time that is far away.
func TestClockStepped(t *testing.T) {
	a, c, _ := theSecondTopology(t)
	proof := proves(t, "Causeway in a guest: the clock stepped under traffic, by up to a century")
	if err := c.Must(within(t, stepTime), "cat /proc/uptime >/tmp/up && date +%s >/tmp/then"); err != nil {
		t.Fatal(err)
	}
	restore := "read up rest </tmp/up; read now rest </proc/uptime; date -s @$(($(cat /tmp/then) + ${now%.*} - ${up%.*}))"
	defer func() {
		if err := c.Must(within(t, stepTime), restore); err != nil {
			t.Error(err)
		}
	}()
	bridge := bridgeInGuest(t, c)
	host := Peer{Guest: a, IP: "10.9.0.1"}
	pingQPN(t, echoQPN, host, "10.9.0.7", unicast) // so that there is a proxy QP
	before := settled(t, bridge)
	for _, step := range clockSteps {
		t.Run(step.name, func(t *testing.T) {
			stepped := make(chan error, 1)
			ctx := within(t, stepTime)
			go func() { // while messages cross, and again to the same
				set := fmt.Sprintf("now=$(date +%%s); to=%s; date -s @$to; sleep .3; date -s @$to", step.to)
				stepped <- c.Must(ctx, set)
			}()
			for range 3 {
				pingQPN(t, echoQPN, host, "10.9.0.7", unicast+" --imm 0xcafe")
				proof.add(2 * len(mixedSizes))
			}
			if err := <-stepped; err != nil {
				t.Fatal(err)
			}
			pingQPN(t, echoQPN, host, "10.9.0.7", unicast)
			proof.add(2 * len(mixedSizes))
		})
	}
	moved := settled(t, bridge).Since(before)
	want := uint64(4 * len(clockSteps) * len(mixedSizes))
	for _, direction := range []string{roceToIB, ibToRoCE} {
		if got := moved.Of(direction, "packets_sent_total"); got != want || len(moved.Drops(direction)) > 0 {
			t.Errorf("%s: %d packets sent, want %d; dropped %v", direction, got, want, moved.Drops(direction))
		}
	}
	if log := bridge.Log(); strings.Contains(log, "level=ERROR") || strings.Contains(log, "host_silent") || strings.Contains(log, "proxy_qp_removed") {
		t.Errorf("it logged:\n%s", lastLines(log))
	}
	if err := bridge.Stop(within(t, stepTime)); err != nil {
		t.Error(errors.Join(errors.New("the bridge's end"), err))
	}
}
