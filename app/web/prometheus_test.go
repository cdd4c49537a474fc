// SPDX-License-Identifier: Apache-2.0

package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// tool returns the path of one of Prometheus' programs: in PATH, or where "make prometheus" puts it.
func tool(t *testing.T, name string) string {
	t.Helper()
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	path, err := filepath.Abs("../../bin/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Skipf("there is no %s, neither in PATH nor as bin/%s: make prometheus gets it", name, name)
	}
	return path
}

// TestPromtool has Prometheus' own checker check the rules, a scrape, and that the rules fire when they should.
func TestPromtool(t *testing.T) {
	promtool := tool(t, "promtool")
	for _, args := range [][]string{{"check", "rules", rulesFile}, {"test", "rules", "testdata/causeway.rules.test.yml"}} {
		if out, err := exec.Command(promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
	var b bytes.Buffer
	s := gather(newFake(), options())
	s.writeTo(&b)
	lint(t, promtool, b.String())
	lint(t, promtool, fetch(t, "http://"+liveBridge(t)+"/metrics"))
}

// lint checks that promtool has nothing to say of a scrape.
func lint(t *testing.T, promtool, scrape string) {
	t.Helper()
	cmd := exec.Command(promtool, "check", "metrics")
	cmd.Stdin = strings.NewReader(scrape)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}

// TestRulesAreTested checks that each rule has a test in which it fires, and one in which it keeps quiet.
func TestRulesAreTested(t *testing.T) {
	text, err := os.ReadFile("testdata/causeway.rules.test.yml")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rules(t) {
		if !regexp.MustCompile(`alertname: ` + r.where + `\n +exp_alerts:\n +- exp_labels:`).Match(text) {
			t.Errorf("no test has %s fire", r.where)
		}
		if !regexp.MustCompile(`alertname: ` + r.where + `\n +exp_alerts: \[\]\n`).Match(text) {
			t.Errorf("no test has %s keep quiet", r.where)
		}
	}
}

// A server is a Prometheus that scrapes a bridge each second.
type server struct {
	t       *testing.T
	address string
	out     *bytes.Buffer
}

func startPrometheus(t *testing.T, bridge string) *server {
	t.Helper()
	program, dir := tool(t, "prometheus"), t.TempDir()
	rules, err := filepath.Abs(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, address: l.Addr().String(), out: new(bytes.Buffer)}
	l.Close()
	file := filepath.Join(dir, "prometheus.yml")
	text := fmt.Sprintf("global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [%q]\nscrape_configs:\n"+
		"  - job_name: causeway\n    static_configs: [{targets: [%q]}]\n", rules, bridge)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+s.address)
	cmd.Stderr = s.out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // an error means that it has ended
		_ = cmd.Wait()         // by the signal
	})
	return s
}

// A result is Prometheus' answer to a query.
type result struct {
	Status, Error string
	Data          struct {
		Result []struct {
			Metric map[string]string
			Value  [2]any
		}
	}
}

func (s *server) query(expr string) (r result, err error) {
	answer, err := http.Get("http://" + s.address + "/api/v1/query?query=" + url.QueryEscape(expr))
	if err != nil {
		return r, err
	}
	defer answer.Body.Close()
	return r, json.NewDecoder(answer.Body).Decode(&r)
}

// await waits until there are so many scrapes.
func (s *server) await(n int) {
	s.t.Helper()
	for until := time.Now().Add(time.Minute); time.Now().Before(until); time.Sleep(200 * time.Millisecond) {
		r, err := s.query("count_over_time(causeway_ready[1m])")
		if err == nil && len(r.Data.Result) == 1 && r.Data.Result[0].Value[1] != "" {
			var have int
			if _, err := fmt.Sscan(r.Data.Result[0].Value[1].(string), &have); err == nil && have >= n {
				return
			}
		}
	}
	s.t.Fatalf("Prometheus does not scrape; its output:\n%s", s.out)
}

// A rule ends with a comparison: without it, the rule's expression has a value whether the rule fires or not.
var comparison = regexp.MustCompile(` (==|>) [0-9.]+( and causeway_draining == 0)?$`)

// evaluate has a Prometheus scrape the bridge and evaluates every query. Each must have an answer, except those that
// have one only when something is lost.
func evaluate(t *testing.T, bridge string) {
	s := startPrometheus(t, bridge)
	s.await(5)
	for _, q := range queries(t) {
		full, err := s.query(q.expr)
		if err != nil || full.Status != "success" {
			t.Errorf("%s: %s: %v, %s", q.where, q.expr, err, full.Error)
			continue
		}
		if strings.HasPrefix(q.where, "Causeway") && len(full.Data.Result) > 0 && !expected[q.where] {
			t.Errorf("%s fires on a healthy bridge: %v", q.where, full.Data.Result)
		}
		if q.where == "CausewayDamagedPackets" && len(full.Data.Result) == 0 {
			t.Errorf("%s does not fire, though every fourth packet is damaged", q.where)
		}
		open := strings.TrimSuffix(comparison.ReplaceAllString(q.expr, ""), " > 0")
		r, err := s.query(open)
		if err != nil || r.Status != "success" {
			t.Errorf("%s: %s: %v, %s", q.where, open, err, r.Error)
		} else if answered := len(r.Data.Result) > 0; answered == absent[q.where] {
			t.Errorf("%s: %s: an answer: %v", q.where, open, answered)
		}
	}
}

// absent are the rules and panels about what the bridge does not have, a bond, several segments and a fleet. That the rules fire is
// for their own tests.
var absent = map[string]bool{
	"CausewayBondMemberFailed": true, "CausewayBondMemberFlaps": true, "CausewaySegmentNearLimit": true,
	"CausewayFleetNoPart": true, "CausewayFleetNoLease": true, "CausewayFleetLeaseLapses": true, "CausewayFleetWithoutEtcd": true, "CausewayFleetPeerDown": true, "CausewayFleetShardsOwnerless": true,
	"Shards by member": true, "Leases left": true, "Lapses of leases": true, "Members heard": true, "Without etcd": true,
}

// expected are the rules that fire on the live bridge, which gets damaged packets; and those that may, because it
// shares its cores with other tests.
var expected = map[string]bool{
	"CausewayDamagedPackets": true,
	"CausewayLatencyHigh":    true, "CausewayPortMissesFrames": true, "CausewayIBPortLoses": true, "CausewayPortFull": true, "CausewayPoolEmpty": true,
	"CausewayLimitReached": true, // the first bursts wait for management to make their sender's proxy QP
}
