// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"causeway/app/doctor"
	"causeway/config"
	"causeway/ibside/acm"
	"causeway/ibside/ib"
)

// acmOptions are the options of "causeway acm".
type acmOptions struct {
	out, folder  string
	gid          string
	lid          uint
	rate         uint
	most         uint
	name, device string
}

// runACM is "causeway acm".
func runACM(args []string, stdout, stderr io.Writer) int {
	fs := newFlags("acm", `Writes files for ibacm, with which programs on InfiniBand nodes find RoCE hosts (rdma_getaddrinfo, rsockets):
the GID of each RoCE host, which is that of the bridge's port, and paths to it for nodes whose LID is configured. RoCE hosts are
those of the configuration, the bridge, and every address of its IPv4 subnets that may cross and is no node's, by the
addresses that they have on InfiniBand ([[translate]]). Of a fleet it asks the bridge of this machine, by its console, which
bridge has each host now; what nodes send by another one arrives as well. Copy the files
to the nodes, merge ibacm_opts.cfg with theirs, and restart ibacm: it reads them once. rdma_resolve_addr does not ask
ibacm; for it there is proxy ARP: see causeway help doctor.`)
	var a acmOptions
	fs.StringVar(&a.out, "out", "", "the `DIR` to write to; otherwise all is printed")
	fs.StringVar(&a.folder, "folder", "/etc/rdma", "the `DIR` where the files will lie on the nodes")
	fs.StringVar(&a.gid, "gid", "", "the bridge's `GID`; otherwise that of [ib] gid, or the port's on this machine")
	fs.UintVar(&a.lid, "lid", 0, "the bridge's `LID`; otherwise the port's on this machine. Without it paths are left to the subnet administrator")
	fs.UintVar(&a.rate, "rate", 0, "the paths' `RATE` in Gb/s, one of InfiniBand's; otherwise the port's on this machine, or 10")
	fs.UintVar(&a.most, "most", 1024, "list the addresses of subnets of `N` at most; a larger one is left out")
	fs.StringVar(&a.name, "name", "", "with -device: a `NAME` for a node; its ibacm_addr.cfg is written, too")
	fs.StringVar(&a.device, "device", "", "that node's `DEVICE:PORT`")
	if code, done := parse(fs, args, stdout, stderr); done {
		return code
	}
	if why := a.misused(fs.Args()); why != "" {
		return misused(fs, stderr, why)
	}
	c, err := config.Load(fs.Arg(0))
	if err == nil {
		err = writeACM(c, a, stdout, stderr)
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return exitFailed
	}
	return exitOK
}

// misused says what is wrong with the arguments and what to write instead; "": nothing.
func (a *acmOptions) misused(files []string) string {
	switch {
	case len(files) == 0:
		return "name the bridge's configuration, such as /etc/causeway/bridge.toml"
	case len(files) > 1:
		return fmt.Sprintf("%q is one file too many; name one configuration", files[1])
	case a.name != "" && a.device == "":
		return fmt.Sprintf("-name %s needs -device, too: that node's device and port, such as -device mlx5_0:1", a.name)
	case a.name == "" && a.device != "":
		return fmt.Sprintf("-device %s needs -name, too: a name for that node, such as -name node7", a.device)
	}
	return ""
}

func writeACM(c *config.Config, a acmOptions, stdout, stderr io.Writer) error {
	gid, bridge, path, err := bridgeOnIB(c, a)
	if err != nil {
		return err
	}
	nodes := routedNodes(c, gid, stderr)
	routes := bridge.LID != 0 && len(nodes) > 0
	owners, err := fleetOwners(c, stderr)
	if err != nil {
		return fmt.Errorf("causeway acm: which bridge of the fleet has which host: %w", err)
	}
	files := []acmFile{
		{acm.HostsFile, func(w io.Writer) error { return acm.WriteHosts(w, acmHosts(c, gid, owners, a.most, stderr)) }},
		{acm.OptionsFile, func(w io.Writer) error { return acm.WriteOptions(w, a.folder, routes) }},
	}
	if routes {
		files = append(files, acmFile{acm.RoutesFile, func(w io.Writer) error { return acm.WriteRoutes(w, bridge, nodes, path) }})
	}
	if a.name != "" {
		e, err := acmEndpoint(c, a)
		if err != nil {
			return err
		}
		files = append(files, acmFile{acm.EndpointsFile, func(w io.Writer) error { return acm.WriteEndpoints(w, []acm.Endpoint{e}) }})
	}
	for _, f := range files {
		if err := f.put(a.out, stdout); err != nil {
			return err
		}
	}
	return nil
}

// acmFile is a file to write.
type acmFile struct {
	name string
	fill func(io.Writer) error
}

// put writes a file to a folder, or prints it. It writes nothing when making the contents fails.
func (f acmFile) put(folder string, stdout io.Writer) error {
	var b bytes.Buffer
	if err := f.fill(&b); err != nil {
		return err
	}
	if folder == "" {
		_, err := fmt.Fprintf(stdout, "==> %s <==\n%s", f.name, &b)
		return err
	}
	path := filepath.Join(folder, f.name)
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil { // ibacm and other users read it
		return fmt.Errorf("causeway acm: -out %s: %s: %w; make that folder, or name another", folder, f.name, cause(err))
	}
	_, err := fmt.Fprintln(stdout, path)
	return err
}

