// SPDX-License-Identifier: Apache-2.0

package condition

import (
	"context"
	"net/netip"
	"slices"
	"testing"
	"time"

	"causeway/app/bridge"
	"causeway/app/bridge/link"
	"causeway/lcore"
	"causeway/lcore/manage"
)

// fake is a bridge with one node that has no path.
type fake struct {
	status   manage.Status
	link     link.State
	memory   bridge.Memory
	ibDown   string
	limits   []bridge.Limit
	injected [2]lcore.Injection
	until    time.Time
	part     bridge.Part
	barred   string
	yields   string
}

func (f fake) Barred() string { return f.barred }
func (f fake) Yields() string { return f.yields }

func (f fake) Status() manage.Status  { return f.status }
func (f fake) Link() link.State       { return f.link }
func (f fake) Limits() []bridge.Limit { return f.limits }
func (f fake) InfiniBandDown() string { return f.ibDown }
func (f fake) Memory() bridge.Memory  { return f.memory }

func (f fake) Pending() (time.Time, bool) { return f.until, !f.until.IsZero() }

func (f fake) Part() (bridge.Part, bool) { return f.part, f.part.Fleet != "" }

func (f fake) Injections() [2]lcore.Injection { return f.injected }

func (f fake) ListGroups(context.Context, manage.Query) (l manage.List[manage.GroupEntry], err error) {
	return l, nil
}

func (f fake) ListNodes(context.Context, manage.Query) (l manage.List[manage.NodeEntry], err error) {
	return manage.List[manage.NodeEntry]{Entries: []manage.NodeEntry{{IP4: netip.MustParseAddr("10.9.0.7")}}}, nil
}

const noPath = "node 10.9.0.7: no path to GID ::"

func TestUnready(t *testing.T) {
	now, long := time.Now(), time.Now().Add(-time.Hour)
	use := bridge.Memory{Hosts: [2]int{8, 8}, ProxyQPs: [2]int{64, 64}}
	refusing := func(at manage.Refusals, m bridge.Memory) fake {
		return fake{status: manage.Status{Ready: true, Refused: at}, memory: m}
	}
	down := link.State{Interface: "eth1", Reason: link.Deleted}
	const noLink = "the Ethernet port has no link: the interface eth1 was deleted"
	for _, c := range []struct {
		name string
		fake
		want []string
	}{
		{"ready", fake{status: manage.Status{Ready: true}}, nil},
		{"no link", fake{status: manage.Status{Ready: true}, link: down}, []string{noLink}},
		{"no link on InfiniBand", fake{status: manage.Status{Ready: true}, ibDown: "the port mlx5_0:1 is DOWN"},
			[]string{"the InfiniBand port has no link: the port mlx5_0:1 is DOWN"}},
		{"no part", fake{status: manage.Status{Ready: true}, part: bridge.Part{Fleet: "east", Why: "it is drained", Lease: 1}},
			[]string{"the bridge does no part of its fleet's work: it is drained"}},
		{"no lease", fake{status: manage.Status{Ready: true}, part: bridge.Part{Fleet: "east"}},
			[]string{"the bridge has no lease to forward for its fleet: etcd does not answer"}},
		{"another bridge does nothing", fake{status: manage.Status{Ready: true}, yields: "another"}, nil},
		{"another bridge was there before", fake{status: manage.Status{Drained: true}, barred: "another"}, []string{"the bridge carries nothing: another"}},
		{"another bridge was there before the fleet", fake{status: manage.Status{Ready: true}, barred: "another", part: bridge.Part{Fleet: "east", Why: "another", Lease: 1}},
			[]string{"the bridge does no part of its fleet's work: another"}},
		{"no path", fake{status: manage.Status{Waiting: 1}}, []string{"waiting for joins, paths and P_Keys: 1", noPath}},
		{"neither", fake{status: manage.Status{Waiting: 1}, link: down}, []string{noLink, "waiting for joins, paths and P_Keys: 1", noPath}},
		{"full, and nothing was refused", refusing(manage.Refusals{}, use), nil},
		{"full, and refused long ago", refusing(manage.Refusals{Hosts: long, ProxyQPs: long}, use), nil},
		{"refused, and there is room again", refusing(manage.Refusals{Hosts: now, ProxyQPs: now}, bridge.Memory{Hosts: [2]int{7, 8}, ProxyQPs: [2]int{63, 64}}), nil},
		{"refuses proxy QPs", refusing(manage.Refusals{ProxyQPs: now}, use),
			[]string{"new RoCE queue pairs are refused: all 64 that there is room for are in use; raise [workers] proxy_qps"}},
		{"refuses proxy QPs that the device does not make", refusing(manage.Refusals{ProxyQPs: now}, bridge.Memory{ProxyQPs: [2]int{64, 64}, ProxyQPsShort: true}),
			[]string{"new RoCE queue pairs are refused: all 64 that there is room for are in use; the InfiniBand device makes no more (proxy_qps_short in the log)"}},
		{"refuses hosts", refusing(manage.Refusals{Hosts: now}, use),
			[]string{"new RoCE hosts are refused: all 8 that there is room for are in use; raise [workers] hosts"}},
	} {
		if got := Unready(t.Context(), c.fake, 5); !slices.Equal(got, c.want) || Ready(c.fake) != (len(c.want) == 0) {
			t.Errorf("%s: %q, ready %v; want %q", c.name, got, Ready(c.fake), c.want)
		}
	}
}

