// SPDX-License-Identifier: Apache-2.0

package web

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"causeway/lcore"
	"causeway/lcore/pgm"
)

func TestMetrics(t *testing.T) {
	var b bytes.Buffer
	writeMetrics(&b, newFake(), options())
	text := "\n" + b.String()
	for _, want := range []string{
		`causeway_packets_received_total{direction="roce_to_ib"} 10`,
		`causeway_packets_sent_total{direction="ib_to_roce"} 8`,
		`causeway_ib_service_requests_total{result="accepted"} 71`,
		`causeway_ib_service_connects_total{result="rejected"} 73`,
		`causeway_payload_bytes_sent_total{direction="roce_to_ib"} 700`,
		`causeway_packets_dropped_total{direction="roce_to_ib",reason="proxy_qp_full"} 3`,
		`causeway_management_frames_received_total 11`,
		`causeway_arp_answered_total 21`,
		`causeway_spoofs_total 22`,
		`causeway_management_frames_malformed_total{reason="arp_bad"} 23`,
		`causeway_management_frames_malformed_total{reason="vlan_double"} 24`,
		`causeway_management_frames_malformed_total{reason="nd_bad"} 0`,
		`causeway_hosts_rejected_total 25`, `causeway_host_flaps_total 81`, `causeway_host_conflicts_total 82`, `causeway_hosts_aged_total 83`,
		`causeway_hosts_silent_total 84`, `causeway_addresses_defended_total 85`, `causeway_nodes_absent_total 86`,
		`causeway_port_rx_frames_total 31`, `causeway_port_tx_frames_total 32`, `causeway_port_rx_missed_total 33`,
		`causeway_port_rx_no_mbuf_total 34`, `causeway_port_link_up 1`, `causeway_ib_port_active 1`, `causeway_limit_reached{limit="alias_guids"} 0`,
		`causeway_group_packets_sent_total{group="239.1.2.3",segment="",direction="roce_to_ib"} 41`,
		`causeway_group_packets_sent_total{group="239.1.2.3",segment="",direction="ib_to_roce"} 42`,
		`causeway_group_payload_bytes_sent_total{group="239.1.2.3",segment="",direction="ib_to_roce"} 44`,
		`causeway_group_packets_sent_total{group="ff15::1",segment="",direction="ib_to_roce"} 0`,
		`causeway_group_packets_sent_total{group="239.1.2.3",segment="VLAN 100",direction="ib_to_roce"} 46`,
		`causeway_ib_port_lost_total{direction="ib_to_roce",reason="port_full"} 51`,
		`causeway_ib_device_lost_total{name="out_of_buffer"} 42`,
		`causeway_pgm_missed_total{direction="ib_to_roce"} 61`, `causeway_pgm_streams 63`,
		`causeway_pgm_faults_total{direction="roce_to_ib",reason="` + pgm.Fault(1).String() + `"} 62`,
		`causeway_sidr_total{direction="roce_to_ib",result="answered"} 73`,
		`causeway_sidr_total{direction="ib_to_roce",result="no_proxy_qp"} 74`,
		`causeway_sidr_total{direction="ib_to_roce",result="busy_source"} 0`,
		`causeway_sidr_pending{direction="roce_to_ib"} 71`, `causeway_sidr_pending{direction="ib_to_roce"} 72`,
		`causeway_build_info{name="a \"b\" \\ c",version="v1.2.3",dpdk="22.11.11"} 1`, `causeway_start_time_seconds 1700000000.500`,
		`causeway_worker_busy_loops_total{worker="0"} 5`, `causeway_worker_sleeps_total{worker="0"} 81`, `causeway_worker_overslept_total{worker="0"} 82`, `causeway_worker_packets_sent_total{worker="0",direction="roce_to_ib"} 7`,
		`causeway_latency_seconds_bucket{direction="roce_to_ib",le="1e-07"} 2`,
		`causeway_latency_seconds_bucket{direction="roce_to_ib",le="2.5e-06"} 2`,
		`causeway_latency_seconds_bucket{direction="roce_to_ib",le="5e-06"} 6`,
		`causeway_latency_seconds_bucket{direction="roce_to_ib",le="0.01"} 6`,
		`causeway_latency_seconds_bucket{direction="roce_to_ib",le="+Inf"} 7`,
		`causeway_latency_seconds_sum{direction="roce_to_ib"} 1.00001218`, `causeway_latency_seconds_count{direction="roce_to_ib"} 7`,
		`causeway_latency_seconds_count{direction="ib_to_roce"} 0`,
		`causeway_latency_max_seconds{direction="roce_to_ib"} 1`, `causeway_latency_max_seconds{direction="ib_to_roce"} 0`,
		`causeway_mbufs_used 87`, `causeway_mbufs_limit 88`, `causeway_hosts_limit 91`, `causeway_groups_limit 92`, `causeway_proxy_qps_limit 93`, `causeway_segment_hosts{segment="VLAN 100"} 101`, `causeway_segment_proxy_qps_limit{segment="VLAN 100"} 104`, `causeway_draining 0`,
		`causeway_ready 1`, `causeway_rival_first 0`, `causeway_waiting 1`, `causeway_log_lines_lost_total 94`, `causeway_hosts 2`, `causeway_nodes 3`, `causeway_groups 4`, `causeway_proxy_qps 5`,
	} {
		if !strings.Contains(text, "\n"+want+"\n") {
			t.Errorf("no line %q", want)
		}
	}
	if n := strings.Count(text, "causeway_packets_dropped_total{"); n != 2*len(lcore.Drops()) {
		t.Errorf("%d lines of drops, want one for each of %d reasons and both directions", n, len(lcore.Drops()))
	}
}

