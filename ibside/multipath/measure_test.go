// SPDX-License-Identifier: Apache-2.0

package multipath

import (
	"sync/atomic"
	"testing"
	"time"

	"causeway/ibside/fabric"
	"causeway/ibside/ib"
)

// TestIsSilent: only a subnet administrator that can be asked is silent, and one that was stays so until it answers.
func TestIsSilent(t *testing.T) {
	now := time.Now()
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for _, c := range []struct {
		name string
		h    health
		want bool
	}{
		{"it answers", health{since: ago(time.Hour), sm: ago(time.Second)}, false},
		{"it does not", health{since: ago(time.Hour), sm: ago(smSilence + 1)}, true},
		{"the port is down", health{down: "cut", since: ago(time.Hour), sm: ago(2 * time.Hour)}, false},
		{"the port is down, it did not answer before", health{down: "cut", since: ago(time.Hour), sm: ago(2 * time.Hour), silent: true}, true},
		{"the port has come up", health{since: ago(time.Second), sm: ago(time.Hour)}, false},
		{"the port has come up, it did not answer before", health{since: ago(time.Second), sm: ago(time.Hour), silent: true}, true},
		{"the port came up, and it does not answer", health{since: ago(smSilence + 1), sm: ago(time.Hour)}, true},
	} {
		if got := c.h.isSilent(now); got != c.want {
			t.Errorf("%s: silent is %v", c.name, got)
		}
	}
}

// TestRefusingSubnetManager: a refusal is an answer.
func TestRefusingSubnetManager(t *testing.T) {
	r := newRig(t, Rule{})
	p := fabric.NewMADPort(r.fabrics[0].SA().HCA(), ib.ClassSA)
	var refused atomic.Int32
	r.ended.Go(func() {
		mad := make([]byte, ib.MADLen)
		for {
			from, sl, err := p.ReceiveMAD(mad)
			if err != nil {
				return
			}
			h := ib.MAD(mad).Fields()
			h.Method, h.Status = ib.MethodGetResp, ib.SAStatusDenied
			ib.PutMAD(mad, h)
			if err := p.SendMAD(from, sl, mad); err == nil {
				refused.Add(1)
			}
		}
	})
	time.Sleep(smSilence + time.Second) // since its last answer that was none
	within(t, patience, "some refusals, and no silence", func() bool { return refused.Load() >= 3 && !r.port.Reports()[0].SMSilent })
	p.Close()
}
