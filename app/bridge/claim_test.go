// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"causeway/config"
)

// claimant is a bridge that wants an interface.
type claimant struct {
	cfg *config.Config
	teardown
}

func (c *claimant) claim() error { return claimPort(c.cfg, &c.teardown) }

// TestClaimPort checks that only one of two bridges in one process gets an interface.
func TestClaimPort(t *testing.T) {
	own := fmt.Sprintf("claim%d", os.Getpid())
	with := func(driver, arg string, vlan uint16) *claimant {
		cfg := &config.Config{}
		cfg.RoCE.Port, cfg.RoCE.VLAN = config.EthPort{Driver: driver, Arg: arg}, vlan
		return &claimant{cfg: cfg}
	}
	first := with("af_packet", own, 0)
	if err := first.claim(); err != nil {
		t.Fatal(err)
	}
	for _, second := range []*claimant{with("af_packet", own, 0), with("tap", "new0,remote="+own, 0)} {
		err := second.claim()
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("another causeway (process %d) has it", os.Getpid())) {
			t.Errorf("%v: %v", second.cfg.RoCE.Port, err)
		}
	}
	for _, other := range []*claimant{
		with("af_packet", own, 7), with("af_packet", own+"b", 0), with("tap", own, 0), with("tap", own, 0), with("ring", "", 0), with("memif", own, 0),
	} {
		if err := other.claim(); err != nil {
			t.Error(err)
		}
		defer func() {
			if err := other.run(); err != nil {
				t.Error(err)
			}
		}()
	}
	if err := first.run(); err != nil {
		t.Error(err)
	}
	again := with("af_packet", own, 0)
	if err := again.claim(); err != nil {
		t.Errorf("after the first has ended: %v", err)
	}
	if err := again.run(); err != nil {
		t.Error(err)
	}
}