// bridgeOnIB returns what the bridge goes by on InfiniBand, and what paths to it are like: from flags, the
// configuration and this machine, in this order. A LID of 0 is not known.
func bridgeOnIB(c *config.Config, a acmOptions) (gid ib.GID, p acm.Port, path acm.Path, err error) {
	const tenGigabits = 3
	path = acm.Path{MTU: c.RoCE.IBMTU, Rate: tenGigabits}
	gid, p.LID = c.IB.GID, ib.LID(min(a.lid, uint(ib.LIDPermissive)))
	if a.gid != "" {
		if gid, err = ib.ParseGID(a.gid); err != nil || gid.IsMulticast() || gid.GUID() == 0 {
			return gid, p, path, fmt.Errorf(`causeway acm: -gid %s is not a port's GID; write it like "fe80::2:c903:0:7"`, a.gid)
		}
	}
	if here := portHere(c); here != nil {
		if gid.IsZero() && len(here.GIDs) > 0 {
			gid, _ = ib.ParseGID(here.GIDs[0].GID)
		}
		if p.LID == 0 {
			p.LID = here.LID
		}
		path.Rate = max(rateOf(here.Rate), tenGigabits)
	}
	if a.rate != 0 {
		if path.Rate = rateOf(strconv.FormatUint(uint64(a.rate), 10)); path.Rate == 0 {
			return gid, p, path, fmt.Errorf("causeway acm: -rate %d is not a rate of InfiniBand's; write 10, 40, 56, 100, 200 or 400", a.rate)
		}
	}
	if gid.IsZero() {
		return gid, p, path, errors.New("causeway acm: the bridge's GID is not known here; write -gid, or [ib] gid, or run this on the bridge")
	}
	p.Name, p.GUID = c.Name, gid.GUID()
	return gid, p, path, nil
}

// portHere returns the configuration's port, if this machine has it.
func portHere(c *config.Config) *doctor.RDMAPort {
	sys, done, err := doctor.OpenSysfs()
	if err != nil || c.IB.Port.Fabric {
		return nil
	}
	defer done()
	return doctor.ReadMachine(sys).RDMAPort(c.IB.Port)
}

// rateOf returns InfiniBand's code of a rate such as "100 Gb/sec (4X EDR)"; 0 if it has none.
func rateOf(s string) ib.Rate {
	number, _, _ := strings.Cut(s, " ")
	gigabits, err := strconv.ParseFloat(number, 64)
	for r := ib.Rate(1); err == nil && r < 64; r++ {
		if mbps := r.Mbps(); mbps != 0 && mbps == int(gigabits*1000) {
			return r
		}
	}
	return 0
}

// routedNodes returns the nodes whose LID is configured, of the bridge's own subnet: ibacm knows no other.
func routedNodes(c *config.Config, bridge ib.GID, stderr io.Writer) []acm.Port {
	var out []acm.Port
	asked := 0
	for _, h := range c.Hosts {
		switch {
		case h.Side != config.SideIB:
		case h.LID == 0 || h.GID.Prefix() != bridge.Prefix():
			asked++
		default:
			name, _ := c.TranslationsOf(h).ToIB(h.Addrs()[0]) // each host of a configuration has one
			out = append(out, acm.Port{Name: name.String(), GUID: h.GID.GUID(), LID: h.LID, SL: h.SL})
		}
	}
	if asked > 0 {
		fmt.Fprintf(stderr, "causeway acm: the LID of %s is not configured; ibacm asks the subnet administrator for their paths\n", count(asked, "node"))
	}
	return out
}

// acmHosts lists the addresses that lie behind the bridge as InfiniBand knows them, in order, each with the GID of the bridge
// that has the host.
func acmHosts(c *config.Config, own ib.GID, owners map[netip.Addr]ib.GID, most uint, stderr io.Writer) []acm.Host {
	behind := map[netip.Addr]ib.GID{} // as InfiniBand has them; two segments may have the same
	for _, r := range c.Segments() {
		known := c.TranslationsIn(&r)
		for a := range behindSegment(c, &r, most, stderr) {
			if there, ok := known.ToIB(a); ok {
				behind[there] = cmp.Or(owners[a], own)
			}
		}
	}
	var out []acm.Host
	for a, gid := range behind {
		out = append(out, acm.Host{Addr: a, GID: gid})
	}
	slices.SortFunc(out, func(a, b acm.Host) int { return a.Addr.Compare(b.Addr) })
	return out
}

// behindSegment returns the addresses of a segment that lie behind the bridge.
func behindSegment(c *config.Config, r *config.RoCE, most uint, stderr io.Writer) map[netip.Addr]bool {
	behind := map[netip.Addr]bool{}
	for _, n := range r.Addresses {
		behind[n.Addr()] = true
		first := n.Masked().Addr().Next() // after the subnet's own
		if size := uint(1) << min(n.Addr().BitLen()-n.Bits(), 32); n.Addr().Is6() || size > most {
			fmt.Fprintf(stderr, "causeway acm: not all of %v is listed, but hosts of the configuration\n", n.Masked())
			continue
		}
		for a := first; n.Contains(a) && n.Contains(a.Next()); a = a.Next() { // and before its broadcast address
			if c.Allows(r, a) {
				behind[a] = true
			}
		}
	}
	for _, h := range c.HostsIn(r) {
		for _, a := range h.Addrs() {
			if behind[a] = h.Side == config.SideRoCE; !behind[a] {
				delete(behind, a)
			}
		}
	}
	return behind
}

func acmEndpoint(c *config.Config, a acmOptions) (acm.Endpoint, error) {
	device, number, _ := strings.Cut(a.device, ":")
	port, err := strconv.ParseUint(number, 10, 8)
	if err != nil || port == 0 || device == "" {
		return acm.Endpoint{}, fmt.Errorf("causeway acm: -device %s is not a port; write it like mlx5_0:1", a.device)
	}
	return acm.Endpoint{Name: a.name, Device: device, Port: uint8(port), PKey: c.IB.PKey}, nil
}
