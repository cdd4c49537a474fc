// SPDX-License-Identifier: Apache-2.0

package web

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	dashboardFile = "../../docs/grafana/causeway.json"
	rulesFile     = "../../docs/alerts/causeway.rules.yml"
)

// A query is one expression of the dashboard or the rules.
type query struct {
	where string
	expr  string
}

// panel is the part of a panel that the tests read.
type panel struct {
	ID      int
	Type    string
	Title   string
	GridPos struct{ H, W, X, Y int }
	Targets []struct{ Expr, LegendFormat, RefID string }
}

func dashboard(t *testing.T) []panel {
	t.Helper()
	text, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		UID        string
		Panels     []panel
		Templating struct{ List []struct{ Name, Type string } }
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	if d.UID != "causeway" || len(d.Panels) < 15 || len(d.Templating.List) != 2 || d.Templating.List[1].Name != "instance" {
		t.Errorf("uid %q, %d panels, variables %v", d.UID, len(d.Panels), d.Templating.List)
	}
	return d.Panels
}

// rules returns the names and expressions of the rules, each of which is on one line.
func rules(t *testing.T) (all []query) {
	t.Helper()
	text, err := os.ReadFile(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^ +- alert: (\w+)\n +expr: (.+)$`).FindAllStringSubmatch(string(text), -1) {
		all = append(all, query{m[1], m[2]})
	}
	if n := strings.Count(string(text), "alert:"); len(all) != n || n < 15 {
		t.Fatalf("%d of %d rules were read", len(all), n)
	}
	return all
}

// queries returns every expression, with the dashboard's variables filled in.
func queries(t *testing.T) (all []query) {
	t.Helper()
	filled := strings.NewReplacer("$__rate_interval", "5s", "$instance", ".*")
	for _, p := range dashboard(t) {
		for _, x := range p.Targets {
			all = append(all, query{p.Title, filled.Replace(x.Expr)})
		}
	}
	return append(all, rules(t)...)
}

// TestDashboard checks that the dashboard can be drawn: each panel has an id of its own, lies in the grid and over no
// other one, and has a title, queries and legends.
func TestDashboard(t *testing.T) {
	taken, ids, titles := map[[2]int]string{}, map[int]bool{}, map[string]bool{}
	for _, p := range dashboard(t) {
		g := p.GridPos
		if ids[p.ID] || p.ID == 0 || titles[p.Title] || p.Title == "" || g.W < 1 || g.H < 1 || g.X < 0 || g.X+g.W > 24 {
			t.Errorf("panel %d, %q at %+v: bad, or twice", p.ID, p.Title, g)
		}
		ids[p.ID], titles[p.Title] = true, true
		for x := g.X; x < g.X+g.W; x++ {
			for y := g.Y; y < g.Y+g.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" {
					t.Fatalf("%q lies over %q", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if (p.Type == "row") != (len(p.Targets) == 0) {
			t.Errorf("%q: %d queries", p.Title, len(p.Targets))
		}
		refs := map[string]bool{}
		for _, x := range p.Targets {
			if refs[x.RefID] || x.LegendFormat == "" || !strings.Contains(x.Expr, `instance=~"$instance"`) {
				t.Errorf("%q: query %s: bad, or twice", p.Title, x.RefID)
			}
			refs[x.RefID] = true
		}
	}
}

// TestDashboardLosses checks that everything that is lost here is drawn, and what the device loses, by
// counter.
func TestDashboardLosses(t *testing.T) {
	var drawn strings.Builder
	for _, p := range dashboard(t) {
		for _, x := range p.Targets {
			drawn.WriteString(x.Expr + "\n")
		}
	}
	for _, m := range allMetrics() {
		if m.Name == "causeway_groups_lost_total" || strings.HasPrefix(m.Name, "causeway_pgm_") { // of streams, on their way here
			continue
		}
		if regexp.MustCompile(`_(lost|missed|errors|no_mbuf)_total$`).MatchString(m.Name) && !strings.Contains(drawn.String(), m.Name+"{") {
			t.Errorf("no panel has %s", m.Name)
		}
	}
	if !strings.Contains(drawn.String(), "by (instance, name) (rate(causeway_ib_device_lost_total{") {
		t.Error("the devices' losses are not by counter")
	}
}

// TestRules checks that each rule has a duration, a severity, a summary and advice.
func TestRules(t *testing.T) {
	text, err := os.ReadFile(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	whole := regexp.MustCompile(`^ \w+\n        expr: .+\n        for: \d+[ms]\n        labels: \{severity: (critical|warning)\}\n        annotations:\n` +
		`          summary: ".*[^."]"\n          runbook: ".+\."\n\s*$`)
	names := map[string]bool{}
	for _, rule := range strings.Split(string(text), "      - alert:")[1:] {
		name, _, _ := strings.Cut(strings.TrimSpace(rule), "\n")
		if !whole.MatchString(rule) || names[name] || !strings.HasPrefix(name, "Causeway") {
			t.Errorf("%s: not as the others, or twice", name)
		}
		names[name] = true
	}
}

// scraped is the content of a scrape: by name, the values of each label.
type scraped map[string]map[string][]string

