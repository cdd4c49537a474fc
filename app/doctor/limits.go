// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"causeway/app/rights"
	"causeway/config"
)

// A limitsProbe checks the limits of this process. The bridge may run as another user, or under a service manager that
// sets other limits.
type limitsProbe struct {
	cfg  *config.Config // nil: none
	proc tree
}

func newLimitsProbe(c *config.Config, s Sources) *limitsProbe {
	return &limitsProbe{cfg: c, proc: tree{s.Proc}}
}

func (p *limitsProbe) has(bit uint) bool {
	set, _ := strconv.ParseUint(field(p.proc.text("self/status"), "CapEff"), 16, 64)
	return set>>bit&1 == 1
}

// checkCapabilities requires the capabilities of the ports.
func (p *limitsProbe) checkCapabilities() []Finding {
	if p.cfg == nil {
		return nil
	}
	var lacks []string
	needed := rights.Needed(p.cfg)
	for _, r := range needed {
		if !p.has(r.Bit) {
			lacks = append(lacks, fmt.Sprintf("%s, by which the bridge %s", strings.ToUpper(r.String()), r.Why))
		}
	}
	switch {
	case len(lacks) > 0:
		return []Finding{bad(Fail, "this user has no "+strings.Join(lacks, "; and no "), "# run the bridge as root; or: "+
			"setcap cap_net_raw,cap_net_admin,cap_ipc_lock+ep on its program; or AmbientCapabilities in its systemd unit")}
	case len(needed) > 0:
		return fine("this user may do what the ports take")
	}
	return nil
}

// limit returns a soft limit (proc(5), /proc/PID/limits).
func (p *limitsProbe) limit(name string) uint64 {
	for line := range strings.Lines(p.proc.text("self/limits")) {
		rest, is := strings.CutPrefix(line, name)
		fields := strings.Fields(rest)
		if !is || len(fields) == 0 {
			continue
		}
		if n, err := strconv.ParseUint(fields[0], 10, 64); err == nil {
			return n
		}
	}
	return math.MaxUint64
}

// checkMemlock requires packet memory to be lockable, because devices access it. Hugepages count, too.
func (p *limitsProbe) checkMemlock() []Finding {
	if p.cfg == nil || p.cfg.IB.Port.Fabric && p.cfg.RoCE.Port.Driver != "mlx5" {
		return nil
	}
	const mib = 1 << 20
	n, want := p.limit("Max locked memory")/mib, uint64(p.cfg.Workers.MemoryMiB)
	if p.has(unix.CAP_IPC_LOCK) || n >= want {
		return fine("memory can be locked")
	}
	return []Finding{bad(Fail, fmt.Sprintf("%d MiB of memory can be locked, for devices to reach; [workers] memory_mib is %d", n, want),
		"# ulimit -l unlimited, in the shell that starts the bridge; LimitMEMLOCK=infinity in its systemd unit; docker run --ulimit "+
			"memlock=-1")}
}

// checkOpenFiles requires enough open files: queues of af_packet and tap, and connections of the console and of
// metrics.
func (p *limitsProbe) checkOpenFiles() []Finding {
	const spare, each = 128, 8
	want := uint64(spare)
	if p.cfg != nil {
		want += each * uint64(len(p.cfg.Workers.LCores))
	}
	n := p.limit("Max open files")
	if n >= want {
		return fine("enough open files")
	}
	return []Finding{bad(Warn, fmt.Sprintf("%d files can be open, the bridge may need %d", n, want),
		fmt.Sprintf("# ulimit -n %d, in the shell that starts the bridge; LimitNOFILE=%[1]d in its systemd unit", max(want, 1024)))}
}
