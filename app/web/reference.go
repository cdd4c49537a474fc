// SPDX-License-Identifier: Apache-2.0

package web

import (
	"fmt"
	"reflect"
	"strings"

	"causeway/lcore"
	"causeway/lcore/pgm"
)

// Reference returns the documentation of all that is served as Markdown. docs/metrics.md is this text; a test compares them.
func Reference() string {
	var b strings.Builder
	b.WriteString(introduction)
	for _, p := range parts() {
		fmt.Fprintf(&b, "\n### %s\n\n| metric | type | labels | meaning |\n|---|---|---|---|\n", p.title)
		for _, m := range p.metrics {
			labels := "`" + strings.Join(m.Labels, "`, `") + "`"
			if len(m.Labels) == 0 {
				labels = ""
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.Name, m.Kind, labels, m.Help)
		}
	}
	referenceDrops(&b)
	b.WriteString(statusIntroduction)
	referenceKeys(&b, "", reflect.TypeFor[Status]())
	return b.String()
}

// referenceDrops explains the values of the label reason.
func referenceDrops(b *strings.Builder) {
	b.WriteString("\n## Why packets end\n\nThe values of `reason` in `causeway_packets_dropped_total`, in the order of the checks; " +
		"`causeway drops` lists them, too.\n\n| reason | the packet |\n|---|---|\n")
	for _, d := range lcore.Drops() {
		fmt.Fprintf(b, "| `%v` | %s |\n", d, d.Sentence())
	}
	b.WriteString("\nThe values of `reason` in `causeway_pgm_faults_total`:\n\n| reason | the packet |\n|---|---|\n")
	for f := range pgm.Fault(pgm.NFaults - 1) {
		fmt.Fprintf(b, "| `%v` | %s |\n", f+1, (f + 1).Sentence())
	}
}

// referenceKeys writes the keys of a type of /status.json, and after each those of what it holds.
func referenceKeys(b *strings.Builder, under string, t reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, of, kind := under+f.Tag.Get("json"), f.Type, ""
		switch of.Kind() {
		case reflect.Slice:
			kind, of, name = "list of ", of.Elem(), name+"[]"
		case reflect.Map:
			kind, of, name = "object of ", of.Elem(), name+".KEY"
		}
		switch of.Kind() {
		case reflect.Struct:
			kind += "objects"
		case reflect.Map:
			kind += "objects of numbers"
		case reflect.String:
			kind += "strings"
		case reflect.Bool:
			kind = "true or false"
		default:
			kind += "numbers"
		}
		if of == f.Type { // one of them
			kind = strings.TrimSuffix(kind, "s")
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", under+f.Tag.Get("json"), kind, f.Tag.Get("is"))
		if of.Kind() == reflect.Struct {
			referenceKeys(b, name+".", of)
		}
	}
}

// A part is a section of the metrics' table.
type part struct {
	title   string
	metrics []Metric
}

const introduction = `<!-- Made from app/web by "go test ./app/web -run TestReference -update"; do not edit. -->
# Metrics, health and status

With ` + "`[metrics] listen`" + ` the bridge serves this over HTTP, to whoever can connect:

| address | answer |
|---|---|
| ` + "`/`" + ` | a page for people |
| ` + "`/metrics`" + ` | what is below, in Prometheus' text format |
| ` + "`/healthz`" + ` | 200 and ` + "`ok`" + ` while every worker makes progress: its loop counter moves between two looks. Otherwise, after two seconds, 503 and one line why. For who restarts the bridge |
| ` + "`/readyz`" + ` | 200 and ` + "`ok`" + ` when every configured group is joined on both sides and every configured node has its path. Otherwise 503 and what is awaited, a line each; and 503 from the signal that ends the bridge on. For who sends traffic |
| ` + "`/status.json`" + ` | all of this for programs, [below](#statusjson) |
| ` + "`/debug/pprof/`" + ` | Go's profiles, only with ` + "`[metrics] pprof = true`" + ` |

A [dashboard](grafana/causeway.json) for Grafana and [alert rules](alerts/causeway.rules.yml) for Prometheus use these metrics.

## Metrics

Counters begin with 0 when the bridge starts, and every drop reason is there from the first scrape on, so that a rate has a beginning. Labels are
bounded: ` + "`direction`" + ` is ` + "`roce_to_ib` or `ib_to_roce`" + `, ` + "`worker`" + ` counts the workers from 0, ` + "`reason` and `result`" + ` are the
bridge's own words, and there are as many values of ` + "`group`" + ` as groups. Hosts and stand-ins have none: the console lists them. A metric
without samples, such as PGM's in a bridge without ` + "`pgm`" + ` groups, still has its HELP and TYPE lines.

Beside these there are ` + "`go_…` and `process_…`" + ` of the program itself: memory, CPU time, garbage collection.

DPDK's own telemetry socket stays closed (` + "`--no-telemetry`" + `): it would be one more door, in a run-time folder that the bridge does without, for
numbers of the Ethernet port that are here under ` + "`causeway_port_…`" + `. The EAL's view of memory and rings, which it has beside, is fixed from the start on.
`

const statusIntroduction = `
## /status.json

One object. Keys are added from version to version, but those that are there keep their names and meanings. Lists and objects that are empty are there, too.
Numbers are counts since the start, where nothing else is said. Keys within an object follow its own line.

| key | type | meaning |
|---|---|---|
`
