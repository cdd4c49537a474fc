// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"causeway/ibside"
	"causeway/ibside/ib"
)

// TestPKeyAbsent checks that a port opens without its P_Key: it waits for it, as for all else.
func TestPKeyAbsent(t *testing.T) {
	p := newTestPort(Config{Device: "mlx5_0", Port: 1, PKey: 0x8001})
	p.attributes.port = PortInfo{PKeys: []ib.PKey{0x7fff}, Active: true, GIDs: []GIDEntry{{GID: gid("fe80::1")}}}
	if err := p.checkPort(); err != nil {
		t.Fatal(err)
	}
	if own := p.Own(); !slices.Equal(own.PKeys, []ib.PKey{0x7fff}) {
		t.Errorf("the port tells of %v", own.PKeys)
	}
	if _, err := p.Join(t.Context(), ibside.Join{MGID: testMGID, PKey: 0x8001}); err == nil {
		t.Error("joined without the P_Key")
	}
	p.workers = []*worker{{free: []uint32{1}}}
	if _, _, err := p.CreateProxyQP(0, 0x8001, testQKey); err == nil || !strings.Contains(err.Error(), "mlx5_0:1 has no P_Key 0x8001, only [0x7fff]") {
		t.Errorf("a proxy QP: %v", err)
	}
}

// TestLossOf checks that the loss of the device, and no lesser event, is an error that names the device.
func TestLossOf(t *testing.T) {
	for _, kind := range []eventKind{eventDeviceGone, eventDeviceFatal, eventCQError, eventSRQError} {
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
