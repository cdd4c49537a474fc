// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"causeway/dpdk"
	"causeway/perf/report"
	"causeway/perf/trial"
)

const fleetHelp = `Prints as a Markdown table what streams of messages lose when something happens to a fleet: for each event the least,
the median and the most over all runs, of that stream in a run which lost most. The file is what TestFleetOfBridges
appends to when CAUSEWAY_FLEET_FIGURES names it; make fleet-figures does both.`

// fleetCommand prints the figures of a fleet, and of what they are.
func fleetCommand(args []string) error {
	fs := newFlags("fleet", "FILE", fleetHelp)
	if err := parseFlags(fs, args, 1, 1); err != nil {
		return err
	}
	f, err := os.Open(fs.Arg(0))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := fleetTable(os.Stdout, f); err != nil {
		return fmt.Errorf("%s: %w", fs.Arg(0), err)
	}
	etcd, err := exec.Command("etcd", "--version").Output() // as the test starts it
	if err != nil {
		return fmt.Errorf("etcd --version: %w", err)
	}
	first, _, _ := strings.Cut(string(etcd), "\n")
	host := report.ThisHost()
	fmt.Printf("\n%s: %v, %s; Causeway %s, %s, etcd %s, %s.\n", time.Now().UTC().Format(time.DateOnly), host, host.System,
		version, dpdk.Version(), strings.TrimPrefix(first, "etcd Version: "), runtime.Version())
	return nil
}

// fleetTable makes the table, with the events in the order in which they come first.
func fleetTable(w io.Writer, figures io.Reader) error {
	var order []string
	lost := map[string][]float64{}
	for d := json.NewDecoder(figures); ; {
		var x struct {
			Event string
			Lost  *float64 `json:"lost_ms"`
		}
		if err := d.Decode(&x); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		if x.Event == "" || x.Lost == nil {
			return errors.New("a line has no event, or no lost_ms")
		}
		if lost[x.Event] == nil {
			order = append(order, x.Event)
		}
		lost[x.Event] = append(lost[x.Event], *x.Lost)
	}
	if order == nil {
		return errors.New("no event was measured")
	}
	fmt.Fprint(w, "| event | runs | least | median | most |\n|---|---|---|---|---|\n")
	for _, event := range order {
		all := lost[event]
		fmt.Fprintf(w, "| %s | %d | %.0f ms | %.0f ms | %.0f ms |\n", event, len(all), slices.Min(all), trial.Median(all), slices.Max(all))
	}
	return nil
}