var (
	samplePattern = regexp.MustCompile(`^([a-z_]+)(?:\{(.*)\})? \S+$`)
	labelPattern  = regexp.MustCompile(`([a-z_]+)="((?:[^"\\]|\\.)*)"`)
)

func fetch(t *testing.T, url string) string {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d, %v: %s", url, r.StatusCode, err, text)
	}
	return string(text)
}

func scrapeOf(text string) scraped {
	s := scraped{}
	for line := range strings.Lines(text) {
		m := samplePattern.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if m == nil {
			continue
		}
		if s[m[1]] == nil {
			s[m[1]] = map[string][]string{}
		}
		for _, l := range labelPattern.FindAllStringSubmatch(m[2], -1) {
			s[m[1]][l[1]] = append(s[m[1]][l[1]], l[2])
		}
	}
	return s
}

var (
	selector = regexp.MustCompile(`((?:causeway|go|process)_[a-z_]+|up)\b(?:\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`([a-z_]+)(=~|=)"([^"]*)"`)
	grouping = regexp.MustCompile(`(?:by|without) \(([^)]*)\)`)
)

// check says which metrics and labels of a query the scrape does not have. Prometheus adds job and instance itself.
func (s scraped) check(q query) (wrong []string) {
	labels := map[string]bool{"instance": true, "job": true}
	for _, m := range selector.FindAllStringSubmatch(grouping.ReplaceAllString(q.expr, ""), -1) {
		metric, ok := s[m[1]]
		if !ok && m[1] != "up" {
			wrong = append(wrong, "no metric "+m[1])
			continue
		}
		for l := range metric {
			labels[l] = true
		}
		for _, l := range matcher.FindAllStringSubmatch(m[2], -1) {
			if l[1] == "instance" || l[1] == "job" {
				continue
			}
			for _, value := range strings.Split(l[3], "|") {
				if !slices.Contains(metric[l[1]], value) {
					wrong = append(wrong, fmt.Sprintf("%s has no %s=%q", m[1], l[1], value))
				}
			}
		}
	}
	for _, m := range grouping.FindAllStringSubmatch(q.expr, -1) {
		for _, l := range strings.Split(m[1], ", ") {
			if !labels[l] {
				wrong = append(wrong, "no label "+l)
			}
		}
	}
	return wrong
}

// TestLive checks a running bridge with traffic: its metrics are those that are documented, its pages answer, and the
// metrics in every query of the dashboard and the rules exist.
func TestLive(t *testing.T) {
	address := liveBridge(t)
	awaitTraffic(t, address)
	for _, path := range []string{"/healthz", "/readyz"} {
		if text := fetch(t, "http://"+address+path); text != "ok\n" {
			t.Errorf("%s: %q", path, text)
		}
	}
	t.Run("metrics", func(t *testing.T) { documented(t, fetch(t, "http://"+address+"/metrics")) })
	t.Run("queries", func(t *testing.T) {
		s := scrapeOf(fetch(t, "http://"+address+"/metrics"))
		for _, q := range queries(t) {
			if strings.Contains(q.expr, "causeway_bond_") { // its port is no bond
				continue
			}
			if strings.Contains(q.expr, "causeway_fleet_") { // it is in no fleet: TestFleetQueries checks these
				continue
			}
			for _, wrong := range s.check(q) {
				t.Errorf("%s: %s: %s", q.where, q.expr, wrong)
			}
		}
		if s.check(query{"", "sum by (nosuch) (rate(causeway_nosuch_total[5m]))"}) == nil || s.check(query{"", `causeway_sidr_total{result="nosuch"}`}) == nil {
			t.Error("the check finds nothing")
		}
	})
	t.Run("prometheus", func(t *testing.T) { evaluate(t, address) })
}

// awaitTraffic waits until packets have crossed both ways and some were dropped.
func awaitTraffic(t *testing.T, address string) {
	t.Helper()
	var s Status
	for until := time.Now().Add(time.Minute); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		if err := json.Unmarshal([]byte(fetch(t, "http://"+address+"/status.json")), &s); err != nil {
			t.Fatal(err)
		}
		in, out := s.Directions["roce_to_ib"], s.Directions["ib_to_roce"]
		if s.Ready && in.Sent > 100 && out.Sent > 100 && in.Drops["icrc"] > 100 && s.Groups[0].Packets["roce_to_ib"] > 100 {
			return
		}
	}
	t.Fatalf("no traffic: %+v", s)
}

// documented checks that the scrape has exactly the names of the table, each with its type and its labels.
func documented(t *testing.T, text string) {
	kinds := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (causeway_\w+) (\w+)$`).FindAllStringSubmatch(text, -1) {
		kinds[m[1]] = m[2]
	}
	for _, m := range allMetrics() {
		if kinds[m.Name] != string(m.Kind) {
			t.Errorf("%s: a %s, not a %q", m.Name, m.Kind, kinds[m.Name])
		}
		delete(kinds, m.Name)
	}
	for name := range kinds {
		t.Errorf("%s is not in the table", name)
	}
	for _, m := range processMetrics {
		if !strings.Contains(text, fmt.Sprintf("\n# HELP %s %s\n# TYPE %[1]s %[3]s\n%[1]s", m.Name, m.Help, m.Kind)) {
			t.Errorf("%s is missing, or not a %s", m.Name, m.Kind)
		}
	}
}
