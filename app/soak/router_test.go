// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"causeway/app/segment"
)

// pimdConfig makes FRR's pimd the querier of eth0, whose address is below the bridge's. RFC 3376 8.5: the bridge is none until 2 × 4 s +
// 0.5 s have passed without a query.
const pimdConfig = `interface eth0
 ip pim
 ip igmp
 ip igmp query-max-response-time 10
 ip igmp query-interval 4
`

const pimd = "/usr/lib/frr/pimd"

// multicastRouter is FRR's pimd on a segment: it asks for members, instead of the bridge, and ends without a word.
func multicastRouter(r *rig) fault {
	p, d, name := r.anyPartition(), r.between(100*time.Millisecond, 2*time.Second), fmt.Sprint("router", r.stream())
	what := fmt.Sprintf("a multicast router is the querier of %v for %v", p, d)
	if _, err := os.Stat(pimd); err != nil {
		what = "no multicast router: FRR's pimd is not here"
	}
	return fault{what, alone, nil, false, func() error {
		if _, err := os.Stat(pimd); err != nil {
			return nil
		}
		ns, err := segment.NewNamespace()
		if err != nil {
			return err
		}
		defer ns.Close()
		if err := p.segment.Connect(ns, name, netip.MustParseAddr("10.9.0.3"), netip.MustParseAddr("fd09::3")); err != nil {
			return err
		}
		dir, err := os.MkdirTemp("", "router") // FRR's user may not enter the bridge's
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		return segment.In(ns, func() error { return r.routes(dir, d) })
	}}
}

// routes runs FRR in a folder until the bridge has heard its query, and for a while.
func (r *rig) routes(dir string, d time.Duration) error {
	before, err := r.bridge.metrics(r.ctx)
	if err != nil {
		return err
	}
	const heard = "causeway_group_queries_total"
	if err := belongsToFRR(dir); err != nil {
		return err
	}
	for name, config := range map[string]string{"zebra": "", "pimd": pimdConfig} {
		if err := os.WriteFile(filepath.Join(dir, name+".conf"), []byte(config), 0o644); err != nil {
			return err
		}
	}
	for _, name := range []string{"zebra", "pimd"} {
		at := filepath.Join(dir, name)
		cmd := exec.Command(filepath.Join(filepath.Dir(pimd), name), "-P", "0", "-z", dir+"/zebra.api", "--vty_socket", dir, "-i", at+".pid", "-f", at+".conf")
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			return err
		}
		defer func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // it says that it was killed
		}()
		err = errors.Join(err, await(r.ctx, name+" is there", func() bool { _, err := os.Stat(at + ".vty"); return err == nil }))
	}
	err = errors.Join(err, await(r.ctx, "the bridge hears the router's query", func() bool {
		now, err := r.bridge.metrics(r.ctx)
		return err == nil && now[heard] > before[heard]
	}))
	time.Sleep(d)
	return err
}

// belongsToFRR gives a folder to the user that FRR's daemons become.
func belongsToFRR(dir string) error {
	u, err := user.Lookup("frr")
	if err != nil {
		return err
	}
	uid, errUID := strconv.Atoi(u.Uid)
	gid, errGID := strconv.Atoi(u.Gid)
	return errors.Join(errUID, errGID, os.Chmod(dir, 0o755), os.Chown(dir, uid, gid))
}
