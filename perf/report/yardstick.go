// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"

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
	t := table{Title: "Yardsticks", Head: []string{"device", "generator", "payload", "figure", "Mpps", "sent Mpps", "lost", "noise", "limited by", "Causeway's PDR over it"}}
	for _, y := range r.Yardsticks {
		t.Rows = append(t.Rows, r.yardstickRow(y))
	}
	if len(t.Rows) > 0 {
		t.Note = "All over net_memif, RoCE to IB, on the machine and with the versions above unless a row names others. PDR: the largest rate that loses no more than " +
			"is allowed. Flood: what comes through a second while the generator sends as fast as it can. A flood is not a PDR, so there is no ratio " +
			"between them. Noise: of a flood, how far the middle half of its readings lies apart; of a PDR, the generator's by itself. No ratio either if the " +
			"machine limited one of the two, or the generator both; disturbed: there was no reading without other programs on these CPUs."
	}
	return t
}

func (r *Report) yardstickRow(y Yardstick) []string {
	generator, figure := cmp.Or(y.Generator, "causeway-perf"), cmp.Or(y.Figure, PDR)
	name := y.Name
	if y.Versions != "" {
		name, generator = named(y)
	}
	rate, sent, lost, noise, ratio := mpps(y.PPS), "-", fmt.Sprintf("≤ %s", percent(y.Loss)), r.noiseOf(y.Payload), "-"
	if figure == Flood {
		sent, lost, noise = mpps(y.Sent), percent(y.Lost), fmt.Sprintf("%.1f %%", y.Noise*100)
	}
	if y.Ratio > 0 {
		ratio = map[string]string{y.Limit: "≤ ", y.CausewayLimit: "≥ "}[trial.ByGenerator] + fmt.Sprintf("%.2f", y.Ratio)
	}
	if y.Limit == trial.ByMachine && (figure == Flood || y.PPS == 0) {
		rate, sent, lost, noise = trial.Disturbed, "-", "-", "-"
	}
	return []string{name, generator, y.Payload, figure, rate, sent, lost, noise, y.Limit, ratio}
}

// named are device and generator, with the versions of the one that is not Causeway's.
func named(y Yardstick) (device, generator string) {
	if y.Generator != "" {
		return y.Name, y.Generator + " (" + y.Versions + ")"
	}
	return y.Name + " (" + y.Versions + ")", "causeway-perf"
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
