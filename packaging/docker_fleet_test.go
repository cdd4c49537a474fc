// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package packaging

import (
	"fmt"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// fleetUp runs docker/fleet.yaml. The container of the bridge that carries the host's messages is killed, and started again:
// the others have its shards, and then it has its part. Messages are lost meanwhile, but none comes twice, and each bridge
// that is ended accounts for every packet.
func fleetUp(t *testing.T, compose []string, image, voter string) {
	c := compositionOf(t, compose, "fleet.yaml", "IMAGE="+image, "ETCD="+voter)
	c.up(t) // returns when the bridges are ready
	all := map[string]string{}
	for _, name := range []string{"m1", "m2", "m3"} {
		all[name] = c.id(t, name)
	}
	every := slices.Collect(maps.Values(all))
	divided(t, every...)
	killed := all[owner(t, every[0], c.id(t, "host"))]
	must(t, "docker", "kill", killed)
	divided(t, slices.DeleteFunc(slices.Clone(every), func(id string) bool { return id == killed })...)
	must(t, "docker", "start", killed)
	divided(t, every...)
	for _, service := range []string{"host", "node"} {
		must(t, "docker", "stop", c.id(t, service))
	}
	said := must(t, "docker", "logs", c.id(t, "node"))
	t.Logf("node:\n%s", said)
	if !regexp.MustCompile(` [1-9]\d* received, .* [1-9]\d* lost, 0 duplicates, 0 corrupted, 0 reordered`).MatchString(said) {
		t.Error("not each message came once and in order, but for some that were lost with the bridge")
	}
	for name, id := range all {
		must(t, "docker", "stop", id)
		if said := must(t, "docker", "logs", id); !strings.Contains(said, "conserved=true") || strings.Contains(said, "conserved=false") {
			t.Errorf("%s does not account for all packets:\n%s", name, tail(said))
		}
	}
}

// owner asks a bridge which of them has the shard of a host.
func owner(t *testing.T, bridge, host string) string {
	t.Helper()
	const mac = "{{range .NetworkSettings.Networks}}{{.MacAddress}}{{end}}"
	plan := must(t, "docker", "exec", bridge, "causeway", "fleet", "plan", "-member", "any", "-host", must(t, "docker", "inspect", "-f", mac, host))
	shard := regexp.MustCompile(`host/\d+`).FindString(plan)
	all := must(t, "docker", "exec", bridge, "causeway", "ctl", "show", "shards")
	has := regexp.MustCompile(`(?m)^` + shard + ` +\S+ +(m\d) `).FindStringSubmatch(all)
	if shard == "" || has == nil {
		t.Fatalf("nobody has the shard of the host:\n%s\n%s", plan, all)
	}
	t.Logf("%s is %s's", shard, has[1])
	return has[1]
}

var open = regexp.MustCompile(`This bridge has (\d+) host and (\d+) group shards open`)

// divided waits until these bridges have all shards open, each its part.
func divided(t *testing.T, bridges ...string) {
	t.Helper()
	const allHosts, allGroups = 64, 4096 // shards
	began, said := time.Now(), ""
	for time.Since(began) < time.Minute {
		said = ""
		hosts, groups, each := 0, 0, true
		for _, id := range bridges {
			out, _ := exec.Command("docker", "exec", id, "causeway", "ctl", "show", "fleet").CombinedOutput() // what is wrong is said in time
			said += string(out)
			var h, g int
			if m := open.FindStringSubmatch(strings.Join(strings.Fields(string(out)), " ")); m != nil {
				_, _ = fmt.Sscan(m[1]+" "+m[2], &h, &g)
			}
			hosts, groups, each = hosts+h, groups+g, each && h >= allHosts/len(bridges) && g >= allGroups/len(bridges)
		}
		if each && hosts == allHosts && groups == allGroups {
			t.Logf("%d bridges share the work after %v", len(bridges), time.Since(began).Round(100*time.Millisecond))
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("%d bridges do not share the work:\n%s", len(bridges), said)
}
