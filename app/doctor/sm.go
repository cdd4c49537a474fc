// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"causeway/config"
	"causeway/ibside/ib"
	"causeway/ibside/sa"
)

// An smProbe checks the subnet manager, which assigns the port's LID, and the subnet administrator.
type smProbe struct {
	cfg     *config.Config // nil: none
	sys     tree
	process Process
	ports   *ports
}

func newSMProbe(c *config.Config, s Sources, ports *ports) *smProbe {
	return &smProbe{cfg: c, sys: tree{s.Sys}, process: s.Process, ports: ports}
}

// checkPorts requires the port to be ACTIVE; without a configuration, it checks all InfiniBand ports.
func (p *smProbe) checkPorts() []Finding {
	if p.cfg == nil {
		var out []Finding
		for i := range p.ports.machine.RDMA {
			if r := &p.ports.machine.RDMA[i]; r.LinkLayer == InfiniBand {
				f := portState(r)
				if f.Verdict != OK { // this port may be unused
					f = hint(f.Found, f.Fix...)
				}
				out = append(out, f)
			}
		}
		return out
	}
	port := p.ports.ib
	if port == nil || port.LinkLayer != InfiniBand {
		return nil
	}
	return []Finding{portState(port)}
}

// portState checks the state of a port.
func portState(r *RDMAPort) Finding {
	const start = "systemctl start opensm # here, or wherever the subnet manager is to run"
	look := fmt.Sprintf("# query it: sminfo -C %s -P %d", r.Device, r.Num)
	switch {
	case r.State == "DOWN":
		return bad(Fail, fmt.Sprintf("%s is DOWN (%s): there is no link", r.Name(), r.PhysState),
			fmt.Sprintf("# check the cable and the switch's port; ibstat %s %d", r.Device, r.Num))
	case r.State != "ACTIVE":
		return bad(Fail, fmt.Sprintf("%s is %s: there is a link, but no subnet manager has set the port up", r.Name(), r.State), start, look)
	case r.LID == 0:
		return bad(Fail, r.Name()+" has no LID: nobody can send to it", start, look)
	case r.SMLID == 0:
		return bad(Fail, r.Name()+" does not know a subnet manager: groups and paths cannot be queried", start, look)
	}
	return ok("%s is ACTIVE, LID %d, subnet manager at LID %d", r.Name(), r.LID, r.SMLID)
}

// checkPKeys requires the port to be in the configured partitions, which the subnet manager assigns. A node, group or
// range whose P_Key others have, too, is not named.
func (p *smProbe) checkPKeys() []Finding {
	if p.cfg == nil {
		return nil
	}
	port := p.ports.ib
	seen := map[ib.PKey]bool{}
	var out []Finding
	for _, u := range pkeyUsers(p.cfg) {
		switch {
		case seen[u.pkey]:
		case slices.Contains(port.PKeys, u.pkey.String()):
			out = append(out, ok("it is in the partition %v", u.pkey))
		default:
			out = append(out, bad(Fail, fmt.Sprintf("%s is not in the partition %v of %s; it is in %s", port.Name(), u.pkey, u.key(),
				orNone(strings.Join(port.PKeys, ", "))),
				"# have the subnet manager add it (opensm: partitions.conf), or write one of these as pkey under "+u.under()))
		}
		seen[u.pkey] = true
	}
	return out
}

// checkSA queries the subnet administrator for the path to the port itself, as the bridge does for nodes and groups.
func (p *smProbe) checkSA() []Finding {
	if p.cfg == nil {
		return nil
	}
	port := p.ports.ib
	umad := ""
	for _, at := range p.sys.glob("class/infiniband_mad/umad*") {
		if p.sys.text(at, "ibdev") == port.Device && p.sys.text(at, "port") == fmt.Sprint(port.Num) {
			umad = at[len("class/infiniband_mad/"):]
		}
	}
	if umad == "" {
		return []Finding{p.unasked(fmt.Sprintf("%s has no umad device, by which the subnet administrator is asked", port.Name()),
			"modprobe ib_umad")}
	}
	file := "/dev/infiniband/" + umad
	if err := p.process.Access(file); err != nil {
		return []Finding{p.unasked(fmt.Sprintf("%s, by which the subnet administrator is asked: %v", file, err),
			"# run the bridge as root, or give its user the file by a udev rule; in a container, pass it in: docker run --device "+file)}
	}
	path, err := p.process.Path(port.Device, int(port.Num))
	try := fmt.Sprintf("# try: saquery -C %s -P %d PR --slid %d --dlid %[3]d", port.Device, port.Num, port.LID)
	most := widest(p.cfg)
	want := most.IBMTU
	switch {
	case errors.Is(err, sa.ErrTimeout), errors.Is(err, sa.ErrUnreachable), errors.Is(err, context.DeadlineExceeded):
		return []Finding{bad(Fail, fmt.Sprintf("the subnet administrator at LID %d does not answer: groups and paths cannot be asked "+
			"for", port.SMLID), try)}
	case err != nil:
		return []Finding{hint(fmt.Sprintf("the subnet administrator could not be asked (%v); a bridge that runs on this port keeps it "+
			"from others", err), try)}
	case path.MTU < want:
		return []Finding{hint(fmt.Sprintf("the subnet carries messages of %d bytes, %s mtu %d lets %d cross: larger ones are dropped",
			path.MTU.Bytes(), roceOf(p.cfg, &most), most.MTU, want.Bytes()), fmt.Sprintf("# write mtu = %d under %s", path.MTU.Bytes()+roceHeaders, roceOf(p.cfg, &most)))}
	}
	return fine("the subnet administrator answers; paths carry %d bytes", path.MTU.Bytes())
}

// unasked is a finding about a subnet administrator that cannot be queried: an error only if the configuration needs
// it.
func (p *smProbe) unasked(found, fix string) Finding {
	needs := p.cfg.IB.AliasGIDs || p.cfg.IB.Learn
	for _, h := range p.cfg.Hosts {
		needs = needs || h.Side == config.SideIB && h.LID == 0
	}
	for _, r := range p.cfg.Ranges {
		needs = needs || r.SA
	}
	if needs {
		return bad(Fail, found+"; nodes without lid, nodes = \"learn\", alias_gids and ranges from \"sa\" need it", fix)
	}
	return hint(found+"; this configuration does not need it", fix)
}
