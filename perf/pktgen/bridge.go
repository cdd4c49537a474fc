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

// Bridge is what the bridge itself counted, RoCE to IB, in a run.
type Bridge struct {
	Received uint64            `json:"received"`
	Sent     uint64            `json:"sent"`
	Drops    map[string]uint64 `json:"drops,omitempty"` // by reason
	Missed   uint64            `json:"missed"`          // by its port, for want of a buffer
}

// Dropped is the sum of the drops.
func (b *Bridge) Dropped() uint64 {
	var sum uint64
	for _, n := range b.Drops {
		sum += n
	}
	return sum
}

var sample = regexp.MustCompile(`^causeway_(packets_received|packets_sent|packets_dropped|port_rx_missed|port_rx_no_mbuf)_total` +
	`(?:\{direction="roce_to_ib"(?:,reason="([a-z0-9_]+)")?\})? (\d+)`)

// ReadBridge asks a bridge for its counters, at the address where it serves metrics.
func ReadBridge(ctx context.Context, url string) (*Bridge, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("pktgen: %w", err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("pktgen: the bridge's counters: %w", err)
	}
	defer func() { _ = answer.Body.Close() }() // it was only read
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("pktgen: the bridge's counters: %s: %s", url, answer.Status)
	}
	return parseBridge(answer.Body)
}

func parseBridge(r io.Reader) (*Bridge, error) {
	b := &Bridge{Drops: map[string]uint64{}}
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
			b.Received = n
		case "packets_sent":
			b.Sent = n
		case "packets_dropped":
			b.Drops[m[2]] = n
		default:
			b.Missed += n
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("pktgen: the bridge's counters: %w", err)
	}
	if seen == 0 {
		return nil, fmt.Errorf("pktgen: the bridge's counters: there are none in what it answered")
	}
	return b, nil
}

// Since is what was counted since before.
func (b *Bridge) Since(before *Bridge) *Bridge {
	out := &Bridge{Received: b.Received - before.Received, Sent: b.Sent - before.Sent, Missed: b.Missed - before.Missed, Drops: map[string]uint64{}}
	for reason, n := range b.Drops {
		if n -= before.Drops[reason]; n > 0 {
			out.Drops[reason] = n
		}
	}
	return out
}

// write says what became of what pktgen sent.
func (b *Bridge) write(out io.Writer, sent uint64) error {
	var reasons []string
	for _, reason := range slices.Sorted(maps.Keys(b.Drops)) {
		reasons = append(reasons, fmt.Sprintf("%s %d", reason, b.Drops[reason]))
	}
	why := ""
	if len(reasons) > 0 {
		why = " (" + strings.Join(reasons, ", ") + ")"
	}
	_, err := fmt.Fprintf(out, "the bridge: received %d of %d, missed %d; sent on %d, dropped %d%s\n", b.Received, sent, b.Missed, b.Sent, b.Dropped(), why)
	return err
}
