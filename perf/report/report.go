// SPDX-License-Identifier: Apache-2.0

// Package report saves measurements as JSON and as an HTML page with plots, and compares two reports.
package report

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"causeway/perf/profile"
	"causeway/perf/trial"
)

// Schema is the version of the JSON. It changes when the meaning of a field does.
const Schema = 1

// Report is one run.
type Report struct {
	Schema     int               `json:"schema"`
	Started    time.Time         `json:"started"`
	Seconds    float64           `json:"seconds"`
	Command    []string          `json:"command"`
	Host       Host              `json:"host"`
	Versions   map[string]string `json:"versions"`
	Device     string            `json:"device"` // what was measured, in a sentence
	Profile    *profile.Profile  `json:"profile"`
	Method     []string          `json:"method"` // sentences
	Ceiling    []Ceiling         `json:"generator"`
	Cases      []Case            `json:"cases"`
	Yardsticks []Yardstick       `json:"yardsticks,omitempty"`
	Notes      []string          `json:"notes,omitempty"`
}

// Ceiling is what one generator can do by itself, through a loopback. A figure of a device is above it only by what the
// machine's speed changes.
type Ceiling struct {
	Payload string        `json:"payload"`
	PPS     float64       `json:"pps"`     // the best of several floods
	Noise   float64       `json:"noise"`   // how far the middle half of them lies apart, as a part of their median
	Latency trial.Latency `json:"latency"` // at a tenth of it
}

// Case is what was measured of one combination of direction, traffic and payload.
type Case struct {
	Name      string            `json:"name"`
	Direction string            `json:"direction"`
	Traffic   string            `json:"traffic"`
	Payload   string            `json:"payload"`
	Bytes     float64           `json:"payload_bytes"` // on average
	NDR       *trial.Throughput `json:"ndr,omitempty"`
	PDR       *trial.Throughput `json:"pdr,omitempty"`
	Latency   []trial.Latency   `json:"latency,omitempty"`
	Trials    []trial.Step      `json:"latency_trials,omitempty"`
	Loss      []trial.Step      `json:"loss,omitempty"`
	Burst     *trial.Burst      `json:"burst,omitempty"`
	Soak      *trial.Soak       `json:"soak,omitempty"`
	Multicast *trial.Multicast  `json:"multicast,omitempty"`
	Problem   string            `json:"problem,omitempty"` // why tests are missing
}

// Gbps returns gigabits of payload a second at a rate.
func (c *Case) Gbps(pps float64) float64 { return pps * c.Bytes * 8 / 1e9 }

// Save writes report.json, report.html and PNG plots into a folder, which it makes, and returns the name of the page.
func (r *Report) Save(dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("report: %w", err)
	}
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return "", fmt.Errorf("report: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "report.json"), append(b, '\n'), 0o644); err != nil {
		return "", fmt.Errorf("report: %w", err)
	}
	return r.SavePage(dir)
}

// Load reads a report.json; name is the file or its folder.
func Load(name string) (*Report, error) {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		name = filepath.Join(name, "report.json")
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	var r Report
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, fmt.Errorf("report: %s: %w", name, err)
	}
	if r.Schema != Schema {
		return nil, fmt.Errorf("report: %s: schema %d, but this program reads %d; measure again, or use the version that wrote it", name, r.Schema, Schema)
	}
	return &r, nil
}
