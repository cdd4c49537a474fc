// SPDX-License-Identifier: Apache-2.0

package web

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"causeway/lcore"
)

var update = flag.Bool("update", false, "write docs/metrics.md")

// TestReference checks that docs/metrics.md agrees with the tables.
func TestReference(t *testing.T) {
	const file = "../../docs/metrics.md"
	if *update {
		if err := os.WriteFile(file, []byte(reference()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != reference() {
		t.Errorf("docs/metrics.md does not agree with the tables (%v); run go test ./app/web -run TestReference -update", err)
	}
}

// reference returns docs/metrics.md: the documentation of everything that is served, as Markdown.
func reference() string {
	var b strings.Builder
	b.WriteString(introduction)
	for _, p := range append(parts(), part{"The program", processMetrics}) {
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
	b.WriteString("\n## Drop reasons\n\nThe values of `reason` in `causeway_packets_dropped_total`, in the order of the checks; " +
		"`causeway drops` lists them, too.\n\n| reason | the packet |\n|---|---|\n")
	for _, d := range lcore.Drops() {
		fmt.Fprintf(b, "| `%v` | %s |\n", d, d.Sentence())
	}
	b.WriteString("\nThe values of `reason` in `causeway_pgm_faults_total`:\n\n| reason | the packet |\n|---|---|\n")
	for _, f := range pgmFaults() {
		fmt.Fprintf(b, "| `%s` | %s |\n", f[1], f[2])
	}
}

// pgmFaults returns the lines of lcore/pgm/fault.def: at [1] the name, at [2] the sentence.
func pgmFaults() [][]string {
	text, err := os.ReadFile("../../lcore/pgm/fault.def")
	if err != nil {
		panic(err)
	}
	return regexp.MustCompile(`(?m)^PGM_FAULT\((\w+), "(.*)"\)$`).FindAllStringSubmatch(string(text), -1)
}

// referenceKeys writes the keys of a type of /status.json, each followed by the keys of its value.
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

const introduction = `<!-- Made from app/web by "go test ./app/web -run TestReference -update"; do not edit. -->
# Metrics, health and status

With ` + "`[metrics] listen`" + ` the bridge serves this over HTTP, without authentication:

| address | answer |
|---|---|
| ` + "`/`" + ` | a [page](#the-page) for browsers |
| ` + "`/metrics`" + ` | the metrics below, in Prometheus' text format |
| ` + "`/healthz`" + ` | 200 and ` + "`ok`" + ` while every worker's loop counter moves. Otherwise, after two seconds, 503 and the reason. For a supervisor that restarts the bridge |
| ` + "`/readyz`" + ` | 200 and ` + "`ok`" + ` when the Ethernet port has a link, every configured group is joined on both sides, the path to every configured node has been found, and no new RoCE host or queue pair was refused in the last minute because a table is full. Otherwise 503 and the reasons, one a line; also 503 while the bridge stops. For a load balancer or an orchestrator |
| ` + "`/status.json`" + ` | the same as JSON, [below](#statusjson) |
| ` + "`/debug/pprof/`" + ` | Go's profiles, only with ` + "`[metrics] pprof = true`" + ` |

A [dashboard](grafana/causeway.json) for Grafana and [alert rules](alerts/causeway.rules.yml) for Prometheus use these metrics.

## The page

![the page of a bridge with traffic, in the dark](page-dark.png)

Both fabrics and the bridge between them, what goes from one to the other, the rates of the last ten minutes, drops with their
meaning, groups, hosts, nodes, latency, losses, what is missing for readiness, the last events; [in the light](page-light.png), too, as
the browser asks for. It fits a wall, a desk and a phone, changes nothing, and shows no secrets. Its tables are those of the [console's](console.md)
` + "`show`" + ` commands, 20 rows at most.

It is up to date every second, by server-sent events from ` + "`/events`" + `, for at most 16 pages at a time; one that has no news for five
seconds says so. Without scripts it is as it was when it was loaded. Everything that it loads is part of the bridge.

## Metrics

Counters start at 0 with the bridge, and every drop reason is there from the first scrape on. Labels are bounded: ` + "`direction`" + ` is ` + "`roce_to_ib` or `ib_to_roce`" + `, ` + "`worker`" + ` counts from 0,
` + "`reason` and `result`" + ` are fixed words, and ` + "`group`" + ` has as many values as there are groups. There are no labels for hosts and proxy
QPs: the console lists them. A metric without samples, such as PGM's in a bridge without ` + "`pgm`" + ` groups, still has its HELP and TYPE lines.

DPDK's telemetry socket is off (` + "`--no-telemetry`" + `): it needs a run-time folder that the bridge does without, for numbers of the
Ethernet port that are here under ` + "`causeway_port_…`" + `. What else it has, the EAL's memory and rings, does not change after the start.
`

const statusIntroduction = `
## /status.json

One object. Later versions may add keys; existing keys keep their names and meanings. Empty lists and objects are present. Numbers are
counts since the start, unless stated otherwise. The keys of an object follow the object's own line.

| key | type | meaning |
|---|---|---|
`
