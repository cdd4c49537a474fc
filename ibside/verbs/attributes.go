// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
)

// attributes are the port's attributes as read from the device, and the choices made from them: the own GID, the P_Key
// where none is configured, and the numbers of the GIDs.
type attributes struct {
	cfg *Config
	dev interface{ readPort() (PortInfo, error) }

	queuePairs int  // that the device says it has
	direct     bool // workers use the device's queues without its library

	mu      sync.RWMutex
	port    PortInfo
	sources sources
}

// checkPort checks that the port can be used, once it has been read.
func (a *attributes) checkPort() error {
	info := &a.port
	if !info.Active {
		return fmt.Errorf("verbs: %s: the port is not active; bring its link up", a.cfg.name())
	}
	if a.cfg.PKey == 0 && len(info.PKeys) > 0 {
		a.cfg.PKey = info.PKeys[0]
	}
	own, err := ownGID(info.GIDs, info.Ethernet, a.cfg.GID)
	if err != nil {
		return fmt.Errorf("verbs: %s: %w", a.cfg.name(), err)
	}
	info.GID = own
	a.sources.number(own, gidsOf(usable(info.GIDs, info.Ethernet)), time.Now())
	return nil
}

// Info implements ibside.OpenPort.
func (a *attributes) Info() ibside.Info {
	info := a.portInfo().Info
	info.Down = whyDown(a.cfg.name(), a.portInfo().State)
	info.Receives, info.QueuePairs, info.Direct = a.cfg.Receives*a.cfg.Workers, a.queuePairs, a.direct
	return info
}

func (a *attributes) portInfo() PortInfo {
	a.mu.RLock()
	defer a.mu.RUnlock()
	info := a.port
	info.PKeys, info.GIDs = slices.Clone(info.PKeys), slices.Clone(info.GIDs)
	return info
}

// refreshPort reads the port again. The bridge's own GID stays as it was chosen.
func (a *attributes) refreshPort() error {
	info, err := a.dev.readPort()
	if err != nil {
		return fmt.Errorf("verbs: %s: read the port: %w", a.cfg.name(), err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	info.Device, info.Num, info.GID = a.cfg.Device, a.cfg.Port, a.port.GID
	a.port = info
	if !info.GID.IsZero() { // else it is still to be chosen
		a.sources.number(info.GID, gidsOf(usable(info.GIDs, info.Ethernet)), time.Now())
	}
	return nil
}

// Own implements ibside.Port.
func (a *attributes) Own() ibside.Own {
	a.mu.RLock()
	defer a.mu.RUnlock()
	o := ibside.Own{LID: a.port.LID, LMC: a.port.LMC, GIDs: gidsOf(usable(a.port.GIDs, a.port.Ethernet)), Sources: a.sources.list(), PKeys: slices.Clone(a.port.PKeys)}
	for _, e := range a.port.GIDs {
		if e.Index > maxGIDIndex {
			o.Beyond++
		}
	}
	return o
}

// sourceGID returns the GID to send from for a number: the bridge's own where the port has lost that number's.
func (a *attributes) sourceGID(number uint8) ib.GID {
	a.mu.RLock()
	defer a.mu.RUnlock()
	g, ok := a.sources.of(number)
	if !ok {
		g = a.sources.gid[0]
	}
	return cmp.Or(g, a.port.GID)
}

// indexOf returns the index of a P_Key in the port's table.
func (a *attributes) indexOf(pkey ib.PKey) (uint16, error) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	index := slices.Index(a.port.PKeys, pkey)
	if index < 0 {
		return 0, fmt.Errorf("verbs: %s has no P_Key %v, only %v: the subnet manager assigns it", a.cfg.name(), pkey, a.port.PKeys)
	}
	return uint16(index), nil
}
