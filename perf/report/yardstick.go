// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"causeway/perf/trial"
)

// What a yardstick's rate is.
const (
	PDR   = "PDR"   // the largest rate at which no more than the allowed part is lost
	Flood = "flood" // what comes through while the generator sends as fast as it can
)

// Yardstick is a row of the comparison with other programs, measured in the same run, on the same CPUs and over the same
// kind of port.
type Yardstick struct {
	Name      string  `json:"name"`                // of the device
	Generator string  `json:"generator,omitempty"` // "": causeway-perf
	Versions  string  `json:"versions,omitempty"`  // of the other program
	Figure    string  `json:"figure,omitempty"`    // PDR, Flood; "": PDR
	Payload   string  `json:"payload"`
	PPS       float64 `json:"pps"`
	Loss      float64 `json:"allowed_loss"`
	Sent      float64 `json:"sent_pps,omitempty"`   // of a flood, by the generator
	Lost      float64 `json:"loss_ratio,omitempty"` // of a flood
	Noise     float64 `json:"noise,omitempty"`      // how far the middle half of the readings lies apart, as a part of the median
	Readings  int     `json:"readings,omitempty"`
	Limit     string  `json:"limited_by"`
	// Causeway is Causeway's PDR over the same kind of port, and Ratio that divided by PPS. Ratio is 0 if it would mean
	// nothing: the machine limited one of the rates, or the generator both.
	Causeway      float64 `json:"causeway_pps"`
	CausewayLimit string  `json:"causeway_limited_by"`
	Ratio         float64 `json:"ratio"`
}

// Compare adds Causeway's throughput and the ratio.
func (y *Yardstick) Compare(own trial.Throughput) {
	y.Causeway, y.CausewayLimit = own.PPS, own.Limit
	same := y.Limit == trial.ByGenerator && own.Limit == trial.ByGenerator
	if y.PPS > 0 && y.Limit != trial.ByMachine && own.Limit != trial.ByMachine && !same {
		y.Ratio = own.PPS / y.PPS
	}
}

func (r *Report) yardstickTable() table {
	t := table{Title: "Yardsticks", Head: []string{"device", "generator", "payload", "figure", "Mpps", "sent Mpps", "lost", "noise", "limited by", "ratio"}}
	for _, y := range r.Yardsticks {
		t.Rows = append(t.Rows, r.yardstickRow(y))
	}
	if len(t.Rows) == 0 {
		return t
	}
	t.Note = "All over net_memif and on the machine above, with the versions above unless a row names others. PDR: the largest rate that loses no more than is allowed. " +
		"Flood: what comes through a second while the generator sends as fast as it can. Noise: of a flood, how far the middle half of its readings lies apart, and how " +
		"many there were; of a PDR, the generator's by itself. Ratio: Causeway's PDR over the device's; none if the machine limited one of them, or the generator both. " +
		"Limited by the machine: other programs used the CPUs, and the device may be faster."
	if slices.ContainsFunc(r.Yardsticks, Yardstick.disturbed) {
		t.Note += " Disturbed: so they did in every reading, and there is no rate."
	}
	return t
}

// disturbed reports whether there was not one clean reading.
func (y Yardstick) disturbed() bool {
	return y.Limit == trial.ByMachine && (y.Figure == Flood || y.PPS == 0)
}

func (r *Report) yardstickRow(y Yardstick) []string {
	name, generator, figure := y.Name, cmp.Or(y.Generator, "causeway-perf"), cmp.Or(y.Figure, PDR)
	versions := strings.TrimSuffix(strings.TrimSuffix(y.Versions, "DPDK "+r.Versions["DPDK"]), ", ") // that is in the report's head
	if versions != "" && y.Generator != "" {
		generator = y.Generator + " " + versions
	} else if versions != "" {
		name += ", " + versions
	}
	rate, sent, lost, noise, ratio := mpps(y.PPS), "-", "≤ "+percent(y.Loss), r.noiseOf(y.Payload), "-"
	if figure == Flood {
		sent, lost, noise = mpps(y.Sent), percent(y.Lost), noiseOf(y.Noise, y.Readings)
	}
	if y.Ratio > 0 {
		ratio = map[string]string{y.Limit: "≤ ", y.CausewayLimit: "≥ "}[trial.ByGenerator] + fmt.Sprintf("%.2f", y.Ratio)
	}
	if y.disturbed() {
		rate, sent, lost, noise = trial.Disturbed, "-", "-", "-"
	}
	return []string{name, generator, y.Payload, figure, rate, sent, lost, noise, y.Limit, ratio}
}

// noiseOf is the noise of so many readings: fewer than four have no middle half.
func noiseOf(spread float64, readings int) string {
	if readings < 4 {
		return fmt.Sprintf("unknown, of %d", readings)
	}
	return fmt.Sprintf("%.1f %% of %d", spread*100, readings)
}

// noiseOf is the generator's noise with a payload.
func (r *Report) noiseOf(payload string) string {
	for _, c := range r.Ceiling {
		if c.Payload == payload {
			return fmt.Sprintf("%.1f %%", c.Noise*100)
		}
	}
	return "-"
}
