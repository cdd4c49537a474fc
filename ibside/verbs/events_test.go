// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"causeway/ibside"
	"causeway/ibside/ib"
)

// TestPKeyLost changes a port's P_Key table under the bridge, whose P_Key is the second.
func TestPKeyLost(t *testing.T) {
	for _, c := range []struct {
		name  string
		pkeys []ib.PKey
		lost  bool
	}{
		{"the same", []ib.PKey{0xffff, 0x8001}, false},
		{"one more", []ib.PKey{0xffff, 0x8001, 0x8002}, false},
		{"another first", []ib.PKey{0x7fff, 0x8001}, false},
		{"moved", []ib.PKey{0xffff, 0x8002, 0x8001}, true},
		{"a limited member", []ib.PKey{0xffff, 0x0001}, true},
		{"gone", []ib.PKey{0xffff}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var seen []error
			var text bytes.Buffer
			p := newTestPort(Config{
				Device: "mlx5_0", Port: 1, PKey: 0x8001, OnLoss: func(err error) { seen = append(seen, err) },
				Log: slog.New(slog.NewTextHandler(&text, nil)),
			})
			p.attributes.port = PortInfo{PKeys: c.pkeys, Info: ibside.Info{PKeyIndex: 1}}
			p.checkPKey()
			if lost := len(seen) == 1 && errors.Is(seen[0], ErrDeviceGone); lost != c.lost || !lost && seen != nil {
				t.Errorf("losses %v; want one: %v", seen, c.lost)
			}
			if n := strings.Count(text.String(), "msg=pkey_lost port=mlx5_0:1 pkey=0x8001 index=1"); n != 0 != c.lost || n > 1 {
				t.Errorf("the log has it %d times:\n%s", n, text.String())
			}
		})
	}
}

// TestLossOf checks that the loss of the device, and no lesser event, is an error that names the device.
func TestLossOf(t *testing.T) {
	for _, kind := range []eventKind{eventDeviceGone, eventDeviceFatal, eventCQError, eventSRQError, eventPKeyLost} {
		if err := lossOf("mlx5_0", kind); !errors.Is(err, ErrDeviceGone) || !strings.Contains(err.Error(), "mlx5_0") {
			t.Errorf("%s: %v", kind, err)
		}
	}
	for _, kind := range []eventKind{eventPortDown, eventGID, eventPKey, eventQPFatal, eventOther} {
		if err := lossOf("mlx5_0", kind); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// TestSAEvents checks that subnet administration gets the events after which the SA may have lost its registrations.
func TestSAEvents(t *testing.T) {
	p, a := newTestPort(Config{}), &fakeAdministration{}
	p.useAdministration(a)
	p.handleEvent(event{Kind: eventQPFatal, Worker: -1})
	p.handleEvent(event{Kind: eventOther, Worker: -1})
	if a.events != nil {
		t.Errorf("told of %v", a.events)
	}
	for kind, want := range saEvents {
		if want == "" || kind == eventGID {
			t.Errorf("%s is told as %q", kind, want)
		}
	}
}
