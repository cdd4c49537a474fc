// SPDX-License-Identifier: Apache-2.0

package web

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"causeway/dpdk"
	"causeway/lcore"
	"causeway/lcore/manage"
	"causeway/lcore/pgm"
)

// fake is a bridge that has counted something of everything.
type fake struct{}

func (fake) Counters() (c lcore.Counters) {
	c.Direction[lcore.RoCEToIB] = lcore.DirectionCounters{
		Received: 10, Sent: 7, SentBytes: 700, CongestionMarked: 1, ReservedBits: 2, StandInWaits: 4, HandedOver: 5,
		Drops: map[lcore.Drop]uint64{lcore.DropStandInFull: 3},
	}
	c.Direction[lcore.IBToRoCE] = lcore.DirectionCounters{Received: 8, Sent: 8, SourceBridged: 6}
	c.Odd = lcore.OddCounters{Received: 11, Full: 12, Sent: 13, Refused: 14}
	return c
}

func (fake) Status() manage.Status {
	return manage.Status{Ready: true, Waiting: 1, Hosts: 2, Nodes: 3, Groups: 4, StandIns: 5, Asked: [2]int{71, 72}, Counters: manage.Counters{
		Services:    [2]manage.ServiceCounts{{manage.ServiceAnswered: 73}, {manage.ServiceNoStandIn: 74}},
		ARPAnswered: 21, Spoofs: 22, Malformed: map[string]uint64{"arp_bad": 23, "vlan_double": 24}, HostsRefused: 25,
		HostFlaps: 81, HostConflicts: 82, HostsAged: 83, HostsSilent: 84, AddressesDefended: 85, NodesAbsent: 86,
	}}
}

func (fake) Ethernet() (dpdk.Stats, bool) {
	return dpdk.Stats{RxPackets: 31, TxPackets: 32, RxMissed: 33, RxNoMbuf: 34}, true
}

func (fake) Groups() map[netip.Addr]lcore.GroupCounters {
	return map[netip.Addr]lcore.GroupCounters{
		netip.MustParseAddr("239.1.2.3"): {Packets: [2]uint64{41, 42}, Bytes: [2]uint64{43, 44}},
		netip.MustParseAddr("ff15::1"):   {},
	}
}

func (fake) PGM() (t pgm.Totals, watched bool) {
	t.Direction[lcore.IBToRoCE].Counts[pgm.Missed] = 61
	t.Direction[lcore.RoCEToIB].Faults[1] = 62
	t.Streams = 63
	return t, true
}

func (fake) Lost() [2]map[string]uint64 {
	return [2]map[string]uint64{lcore.IBToRoCE: {"door_full": 51, "no_qp": 52}}
}

func (fake) Services() (requests, connects map[string]uint64) {
	return map[string]uint64{"accepted": 71}, map[string]uint64{"ok": 72, "rejected": 73}
}

func TestMetrics(t *testing.T) {
	var b bytes.Buffer
	WriteMetrics(&b, fake{})
	text := "\n" + b.String()
	for _, want := range []string{
		`causeway_packets_received_total{direction="roce_to_ib"} 10`,
		`causeway_packets_sent_total{direction="ib_to_roce"} 8`,
		`causeway_ib_service_requests_total{result="accepted"} 71`,
		`causeway_ib_service_connects_total{result="rejected"} 73`,
		`causeway_payload_bytes_sent_total{direction="roce_to_ib"} 700`,
		`causeway_packets_dropped_total{direction="roce_to_ib",reason="standin_full"} 3`,
		`causeway_management_frames_received_total 11`,
		`causeway_arp_answered_total 21`,
		`causeway_spoofs_total 22`,
		`causeway_management_frames_malformed_total{reason="arp_bad"} 23`,
		`causeway_management_frames_malformed_total{reason="vlan_double"} 24`,
		`causeway_management_frames_malformed_total{reason="nd_bad"} 0`,
		`causeway_hosts_refused_total 25`, `causeway_host_flaps_total 81`, `causeway_host_conflicts_total 82`, `causeway_hosts_aged_total 83`,
		`causeway_hosts_silent_total 84`, `causeway_addresses_defended_total 85`, `causeway_nodes_absent_total 86`,
		`causeway_port_rx_frames_total 31`, `causeway_port_tx_frames_total 32`, `causeway_port_rx_missed_total 33`,
		`causeway_port_rx_no_mbuf_total 34`, `causeway_port_link_up 1`,
		`causeway_group_packets_sent_total{group="239.1.2.3",direction="roce_to_ib"} 41`,
		`causeway_group_packets_sent_total{group="239.1.2.3",direction="ib_to_roce"} 42`,
		`causeway_group_payload_bytes_sent_total{group="239.1.2.3",direction="ib_to_roce"} 44`,
		`causeway_group_packets_sent_total{group="ff15::1",direction="ib_to_roce"} 0`,
		`causeway_ib_port_lost_total{direction="ib_to_roce",reason="door_full"} 51`,
		`causeway_pgm_missed_total{direction="ib_to_roce"} 61`, `causeway_pgm_streams 63`,
		`causeway_pgm_faults_total{direction="roce_to_ib",reason="` + pgm.Fault(1).String() + `"} 62`,
		`causeway_sidr_total{direction="roce_to_ib",result="answered"} 73`,
		`causeway_sidr_total{direction="ib_to_roce",result="no_standin"} 74`,
		`causeway_sidr_total{direction="ib_to_roce",result="busy_source"} 0`,
		`causeway_sidr_pending{direction="roce_to_ib"} 71`, `causeway_sidr_pending{direction="ib_to_roce"} 72`,
		`causeway_ready 1`, `causeway_waiting 1`, `causeway_hosts 2`, `causeway_nodes 3`, `causeway_groups 4`, `causeway_standins 5`,
	} {
		if !strings.Contains(text, "\n"+want+"\n") {
			t.Errorf("no line %q", want)
		}
	}
	if n := strings.Count(text, "causeway_packets_dropped_total{"); n != 2*len(lcore.Drops()) {
		t.Errorf("%d lines of drops, want one for each of %d reasons and both directions", n, len(lcore.Drops()))
	}
}

// TestFormat wants each line to be a comment, or a sample that is there once.
func TestFormat(t *testing.T) {
	var b bytes.Buffer
	WriteMetrics(&b, fake{})
	sample := regexp.MustCompile(`^([a-z_]+(?:\{[a-z_]+="[^"]*"(?:, ?[a-zA-Z_]+="[^"]*")*\})?) [0-9.e+-]+$`)
	seen := map[string]bool{}
	for line := range strings.Lines(b.String()) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		m := sample.FindStringSubmatch(line)
		if m == nil || seen[m[1]] {
			t.Errorf("bad or twice: %q", line)
			continue
		}
		seen[m[1]] = true
	}
}

func TestServe(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, l, fake{}) }()
	for _, c := range []struct {
		method, path string
		status       int
	}{{"GET", "/metrics", 200}, {"POST", "/metrics", 405}, {"GET", "/", 404}} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, "http://"+l.Addr().String()+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != c.status || (c.status == 200) != bytes.Contains(b, []byte("causeway_ready 1\n")) {
			t.Errorf("%s %s: %d, %v", c.method, c.path, answer.StatusCode, err)
		}
	}
	stop()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it does not end")
	}
}
