// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"bytes"
	"errors"
	"log/slog"
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

// stateReader is a device whose port is in a state.
type stateReader struct{ state string }

func (r *stateReader) readPort() (PortInfo, error) {
	return PortInfo{State: r.state, Active: r.state == stateActive}, nil
}

// TestPortState checks that the port tells its state, by events and without, and that the log has each change once.
func TestPortState(t *testing.T) {
	var log bytes.Buffer
	dev := &stateReader{stateActive}
	p := newTestPort(Config{Device: "mlx5_0", Port: 1, Log: slog.New(slog.NewTextHandler(&log, nil))})
	p.attributes.dev = dev
	p.lookAtPort()
	for _, c := range []struct {
		state string
		event eventKind // "": none
		down  string
		line  string
	}{
		{stateActive, eventPKey, "", ""},
		{"DOWN", eventPortDown, "the port mlx5_0:1 is DOWN; check its cable, and the port at the other end", "level=WARN msg=ib_link_down port=mlx5_0:1 state=DOWN"},
		{"DOWN", eventPKey, "the port mlx5_0:1 is DOWN; check its cable, and the port at the other end", ""},
		{"INIT", "", "the port mlx5_0:1 is INIT: no subnet manager has set it up; start one, such as opensm", "level=WARN msg=ib_link_down port=mlx5_0:1 state=INIT"},
		{stateActive, eventPortUp, "", "level=INFO msg=ib_link_up port=mlx5_0:1"},
	} {
		log.Reset()
		if dev.state = c.state; c.event == "" {
			p.lookAtPort()
		} else {
			p.handleEvent(event{Kind: c.event, Worker: -1})
		}
		if got := p.Info().Down; got != c.down {
			t.Errorf("%s: %q, want %q", c.state, got, c.down)
		}
		if said := log.String(); strings.Contains(said, "ib_link") != (c.line != "") || !strings.Contains(said, c.line) {
			t.Errorf("%s: the log has\n%s, want %q", c.state, said, c.line)
		}
		p.lookAtPort()
		if strings.Count(log.String(), "ib_link") > 1 {
			t.Errorf("%s: twice in\n%s", c.state, &log)
		}
	}
}
