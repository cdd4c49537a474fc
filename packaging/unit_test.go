// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package packaging

import (
	"strings"
	"time"
)

// started checks that the bridge is ready, has a watchdog, and does not run as root.
func (m *machine) started() {
	if got := m.unit("ActiveState"); got != "active" {
		m.t.Fatalf("the unit is %s", got)
	}
	if out, err := m.run("systemd-analyze", "verify", "causeway.service"); err != nil || strings.Contains(out, "causeway") {
		m.t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	status := m.must("cat", "/proc/"+m.unit("MainPID")+"/status")
	for _, line := range []string{"CapEff:\t0000000000007000", "CapBnd:\t0000000000007000", "NoNewPrivs:\t1", "Seccomp:\t2"} {
		if !strings.Contains(status, line+"\n") {
			m.t.Errorf("its process does not have %q:\n%s", line, status)
		}
	}
	if strings.Contains(status, "Uid:\t0") {
		m.t.Errorf("it runs as root")
	}
	m.await("a line of status", func() bool { return strings.HasPrefix(m.unit("StatusText"), "Bridging: 1 group,") })
	m.t.Log(m.unit("StatusText"))
	if got := m.unit("WatchdogUSec"); got != "10s" {
		m.t.Errorf("the watchdog is %s", got)
	}
	time.Sleep(11 * time.Second) // longer than the watchdog's timeout
	if restarts := m.unit("NRestarts"); restarts != "0" {
		m.t.Errorf("%s restarts without a failure", restarts)
	}
}

// traffic has a node on the software subnet publish to the group, and checks that its messages leave on Ethernet.
func (m *machine) traffic() {
	m.must("causeway", "node", "-fabric", "/run/causeway/fabric.sock", "-role", "publish", "-name", "publisher",
		"-guid", "0x0002c90300000009", "-group", "239.1.2.3", "-rate", "100", "-count", "50")
	m.await("messages on Ethernet", func() bool {
		out := m.must("bash", "-c", `exec 3<>/dev/tcp/127.0.0.1/9432; printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3; cat <&3`)
		for line := range strings.Lines(out) {
			line = strings.TrimSpace(line)
			if strings.HasPrefix(line, "causeway_group_packets_sent_total{") && strings.Contains(line, "ib_to_roce") && strings.HasSuffix(line, " 50") {
				return true
			}
		}
		return false
	})
}

// reload checks that a file with mistakes is rejected without effect on the bridge, and that a valid one is applied by
// the same process.
func (m *machine) reload() {
	before := m.unit("MainPID")
	m.must("sh", "-c", "cp /etc/causeway/bridge.toml /root/; echo nonsense = 1 >>/etc/causeway/bridge.toml")
	if out, err := m.run("systemctl", "reload", "causeway"); err == nil {
		m.t.Errorf("a wrong file was applied: %s", out)
	}
	m.must("cp", "/root/bridge.toml", "/etc/causeway/bridge.toml")
	if out := m.must("journalctl", "--no-pager", "-u", "causeway", "-n", "10"); !strings.Contains(out, "nonsense") {
		m.t.Errorf("the journal does not name the mistake:\n%s", out)
	}
	m.must("systemctl", "reload", "causeway")
	time.Sleep(time.Second)
	if after, state := m.unit("MainPID"), m.unit("ActiveState"); after != before || state != "active" {
		m.t.Errorf("after reloads it is %s, its process %s; before, %s", state, after, before)
	}
}

// standstill stops one worker, and checks that systemd's watchdog kills the bridge and that systemd starts it again.
func (m *machine) standstill() {
	before := m.unit("MainPID")
	wait := stopThread(m.t, workerOf(m.t, m))
	begun := time.Now()
	m.await("a restart by the watchdog", func() bool { return m.unit("NRestarts") == "1" && m.unit("ActiveState") == "active" })
	m.t.Logf("the bridge is ready again %v after the worker's stop", time.Since(begun).Round(100*time.Millisecond))
	wait()
	if after := m.unit("MainPID"); after == before {
		m.t.Errorf("it is the same process %s", after)
	}
	log := m.must("journalctl", "--no-pager", "-u", "causeway")
	if !strings.Contains(log, "Watchdog timeout") {
		m.t.Errorf("the journal does not name the watchdog:\n%s", log)
	}
}

// removed removes the package while the bridge runs, and checks that nothing is left.
func (m *machine) removed() {
	pid := m.unit("MainPID")
	m.must("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-y", "remove", "causeway")
	if _, err := m.run("test", "-e", "/proc/"+pid); err == nil {
		m.t.Error("the bridge still runs")
	}
	if log := m.must("journalctl", "--no-pager", "-u", "causeway", "-n", "20"); !strings.Contains(log, "conserved=true") ||
		strings.Contains(log, "conserved=false") || !strings.Contains(log, "Deactivated successfully") {
		m.t.Errorf("the bridge did not stop as it should:\n%s", log)
	}
	m.must("test", "-e", "/etc/causeway/bridge.toml") // belongs to the operator, so it stays until the package is purged
	m.must("rm", "-f", "/etc/causeway/subnet.toml")
	m.must("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-y", "purge", "causeway")
	if left := m.must("sh", "-c", "find / -xdev -path /proc -prune -o -path /sys -prune -o -path '/var/log/*' -prune -o -path '/tmp/*' -prune -o "+
		"-path '/var/lib/apt/*' -prune -o -path '/root/*' -prune -o -iname '*causeway*' -print"); left != "" {
		m.t.Errorf("left behind:\n%s", left)
	}
	if out, err := m.run("getent", "passwd", "causeway"); err == nil {
		m.t.Errorf("left behind: %s", out)
	}
}