func TestRemarks(t *testing.T) {
	all := bridge.Memory{
		Hosts: [2]int{1, 1}, Nodes: [2]int{2, 2}, Groups: [2]int{4, 3}, ProxyQPs: [2]int{4, 4}, Packets: 5, PacketsUsed: 5,
		Streams: [2]int{6, 6}, Requests: [2]int{7, 7},
	}
	room := bridge.Memory{
		Hosts: [2]int{0, 1}, Nodes: [2]int{1, 2}, Groups: [2]int{2, 3}, ProxyQPs: [2]int{3, 4}, Packets: 5, PacketsUsed: 4,
		Streams: [2]int{5, 6}, Requests: [2]int{6, 7},
	}
	for _, c := range []struct {
		name string
		fake
		want []string
	}{
		{"none", fake{status: manage.Status{Ready: true}, memory: room}, nil},
		{"nothing has a limit", fake{memory: bridge.Memory{Hosts: [2]int{3, 0}}}, nil},
		{"drained", fake{status: manage.Status{Drained: true}},
			[]string{`it is drained: it has left its groups, services and nodes to another bridge; "resume" takes them up again`}},
		{"pending", fake{until: time.Date(2026, 1, 2, 13, 4, 5, 6, time.Local)},
			[]string{`a change waits for "confirm"; without it, it goes back at 13:04:05`}},
		{"injected", fake{injected: [2]lcore.Injection{
			lcore.RoCEToIB: {Drop: 0.01, Seed: 7}, lcore.IBToRoCE: {Duplicate: 0.5, Reorder: 1, DelayShare: 0.1, Delay: 2 * time.Millisecond},
		}}, []string{
			`faults are injected, roce_to_ib: drop 1%; "clear injection" ends it`,
			`faults are injected, ib_to_roce: duplicate 50%, reorder 100%, delay 10% by 2ms; "clear injection" ends it`,
		}},
		{"limits of no table", fake{limits: []bridge.Limit{{Note: "a: b"}, {Note: "c"}}, memory: bridge.Memory{ProxyQPs: [2]int{3, 3}, ProxyQPsShort: true}},
			[]string{"full: 3 of 3 proxy QPs that the InfiniBand device makes", "full in the last minute: a: b", "full in the last minute: c"}},
		{"lost nodes", fake{status: manage.Status{Ready: true, LostNodes: 2}},
			[]string{`InfiniBand nodes that are not on their subnet any more: 2; what goes to them is lost, and "show nodes" names them`}},
		{"another bridge does nothing", fake{yields: "another"}, []string{"another"}},
		{"another bridge was there before", fake{status: manage.Status{Drained: true}, barred: "another"}, nil},
		{"full", fake{memory: all}, []string{
			"full: 1 of 1 RoCE hosts ([workers] hosts)", "full: 2 of 2 InfiniBand nodes ([workers] nodes)", "full: 4 of 3 groups ([workers] groups)",
			"full: 4 of 4 proxy QPs ([workers] proxy_qps)", "full: 5 of 5 packet buffers ([workers] mbufs)",
			"full: 6 of 6 PGM streams ([workers] pgm_streams)", "full: 7 of 7 requests for services",
		}},
	} {
		if got := Remarks(c.fake); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
