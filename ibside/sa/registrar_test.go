// SPDX-License-Identifier: Apache-2.0

package sa_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"causeway/ibside/ib"
	"causeway/ibside/sa"
	"causeway/ibside/sa/opensmtest"
)

// quick configures a client that gives up soon, because its registrar tries again.
var quick = sa.Config{SMKey: 1, FirstWait: 50 * time.Millisecond, Tries: 2}

// patient configures a client whose requests succeed while there is an SM, on a busy machine too.
var patient = sa.Config{SMKey: 1, FirstWait: 50 * time.Millisecond}

// seldom makes a registrar's intervals so long that only what a test provokes happens.
func seldom() sa.RegistrarConfig {
	return sa.RegistrarConfig{
		Watch: time.Hour, Refresh: time.Hour, Spread: time.Millisecond, FirstWait: 20 * time.Millisecond, MaxWait: 100 * time.Millisecond,
	}
}

const testAlias ib.GUID = 0x02005efffe000001

// rig is a registrar with a registration of each kind.
type rig struct {
	*sa.Registrar
	t      *testing.T
	client *sa.Client
	other  *sa.Client // queries the SA
	events chan sa.Event

	mu      sync.Mutex
	changes []sa.Registration
}

func newRig(t *testing.T, s *opensmtest.Subnet, cfg sa.RegistrarConfig) *rig {
	t.Helper()
	r := &rig{t: t, client: s.Client("bridge", quick), other: s.Client("hosta", patient), events: make(chan sa.Event)}
	cfg.Events = r.events
	cfg.OnChange = func(g sa.Registration) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.changes = append(r.changes, g)
	}
	r.Registrar = sa.NewRegistrar(r.client, cfg)
	t.Cleanup(r.Close)
	port, _ := r.client.PortState()
	if _, err := r.SetAlias(t.Context(), 1, testAlias); err != nil {
		t.Fatal(err)
	}
	asAlias := group(gid("ff12::2"), ib.JoinFull)
	asAlias.PortGID = ib.GIDFromGUID(port.GID.Prefix(), testAlias)
	for _, f := range []ib.MCMemberFields{group(testMGID, ib.JoinFull), asAlias} {
		if _, err := r.Join(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Subscribe(t.Context(), ib.TrapGroupCreated); err != nil {
		t.Fatal(err)
	}
	return r
}

// await waits until so many registrations are in force.
func (r *rig) await(held int, why string) {
	r.t.Helper()
	for end := time.Now().Add(time.Minute); len(r.Registrations())-len(r.Lost()) != held; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("%s: not %d are in force, but %+v", why, held, r.Registrations())
		}
	}
}

// check queries the SA, from another host, for everything that is registered.
func (r *rig) check(when string) {
	r.t.Helper()
	t, port := r.t, r.port()
	alias := ib.GIDFromGUID(port.GID.Prefix(), testAlias)
	if path, err := r.other.Path(t.Context(), alias); err != nil || path.DLID != port.LID {
		t.Errorf("%s: alias: %+v, %v", when, path, err)
	}
	if all := members(t, r.other, testMGID); all[port.GID] != ib.JoinFull {
		t.Errorf("%s: members: %v", when, all)
	}
	if all := members(t, r.other, gid("ff12::2")); all[alias] != ib.JoinFull {
		t.Errorf("%s: members of the alias's group: %v", when, all)
	}
	mgid := gid(fmt.Sprintf("ff12::1:%x", time.Now().UnixNano()&0xffff))
	if _, err := r.other.Join(t.Context(), group(mgid, ib.JoinFull)); err != nil {
		t.Errorf("%s: %v", when, err)
	}
	awaitNotice(t, r.client, ib.TrapGroupCreated, mgid)
}

func (r *rig) port() ib.PortState {
	r.t.Helper()
	p, err := r.client.PortState()
	if err != nil {
		r.t.Fatal(err)
	}
	return p
}

// awaitChange waits for a change that is reported to OnChange.
func (r *rig) awaitChange(what string, want func(sa.Registration) bool) {
	r.t.Helper()
	for end := time.Now().Add(time.Minute); !r.sawChange(want); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("nobody was told: %s; %+v", what, r.changes)
		}
	}
}

// sawChange reports whether OnChange has got a change.
func (r *rig) sawChange(want func(sa.Registration) bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, g := range r.changes {
		if want(g) {
			return true
		}
	}
	return false
}

// TestSMRestart ends opensm as a crash would, and starts another without state. Only an event reports this.
func TestSMRestart(t *testing.T) {
	t.Parallel()
	s := opensmtest.Start(t)
	m := s.Manage("smhost")
	r := newRig(t, s, seldom())
	r.await(4, "at first")
	r.check("at first")
	m.Kill()
	m = s.Manage("smhost")
	if all := members(t, r.other, testMGID); len(all) != 0 {
		t.Errorf("the new SM has members from before: %v", all)
	}
	r.events <- sa.Reregister
	r.awaitChange("lost by the restart", func(g sa.Registration) bool { return !g.Held && g.Err.Error() == string(sa.Reregister) })
	r.await(4, "after the restart")
	if r.sawChange(func(g sa.Registration) bool { return errors.Is(g.Err, sa.RequestInvalid) }) {
		t.Error("an alias was to join a group before it was registered")
	}
	r.check("after the restart")

	m.Kill()
	r.events <- sa.SMChange
	r.await(0, "without an SM")
	r.awaitChange("unreachable", func(g sa.Registration) bool { return !g.Held && errors.Is(g.Err, sa.ErrUnreachable) })
	if lost := r.Lost(); len(lost) != 4 || lost[0].Err == nil {
		t.Errorf("lost: %+v", lost)
	}
	s.Manage("smhost")
	r.await(4, "by tries alone")
	r.check("by tries alone")
}

// TestSilentRestart restarts the SM without any event: the periodic registration repairs the loss.
func TestSilentRestart(t *testing.T) {
	t.Parallel()
	s := opensmtest.Start(t)
	m := s.Manage("smhost")
	cfg := seldom()
	cfg.Refresh = 300 * time.Millisecond
	r := newRig(t, s, cfg)
	m.Kill()
	m = s.Manage("smhost")
	time.Sleep(2 * cfg.Refresh)
	r.await(4, "after a while")
	r.check("after a while")
	m.Kill()
	r.await(0, "without an SM")
}

// TestFailover has two subnet managers. The port's state says when the other is master.
func TestFailover(t *testing.T) {
	t.Parallel()
	for try := 1; !failsOver(t, try); try++ {
		if try == opensmtest.UpTries {
			t.Fatalf("no SM has taken over in %d tries", try)
		}
	}
}

// failsOver returns false when the other SM has not become master, which is opensm's affair and no failure of this
// test: see opensmtest.UpPatience.
func failsOver(t *testing.T, try int) bool {
	s := opensmtest.Start(t)
	m, standby, ok := s.ManagePair(try)
	if !ok {
		return false
	}
	cfg := seldom()
	cfg.Watch = 20 * time.Millisecond
	r := newRig(t, s, cfg)
	before := r.port()
	m.Kill()
	if !opensmtest.HasWritten(standby.Log, "SUBNET UP", opensmtest.UpPatience(try)) {
		return false
	}
	r.awaitChange("another SM", func(g sa.Registration) bool { return !g.Held && g.Err.Error() == string(sa.SMChange) })
	if after := r.port(); after.SMLID == before.SMLID {
		t.Fatalf("the SM is still at %v", after.SMLID)
	}
	r.await(4, "with another SM")
	r.check("with another SM")
	return true
}
