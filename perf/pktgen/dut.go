// SPDX-License-Identifier: Apache-2.0

package pktgen

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// DUT is what the device under test, a bridge, counted in a run, RoCE to IB.
type DUT struct {
	Received uint64            `json:"received"`
	Sent     uint64            `json:"sent"`
	Drops    map[string]uint64 `json:"drops,omitempty"` // by reason
	Missed   uint64            `json:"missed"`          // by its Ethernet port, as far as that is known
	// MissedUnknown: nobody on its machine counts what its port misses, as with memif.
	MissedUnknown bool `json:"missed_unknown,omitempty"`
}

// Dropped is the sum of the drops.
func (d *DUT) Dropped() uint64 {
	var sum uint64
	for _, n := range d.Drops {
		sum += n
	}
	return sum
}

var sample = regexp.MustCompile(`^causeway_(packets_received|packets_sent|packets_dropped|port_rx_missed|port_rx_no_mbuf)_total` +
	`(?:\{direction="roce_to_ib"(?:,reason="([a-z0-9_]+)")?\})? (\d+)`)

// ReadDUT reads the counters of a bridge from the URL of its metrics.
func ReadDUT(ctx context.Context, url string) (*DUT, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("pktgen: %w", err)
	}
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("pktgen: the bridge's counters: %w", err)
	}
	defer func() { _ = reply.Body.Close() }() // it was only read
	if reply.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("pktgen: the bridge's counters: %s: %s", url, reply.Status)
	}
	return parseDUT(reply.Body)
}

func parseDUT(r io.Reader) (*DUT, error) {
	d := &DUT{Drops: map[string]uint64{}, MissedUnknown: true}
	seen := 0
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		m := sample.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		n, _ := strconv.ParseUint(m[3], 10, 64) // digits, by the pattern
		switch seen++; m[1] {
		case "packets_received":
			d.Received = n
		case "packets_sent":
			d.Sent = n
		case "packets_dropped":
			d.Drops[m[2]] = n
		default:
			d.Missed += n
			if m[1] == "port_rx_missed" { // absent where it is not known
				d.MissedUnknown = false
			}
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("pktgen: the bridge's counters: %w", err)
	}
	if seen == 0 {
		return nil, fmt.Errorf("pktgen: the bridge's counters: none in its reply")
	}
	return d, nil
}

// Since is what was counted since an earlier reading.
func (d *DUT) Since(before *DUT) *DUT {
	out := &DUT{Received: d.Received - before.Received, Sent: d.Sent - before.Sent, Missed: d.Missed - before.Missed, MissedUnknown: d.MissedUnknown, Drops: map[string]uint64{}}
	for reason, n := range d.Drops {
		if n -= before.Drops[reason]; n > 0 {
			out.Drops[reason] = n
		}
	}
	return out
}

// write prints what the bridge did with what pktgen sent.
func (d *DUT) write(out io.Writer, sent uint64) error {
	var reasons []string
	for _, reason := range slices.Sorted(maps.Keys(d.Drops)) {
		reasons = append(reasons, fmt.Sprintf("%s %d", reason, d.Drops[reason]))
	}
	why := ""
	if len(reasons) > 0 {
		why = " (" + strings.Join(reasons, ", ") + ")"
	}
	missed := fmt.Sprint(d.Missed)
	if d.MissedUnknown {
		missed = "not known"
	}
	_, err := fmt.Fprintf(out, "the bridge: received %d of %d, missed %s; sent on %d, dropped %d%s\n", d.Received, sent, missed, d.Sent, d.Dropped(), why)
	return err
}
