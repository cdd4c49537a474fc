// SPDX-License-Identifier: Apache-2.0

package sma

import (
	"causeway/app/e2e/ibswitch/smp"
	"causeway/ibside/ib"
)

// Effect is what the link has to do after a Set of PortInfo, once its owner's lock is free.
type Effect uint8

// The effects.
const (
	None    Effect = iota
	Retrain        // go down and come up again
	Disable        // go down, and stay
	Enable         // come up again after Disable
)

// PortInfo gets or sets the attribute. localPort is the port that the request came by.
func (p *Port) PortInfo(data []byte, set bool, localPort uint8) (effect Effect, status uint16) {
	reregister := false
	if set {
		wanted := smp.ParsePortInfo(data)
		reregister = wanted.Reregister
		effect, status = p.set(&wanted)
	}
	answer := p.Info
	answer.LocalPort, answer.Reregister = localPort, reregister // which the response has as the request
	answer.Put(data)
	return effect, status
}

// set carries out a Set. What is right takes effect even if something else is wrong.
func (p *Port) set(wanted *smp.PortInfo) (Effect, uint16) {
	good := true
	if p.kind != External {
		p.setKeys(wanted)
		good = p.setAddresses(wanted)
	}
	if p.kind == Management { // it has no link, and is always active
		return None, status(good)
	}
	p.setLink(wanted)
	if wanted.NeighborMTU > p.Info.MTUCap {
		good = false
	} else if wanted.NeighborMTU != 0 {
		p.Info.NeighborMTU = wanted.NeighborMTU
	}
	effect := p.setPhysical(wanted.Physical)
	if effect != None {
		return effect, status(good)
	}
	effect, ok := p.setState(wanted.State)
	return effect, status(good && ok)
}

func status(good bool) uint16 {
	if good {
		return smp.StatusOK
	}
	return smp.StatusBadValue
}

func (p *Port) setKeys(wanted *smp.PortInfo) {
	i := &p.Info
	i.MKey, i.MKeyProtect, i.MKeyLease = wanted.MKey, wanted.MKeyProtect, wanted.MKeyLease
	i.SubnetTimeout = wanted.SubnetTimeout
	for count, set := range map[*uint16]uint16{
		&i.MKeyViolations: wanted.MKeyViolations, &i.PKeyViolations: wanted.PKeyViolations, &i.QKeyViolations: wanted.QKeyViolations,
	} {
		if set == 0 {
			*count = 0
		}
	}
}

// setAddresses sets LID and LMC, the subnet manager's LID, and the subnet's prefix.
func (p *Port) setAddresses(wanted *smp.PortInfo) bool {
	i := &p.Info
	i.Prefix, i.SMSL = wanted.Prefix, wanted.SMSL
	if wanted.LID.IsUnicast() {
		i.LID = wanted.LID
		if p.kind == Adapter { // port 0 has one LID
			i.LMC = wanted.LMC
		}
	}
	if wanted.SMLID.IsUnicast() {
		i.SMLID = wanted.SMLID
	}
	return wanted.LID.IsUnicast() && wanted.SMLID.IsUnicast()
}

// setLink sets fields of which zero means no change, and all ones means all that is supported.
func (p *Port) setLink(wanted *smp.PortInfo) {
	i := &p.Info
	switch wanted.WidthEnabled {
	case 0:
	case 0xff:
		i.WidthEnabled = i.WidthSupported
	default:
		i.WidthEnabled = wanted.WidthEnabled
	}
	switch wanted.SpeedEnabled {
	case 0:
	case 15:
		i.SpeedEnabled = i.SpeedSupported
	default:
		i.SpeedEnabled = wanted.SpeedEnabled
	}
	if wanted.DownDefault != 0 {
		i.DownDefault = wanted.DownDefault
	}
	if wanted.OperationalVLs != 0 {
		i.OperationalVLs = wanted.OperationalVLs
	}
	i.VLHighLimit, i.ErrorLimits = wanted.VLHighLimit, wanted.ErrorLimits
	if p.kind == External {
		i.StallAndLife, i.Enforcement = wanted.StallAndLife, wanted.Enforcement
	}
}

// setPhysical disables the link, or lets a disabled one train again.
func (p *Port) setPhysical(wanted uint8) Effect {
	switch {
	case wanted == smp.PhysicalDisabled:
		p.Info.State, p.Info.Physical = smp.Down, smp.PhysicalDisabled
		return Disable
	case wanted == smp.PhysicalPolling && p.Info.Physical == smp.PhysicalDisabled:
		p.Info.Physical = smp.PhysicalPolling
		return Enable
	}
	return None
}

// setState is table 146: down from any state, otherwise one state up. It reports whether that is possible.
func (p *Port) setState(wanted smp.State) (Effect, bool) {
	now := &p.Info.State
	switch {
	case wanted == smp.NoChange:
		return None, true
	case wanted == smp.Down:
		*now = smp.Down
		return Retrain, true
	case wanted == smp.Armed && *now >= smp.Init, wanted == smp.Active && *now >= smp.Armed:
		*now = wanted
		return None, true
	}
	return None, false
}

// HasLID reports whether a LID is the port's base LID, or differs from it in path bits alone.
func (p *Port) HasLID(lid ib.LID) bool {
	return p.Info.LID != 0 && lid>>p.Info.LMC == p.Info.LID>>p.Info.LMC
}