// TestNothingUnknown checks that every sample is of a family in the table, with the labels in the table.
func TestNothingUnknown(t *testing.T) {
	s := gather(newFake(), options())
	if len(s.unknown) > 0 {
		t.Errorf("not in the table: %q", s.unknown)
	}
	label := regexp.MustCompile(`([a-z_]+)="`)
	for _, m := range allMetrics() {
		if len(s.lines[m.Name]) == 0 {
			t.Errorf("%s: the fake bridge has no sample of it", m.Name)
		}
		for _, line := range s.lines[m.Name] {
			var labels []string
			for _, l := range label.FindAllStringSubmatch(line, -1) {
				labels = append(labels, l[1])
			}
			want := m.Labels
			if m.Kind == histogram && strings.HasPrefix(line, "_bucket") {
				want = append(slices.Clone(want), "le")
			}
			if !slices.Equal(labels, want) {
				t.Errorf("%s%s: its labels are not %q", m.Name, line, want)
			}
		}
	}
}

// TestNames checks Prometheus' rules for names: counters end in _total and nothing else does, units are whole words of
// the base unit, and no name is there twice.
func TestNames(t *testing.T) {
	name := regexp.MustCompile(`^causeway(_[a-z0-9]+)+$`)
	seen := map[string]bool{}
	for _, m := range allMetrics() {
		for _, suffix := range []string{"_count", "_sum", "_bucket", "_ms", "_us", "_ns", "_milliseconds", "_kilobytes", "_percent"} {
			if strings.HasSuffix(m.Name, suffix) {
				t.Errorf("%s ends in %s", m.Name, suffix)
			}
		}
		if seen[m.Name] || !name.MatchString(m.Name) || strings.HasSuffix(m.Name, "_total") != (m.Kind == counter) {
			t.Errorf("%s (%s): bad name, or twice", m.Name, m.Kind)
		}
		if m.Help == "" || strings.ContainsAny(m.Help, "\n\\") || !strings.HasSuffix(m.Help, ".") {
			t.Errorf("%s: help %q is no sentence", m.Name, m.Help)
		}
		seen[m.Name] = true
	}
}

// TestFormat checks that each family has HELP and TYPE before its samples, that these are together, and that each
// sample is there once.
func TestFormat(t *testing.T) {
	var b bytes.Buffer
	writeMetrics(&b, newFake(), options())
	sample := regexp.MustCompile(`^([a-z_]+)((?:\{[a-z_]+="(?:[^"\\]|\\.)*"(?:, ?[a-zA-Z_]+="(?:[^"\\]|\\.)*")*\})?) [0-9.e+-]+$`)
	family, kind, helped, seen := "", "", "", map[string]bool{}
	for line := range strings.Lines(b.String()) {
		line = strings.TrimSuffix(line, "\n")
		if word := strings.Fields(line); len(word) > 2 && word[1] == "HELP" || len(word) == 3 && word[0] == "#" && word[1] == "HELP" {
			helped = word[2]
			continue
		} else if len(word) == 4 && word[1] == "TYPE" {
			if family, kind = word[2], word[3]; family != helped || seen["# "+family] {
				t.Errorf("%q: no help before it, or twice", line)
			}
			seen["# "+family] = true
			continue
		}
		m := sample.FindStringSubmatch(line)
		switch {
		case m == nil || seen[m[1]+m[2]]:
			t.Errorf("bad or twice: %q", line)
			continue
		case m[1] != family && (kind != "histogram" && kind != "summary" || !slices.Contains([]string{"_bucket", "_sum", "_count"}, strings.TrimPrefix(m[1], family))):
			t.Errorf("%q is among the samples of %s", line, family)
		}
		seen[m[1]+m[2]] = true
	}
	for _, m := range allMetrics() {
		if !seen["# "+m.Name] {
			t.Errorf("no TYPE line of %s", m.Name)
		}
	}
}

// TestFold checks that every bucket is counted once, at a bound that is not below its own.
func TestFold(t *testing.T) {
	for _, c := range []struct {
		name string
		upTo time.Duration
		want int // index
	}{
		{"the least", 0, 0}, {"at the first bound", 100, 0}, {"above it", 101, 1}, {"in the middle", 1001, 4},
		{"the last bound", 10 * time.Millisecond, len(bounds) - 1}, {"above all", time.Minute, len(bounds)},
	} {
		counts := fold(func(yield func(time.Duration, uint64) bool) { yield(c.upTo, 9) })
		for i, n := range counts {
			if (i == c.want) != (n == 9) {
				t.Errorf("%s: %v", c.name, counts)
				break
			}
		}
	}
	if !slices.IsSorted(bounds) || bounds[0] != 100 || bounds[len(bounds)-1] != 10*time.Millisecond {
		t.Errorf("bounds %v", bounds)
	}
}
