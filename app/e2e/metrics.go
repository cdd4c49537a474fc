// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
)

// metricsListen is the address at which a bridge in the rig's namespace serves its metrics: `[metrics] listen`.
const metricsListen = "127.0.0.1:9432"

// The names of the directions in metrics.
const (
	roceToIB = "roce_to_ib"
	ibToRoCE = "ib_to_roce"
)

// Metrics is one scrape: values by name, with labels, as Prometheus writes it.
type Metrics map[string]uint64

// Metrics scrapes the bridge.
func (c *Causeway) Metrics(ctx context.Context) (Metrics, error) {
	client := http.Client{Transport: &http.Transport{DialContext: c.rig.dial, DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+metricsListen+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	return parseMetrics(string(text))
}

// dial opens a connection from inside the namespace. The address must be literal, because only then package net opens
// the socket on the calling thread.
func (r *Rig) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var conn net.Conn
	err := r.Do(func() (err error) {
		conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

// parseMetrics keeps the bridge's own metrics that are whole numbers; sums and times in seconds are not, nor shares.
func parseMetrics(text string) (Metrics, error) {
	m := Metrics{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		at := strings.LastIndexByte(line, ' ') // labels may have spaces
		if at < 0 {
			continue
		}
		name, value := line[:at], line[at+1:]
		if !strings.HasPrefix(name, "causeway_") || strings.Contains(name, "_seconds") || strings.Contains(name, "_ratio{") {
			continue
		}
		n, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("metric %q: %w", line, err)
		}
		m[name] = n
	}
	return m, nil
}

// Of returns a counter of one direction: "packets_sent_total".
func (m Metrics) Of(direction, name string) uint64 {
	return m[fmt.Sprintf("causeway_%s{direction=%q}", name, direction)]
}

// Drops returns how many packets were dropped for each reason, without the reasons that have none.
func (m Metrics) Drops(direction string) map[string]uint64 {
	return m.byReason("packets_dropped_total", direction)
}

// Lost returns what the IB port has lost of what the bridge had counted as sent, or
// before it saw it, by reason.
func (m Metrics) Lost(direction string) map[string]uint64 {
	return m.byReason("ib_port_lost_total", direction)
}

func (m Metrics) byReason(counter, direction string) map[string]uint64 {
	reasons := map[string]uint64{}
	prefix := fmt.Sprintf("causeway_%s{direction=%q,reason=", counter, direction)
	for name, n := range m {
		if reason, found := strings.CutPrefix(name, prefix); found && n > 0 {
			reasons[strings.Trim(reason, `"}`)] = n
		}
	}
	return reasons
}

// Since returns the differences from an earlier scrape.
func (m Metrics) Since(earlier Metrics) Metrics {
	since := Metrics{}
	for name, n := range m {
		since[name] = n - earlier[name]
	}
	return since
}

// Conserved returns an error unless received = sent + drops in each direction, which must hold whenever no packet is
// under way.
func (m Metrics) Conserved() error {
	for _, direction := range []string{roceToIB, ibToRoCE} {
		received, ended := m.Of(direction, "packets_received_total"), m.Of(direction, "packets_sent_total")
		for _, n := range m.Drops(direction) {
			ended += n
		}
		if received != ended {
			return fmt.Errorf("%s: %d packets received, %d sent or dropped", direction, received, ended)
		}
	}
	return nil
}
