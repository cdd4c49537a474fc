// SPDX-License-Identifier: Apache-2.0

package sa_test

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"causeway/ibside/ib"
	"causeway/ibside/sa"
	"causeway/ibside/sa/opensmtest"
)

// TestLIDChange restarts the SM so that it gives each port other LIDs.
func TestLIDChange(t *testing.T) {
	s := opensmtest.Start(t)
	m := s.Manage("smhost")
	cfg := seldom()
	cfg.Watch = 20 * time.Millisecond
	r := newRig(t, s, cfg)
	before := r.port()
	m.Kill()
	s.Manage("smhost", "-l", "3")
	r.awaitChange("lost with the LID", func(g sa.Registration) bool { return !g.Held })
	r.await(4, "with another LID")
	if after := r.port(); after.LID == before.LID || after.LMC != 3 {
		t.Errorf("the port is at %v as before", after.LID)
	}
	r.check("with another LID")
}

// TestOneRejected has another host create the group first when the SM is new, with another Q_Key.
func TestOneRejected(t *testing.T) {
	s := opensmtest.Start(t)
	m := s.Manage("smhost")
	r := newRig(t, s, seldom())
	m.Kill()
	s.Manage("smhost")
	f := group(testMGID, ib.JoinFull)
	f.QKey = ib.QKeyIPoIB
	if _, err := r.other.Join(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	r.events <- sa.Reregister
	r.awaitChange("rejected", func(g sa.Registration) bool {
		return g.Name == testMGID.String() && errors.Is(g.Err, sa.RequestInvalid)
	})
	r.await(3, "but the one that is rejected")
	if lost := r.Lost(); len(lost) != 1 || lost[0].Kind != sa.KindGroup || !errors.Is(lost[0].Err, sa.RequestInvalid) {
		t.Errorf("lost: %+v", lost)
	}
	if err := r.other.Leave(t.Context(), testMGID, ib.GID{}, ib.JoinFull); err != nil {
		t.Fatal(err)
	}
	r.await(4, "when the other has left")
	r.check("when the other has left")
}

// TestWithdraw ends registrations one by one and all together, also without an SM.
func TestWithdraw(t *testing.T) {
	s := opensmtest.Start(t)
	m := s.Manage("smhost")
	r := newRig(t, s, seldom())
	m.Kill()
	r.events <- sa.SMChange
	r.await(0, "without an SM")
	if err := r.Leave(t.Context(), testMGID, ib.GID{}); !errors.Is(err, sa.ErrUnreachable) {
		t.Errorf("withdraw without an SM: %v", err)
	}
	s.Manage("smhost")
	r.await(3, "without the group")
	if all := members(t, r.other, testMGID); len(all) != 0 {
		t.Errorf("members of a group that was left: %v", all)
	}
	if err := r.Leave(t.Context(), testMGID, ib.GID{}); !errors.Is(err, sa.ErrNotRegistered) {
		t.Errorf("withdraw again: %v", err)
	}
	rejected := group(gid("::ffff:239.1.2.3"), ib.JoinFull)
	if _, err := r.Join(t.Context(), rejected); !errors.Is(err, sa.RequestInvalid) || len(r.Registrations()) != 3 {
		t.Errorf("a rejected join: %v, %+v", err, r.Registrations())
	}
	if err := r.WithdrawAll(t.Context()); err != nil || len(r.Registrations()) != 0 {
		t.Errorf("withdraw all: %v, %+v", err, r.Registrations())
	}
	if all := members(t, r.other, gid("ff12::2")); len(all) != 0 {
		t.Errorf("members: %v", all)
	}
	if guids, err := r.client.GUIDs(t.Context(), 0); err != nil || guids[1] != 0 {
		t.Errorf("aliases: %v, %v", guids, err)
	}
}

// TestChosen registers again with the values that the SA chose. It must not choose another alias; for the group the SA
// gives no such promise.
func TestChosen(t *testing.T) {
	s := opensmtest.Start(t)
	m := s.Manage("smhost")
	c := s.Client("bridge", quick)
	events := make(chan sa.Event)
	cfg := seldom()
	cfg.Events = events
	r := sa.NewRegistrar(c, cfg)
	defer r.Close()
	made, err := r.Join(t.Context(), group(ib.GID{}, ib.JoinFull))
	alias, err2 := r.SetAlias(t.Context(), 3, 0)
	if err := errors.Join(err, err2); err != nil || !made.MGID.IsIBMulticast() || alias == 0 {
		t.Fatalf("%+v, %v, %v", made, alias, err)
	}
	m.Kill()
	s.Manage("smhost")
	events <- sa.Reregister
	events <- sa.Reregister // is taken while the first registration runs
	for end := time.Now().Add(time.Minute); len(r.Lost()) > 0 && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	all := r.Registrations()
	if len(all) != 2 || !all[1].Held || !all[1].Group.MGID.IsIBMulticast() {
		t.Fatalf("%+v", all)
	}
	if found := members(t, c, all[1].Group.MGID); len(found) != 1 {
		t.Errorf("members of %v: %v", all[1].Group.MGID, found)
	}
	if guids, err := c.GUIDs(t.Context(), 0); err != nil || guids[3] != alias {
		t.Errorf("aliases: %v, %v; want %v", guids, err, alias)
	}
	if err := r.Leave(t.Context(), made.MGID, ib.GID{}); err != nil {
		t.Error(err)
	}
}

// TestStall stops opensm without ending it: it takes requests and does not answer.
func TestStall(t *testing.T) {
	s := opensmtest.Start(t)
	m := s.Manage("smhost")
	c := s.Client("bridge", sa.Config{FirstWait: 20 * time.Millisecond, Tries: 2})
	nobody := gid("fe80::99")
	m.Stop()
	if _, err := c.Path(t.Context(), nobody); !errors.Is(err, sa.ErrTimeout) {
		t.Errorf("with an SM that says nothing: %v", err)
	}
	patient := s.Client("hosta", sa.Config{FirstWait: 50 * time.Millisecond, Tries: 6})
	answered := make(chan error)
	go func() {
		_, err := patient.Path(t.Context(), nobody)
		answered <- err
	}()
	awaitStats(t, patient, "a try without an answer", func(s sa.Stats) bool { return s.Timeouts > 0 })
	m.Continue()
	if err := <-answered; !errors.Is(err, sa.NoRecords) {
		t.Errorf("with an SM that answers again: %v", err)
	}
}

// TestToolsAgree checks with the usual InfiniBand tools what a client has done.
func TestToolsAgree(t *testing.T) {
	s := opensmtest.Start(t)
	for _, tool := range []string{"saquery", "ibroute"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(tool + " is not installed (apt-get install infiniband-diags)")
		}
	}
	s.Manage("smhost")
	c, other := s.Client("bridge", sa.Config{}), s.Client("hosta", sa.Config{})
	made, err := c.Join(t.Context(), group(testMGID, ib.JoinFull))
	if err == nil {
		_, err = other.Join(t.Context(), group(testMGID, ib.JoinFull))
	}
	if err != nil {
		t.Fatal(err)
	}
	shows(t, s, []string{"fe80::10:3", "fe80::10:5"}, "saquery", "--smkey", "1", "-m", made.MLID.String())
	// Two crosses in the row of the MLID: the switch sends the group to two ports.
	shows(t, s, []string{"x x"}, "ibroute", "-M", "2")
	if err := c.Subscribe(t.Context(), ib.TrapGroupCreated); err != nil {
		t.Fatal(err)
	}
	shows(t, s, []string{"fe80::10:3", "66"}, "saquery", "-I")
}

// shows runs a tool at a host of its own until it prints all words, because opensm programs switches with some delay.
func shows(t *testing.T, s *opensmtest.Subnet, words []string, tool string, args ...string) {
	t.Helper()
	var out []byte
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second) // sometimes a tool waits for a MAD that nobody sends
		cmd := exec.CommandContext(ctx, tool, args...)
		cmd.Dir = s.Dir
		cmd.Env = append(cmd.Environ(), "IBSIM_SOCKNAME="+s.Name, "SIM_HOST=hostb", "LD_PRELOAD="+s.Library)
		var err error
		out, err = cmd.CombinedOutput()
		cancel()
		if err != nil {
			continue
		}
		all := true
		for _, w := range words {
			all = all && strings.Contains(strings.Join(strings.Fields(string(out)), " "), w)
		}
		if all {
			return
		}
	}
	t.Errorf("%s %s does not show %q:\n%s", tool, strings.Join(args, " "), words, out)
}
