// SPDX-License-Identifier: Apache-2.0

package punt_test

import (
	"errors"
	"testing"

	"causeway/lcore/frame"
	"causeway/lcore/manage/punt"
)

type worker struct {
	sent int
	full bool
	port uint8
}

func (w *worker) TakePunted() []punt.Frame { return nil }

func (w *worker) Send(port uint8, _ []byte) error {
	if w.full {
		return errors.New("full")
	}
	w.sent++
	w.port = port
	return nil
}

// TestWorkers checks that frames go to the worker that is named, and that counters do not change after they were read.
func TestWorkers(t *testing.T) {
	a, b := &worker{}, &worker{full: true}
	w := punt.NewWorkers([]punt.Worker{a, b})
	if w.Len() != 2 || !w.Send(0, nil) || w.Send(1, nil) || a.sent != 1 {
		t.Errorf("%d workers, the first sent %d", w.Len(), a.sent)
	}
	if second := w.By(1); !second.Send(0, nil) || a.port != 1 || !w.Send(0, nil) || a.port != 0 {
		t.Errorf("sent by port %d", a.port)
	}
	w.By(1).NotForUs()
	w.Malformed("arp_bad")
	c := w.Counters()
	w.Malformed("arp_bad")
	if c.SendFailed != 1 || c.NotForUs != 1 || c.Malformed["arp_bad"] != 1 || w.Counters().Malformed["arp_bad"] != 2 {
		t.Errorf("%+v, then %+v", c, w.Counters())
	}
}

// TestVID checks that VID returns the VLAN of a tagged frame, and 0 for another.
func TestVID(t *testing.T) {
	for _, vid := range []uint16{0, 100} {
		f, fault := frame.Open(frame.AppendARP(nil, frame.Link{MAC: frame.MAC{2}, VID: vid}, frame.Broadcast, frame.ARPFields{}))
		if fault != "" || punt.VID(f) != vid {
			t.Errorf("VLAN %d is read as %d, fault %q", vid, punt.VID(f), fault)
		}
	}
}
