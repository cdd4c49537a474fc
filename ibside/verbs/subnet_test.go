// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/ibside/messages"
	"causeway/ibside/sa"
)

// fakeAdministration answers as a test sets and records events.
type fakeAdministration struct {
	err    error
	left   []ib.GID
	events []sa.Event
}

func (s *fakeAdministration) Join(_ context.Context, f ib.MCMemberFields) (ib.MCMemberFields, error) {
	f.MLID, f.SL, f.HopLimit, f.MTU, f.Rate = 0xc001, 3, 7, 4, 3
	return f, s.err
}

func (s *fakeAdministration) Leave(_ context.Context, mgid ib.GID) error {
	s.left = append(s.left, mgid)
	return s.err
}

func (s *fakeAdministration) Path(context.Context, ib.GID, ib.PKey) (ibside.Path, error) {
	return ibside.Path{LID: 9, LMC: 3, SL: 2, MTU: 4, Rate: 3, HopLimit: 1}, s.err
}

func (s *fakeAdministration) Event(e sa.Event) { s.events = append(s.events, e) }
func (s *fakeAdministration) Close() error     { return nil }

// newTestPort returns a port without a device.
func newTestPort(c Config) *Port {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return newPort(c)
}

var testMGID = gid("ff12:401b:ffff::1")

// TestAdministration joins, queries and leaves through subnet administration.
func TestAdministration(t *testing.T) {
	p, a := newTestPort(Config{}), &fakeAdministration{}
	p.workers = []*worker{{}}
	p.attributes.port = PortInfo{PKeys: []ib.PKey{0x8001, ib.PKeyDefault}, Mbps: 100000, Info: ibside.Info{MTU: 5}}
	p.useAdministration(a)
	send := ibside.Join{MGID: testMGID, QKey: groupQKey, PKey: ib.PKeyDefault}
	want := ibside.Membership{MLID: 0xc001, SL: 3, HopLimit: 7, MTU: 4, Rate: 3, QKey: groupQKey}
	if m, err := p.Join(t.Context(), send); err != nil || m != want {
		t.Fatalf("joined as %+v, %v, want %+v", m, err, want)
	}
	path := ibside.Path{LID: 9, LMC: 3, SL: 2, MTU: 4, Rate: 3, HopLimit: 1}
	if got, err := p.Path(t.Context(), gid("fe80::9"), 0); got != path || err != nil {
		t.Errorf("path: %+v %v", got, err)
	}
	p.attributes.port.GRH, p.attributes.port.Mbps, p.attributes.port.MTU = true, 10000, 3 // its own limits
	path.GRH, path.Rate, path.MTU = true, 0, 3
	if got, err := p.Path(t.Context(), gid("fe80::9"), 0); got != path || err != nil {
		t.Errorf("path from another port: %+v %v", got, err)
	}
	if err := p.Leave(t.Context(), testMGID); err != nil || !slices.Equal(a.left, []ib.GID{testMGID}) {
		t.Errorf("left %v, %v", a.left, err)
	}
	for name, j := range map[string]ibside.Join{
		"worker 1":        {MGID: testMGID, PKey: ib.PKeyDefault, Worker: 1},
		"a P_Key":         {MGID: testMGID, PKey: 0x8002},
		"unicast":         {MGID: gid("fe80::1"), PKey: ib.PKeyDefault},
		"no MGID of IB's": {MGID: gid("239.1.2.3"), PKey: ib.PKeyDefault},
	} {
		if _, err := p.Join(t.Context(), j); err == nil {
			t.Errorf("joined with %s", name)
		}
	}
	a.err = errors.New("rejected")
	if _, err := p.Join(t.Context(), send); !errors.Is(err, a.err) || p.counters().JoinErrors != 1 {
		t.Errorf("rejected: %v, %+v", err, p.counters())
	}
	if _, err := p.Path(t.Context(), gid("fe80::9"), 0); !errors.Is(err, a.err) {
		t.Errorf("path: %v", err)
	}
}

// TestAdministrationOnEthernet checks that a port on Ethernet, where there is no subnet manager, has none.
func TestAdministrationOnEthernet(t *testing.T) {
	p := newTestPort(Config{})
	p.attributes.port.Ethernet = true
	if p.administer() != ibside.OpenPort(p) {
		t.Error("a port on Ethernet has subnet administration")
	}
	if path, err := p.Path(t.Context(), gid("fe80::9"), 0); path != (ibside.Path{}) || err != nil {
		t.Errorf("path: %+v %v", path, err)
	}
}

// TestNoSubnetClient tests a port whose SA cannot be reached: the port works as before, and one log line says so.
func TestNoSubnetClient(t *testing.T) {
	var log bytes.Buffer
	p := newTestPort(Config{Log: slog.New(slog.NewTextHandler(&log, nil))})
	got := p.administer()
	if _, messages := got.(ibside.Messenger); messages || got != ibside.OpenPort(p) {
		t.Errorf("port %T, which sends messages: %t", got, messages)
	}
	if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "no_subnet_client") || !strings.Contains(text, "rdma_cm joins groups") {
		t.Errorf("the log: %s", text)
	}
}

// TestNoMessages: a port whose device for MADs cannot be opened says why, and sends no message by what is not there.
func TestNoMessages(t *testing.T) {
	info := PortInfo{Device: "mlx5_77", Num: 1}
	p := &administeredPort{newTestPort(Config{}), nil, messages.New(messages.Config{
		Open: func() (messages.Transport, error) { return openMessages(&info) }, News: func() uint64 { return 0 },
	})}
	if err := p.ReceiveMessages(func(ib.LID, []byte) {}); err == nil || !strings.Contains(err.Error(), "port mlx5_77:1: ") {
		t.Errorf("messages are received: %v", err)
	}
	if err := p.SendMessage(gid("fe80::9"), nil); err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("a message is sent: %v", err)
	}
}
