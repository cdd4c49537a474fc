// SPDX-License-Identifier: Apache-2.0

package sa_test

import (
	"errors"
	"fmt"
	"testing"

	"causeway/ibside/fabric"
	"causeway/ibside/ib"
	"causeway/ibside/sa"
	"causeway/ibside/sa/opensmtest"
)

// site is a subnet with a manager, opensm or that of the software subnet.
type site struct {
	t         *testing.T
	Client    func(host string, cfg sa.Config) *sa.Client
	subnet    *opensmtest.Subnet // nil: the software subnet
	fabric    *fabric.Fabric
	isLenient bool // it has no IPoIB broadcast groups whose parameters other groups must have
}

// TestConformance sends the real opensm and the software subnet's administrator the same requests, and checks that the
// answers are the same.
func TestConformance(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		test func(*testing.T, *site)
	}{
		{"join", testJoin}, {"create", testCreateRules}, {"reject", testJoinRejections}, {"non-members", testNonMembers},
		{"notices", testNotices}, {"unsubscribe", testUnsubscribe}, {"resubscribe", testUselessSubscriptions},
		{"path", testPath}, {"aliases", testAliases}, {"ports", testPortsComeAndGo},
		{"services", testServices},
	} {
		t.Run(c.name+"/opensm", func(t *testing.T) {
			s := opensmtest.Start(t)
			s.Manage("smhost")
			c.test(t, &site{t: t, Client: s.Client, subnet: s})
		})
		t.Run(c.name+"/fabric", func(t *testing.T) { c.test(t, newFabricSite(t, fabric.Config{MTU: ib.MTU2048})) })
	}
}

// TestConformanceLMC is TestConformance where each port has four LIDs.
func TestConformanceLMC(t *testing.T) {
	t.Parallel()
	t.Run("opensm", func(t *testing.T) {
		s := opensmtest.Start(t)
		s.Manage("smhost", "-l", "2")
		testLMC(t, &site{t: t, Client: s.Client, subnet: s})
	})
	t.Run("fabric", func(t *testing.T) { testLMC(t, newFabricSite(t, fabric.Config{MTU: ib.MTU2048, LMC: 2})) })
}

// fabricHosts are the ports that a site on the software subnet may have.
var fabricHosts = map[string]ib.GUID{"bridge": 0xa, "hosta": 0xb, "hostb": 0xc}

func newFabricSite(t *testing.T, cfg fabric.Config) *site {
	t.Helper()
	f, err := fabric.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if c := f.SA().Reports(); c.Reports != c.Confirmed+c.GivenUp+c.Gone+uint64(c.Waiting) {
			t.Errorf("not all reports are accounted for: %+v", c)
		}
	})
	s := &site{t: t, fabric: f, isLenient: true}
	s.Client = func(host string, cfg sa.Config) *sa.Client {
		c, _ := s.attach(host, cfg)
		return c
	}
	return s
}

// attach attaches a host to the software subnet.
func (s *site) attach(host string, cfg sa.Config) (*sa.Client, *fabric.HCA) {
	t := s.t
	t.Helper()
	port, err := s.fabric.Attach(fabric.PortConfig{Name: host, GUID: fabricHosts[host]})
	if err != nil {
		t.Fatal(err)
	}
	hca := fabric.NewHCA(port)
	c := sa.NewClient(fabric.NewMADPort(hca, ib.ClassSA), cfg)
	t.Cleanup(func() {
		if err := errors.Join(c.Close(), hca.Close()); err != nil {
			t.Error(err)
		}
		opensmtest.CheckStats(t, host, c.Stats())
	})
	return c, hca
}

// link is a host's transport on the subnet.
type link struct {
	gid            ib.GID
	unlink, relink func()
}

// unlinkable returns the link of a host, which must exist.
func (s *site) unlinkable(t *testing.T, host string) link {
	t.Helper()
	if s.subnet != nil {
		return link{
			gid:    gid("fe80::10:7"),
			unlink: func() { s.subnet.Console(fmt.Sprintf("Unlink %q[1]", host)) },
			relink: func() { s.subnet.Console(fmt.Sprintf("Relink %q[1]", host)) },
		}
	}
	_, hca := s.attach(host, sa.Config{})
	return link{
		gid: hca.Info().GID,
		unlink: func() {
			if err := hca.Close(); err != nil {
				t.Error(err)
			}
		},
		relink: func() { s.attach(host, sa.Config{}) },
	}
}

// TestFabricTables asks the software subnet for tables of many MADs; ibsim carries none.
func TestFabricTables(t *testing.T) {
	s := newFabricSite(t, fabric.Config{})
	c, other := s.Client("bridge", sa.Config{}), s.Client("hosta", trusted)
	const groups = 300 // 56 bytes each: 84 MADs, more than two windows
	for n := range groups {
		if _, err := c.Join(t.Context(), group(gid(fmt.Sprintf("ff12::%x", n+1)), ib.JoinFull)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := other.Join(t.Context(), group(gid("ff12::1"), ib.JoinNonMember)); err != nil {
		t.Fatal(err)
	}
	for _, who := range []struct {
		name   string
		client *sa.Client
		want   int
	}{{"not trusted", c, groups}, {"trusted", other, groups + 1}} {
		all, err := who.client.Groups(t.Context(), 0, ib.MCMemberFields{})
		seen := map[ib.GID]bool{}
		for _, f := range all {
			seen[f.MGID] = true
			if f.PortGID.IsZero() != (who.name == "not trusted") {
				t.Fatalf("%s: %+v", who.name, f)
			}
		}
		if err != nil || len(all) != who.want || len(seen) != groups {
			t.Errorf("%s: %d records of %d groups, %v", who.name, len(all), len(seen), err)
		}
		if n := who.client.Stats().Tables; n != 1 {
			t.Errorf("%s: %d tables came in more than one MAD", who.name, n)
		}
	}
}

// TestFabricEnds ends a client's adapter.
func TestFabricEnds(t *testing.T) {
	s := newFabricSite(t, fabric.Config{})
	c, hca := s.attach("bridge", sa.Config{})
	if err := hca.Close(); err != nil {
		t.Error(err)
	}
	if _, err := c.Path(t.Context(), testMGID); !errors.Is(err, sa.ErrClosed) && !errors.Is(err, fabric.ErrClosed) {
		t.Errorf("after the adapter was closed: %v", err)
	}
}
