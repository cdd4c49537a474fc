// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"causeway/ibside"
)

// losses are the device's counters of losses since the port was opened.
type losses struct {
	dirs []string
	base map[string]uint64 // as they were then
}

// openLosses begins to count. root is /sys.
func openLosses(root string, cfg *Config) losses {
	device := filepath.Join(root, "class/infiniband", cfg.Device)
	port := filepath.Join(device, "ports", strconv.Itoa(cfg.Port))
	l := losses{dirs: []string{filepath.Join(port, "counters"), filepath.Join(port, "hw_counters"), filepath.Join(device, "hw_counters")}}
	l.base = l.read()
	return l
}

// since returns the counters that the device has. One that somebody has reset counts from there.
func (l *losses) since() map[string]uint64 {
	now := l.read()
	for name, base := range l.base {
		if n, has := now[name]; has && n >= base {
			now[name] = n - base
		}
	}
	return now
}

// read reads the counters that the device has. It can take some milliseconds, for a port may be asked by a MAD.
func (l *losses) read() map[string]uint64 {
	all := map[string]uint64{}
	for _, c := range ibside.LossCounters() {
		for _, dir := range l.dirs {
			text, err := os.ReadFile(filepath.Join(dir, c.Name))
			if err != nil {
				continue
			}
			if n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64); err == nil { // "N/A": it does not count
				all[c.Name] = n
				break
			}
		}
	}
	return all
}

// LostByDevice implements ibside.OpenPort.
func (p *Port) LostByDevice() map[string]uint64 {
	all := p.losses.since()
	all["qpn_rest_cut"] = p.counters().RestsCut
	return all
}
