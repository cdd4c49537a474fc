// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
)

// enterContainer is a script: it makes the folder $1 the root of what follows, with the folder $2 as /host, and starts the agent,
// which has the connection 3.
const enterContainer = `set -e
mount --rbind /dev "$1/dev"
mount -t proc proc "$1/proc"
mount -t sysfs sysfs "$1/sys"
mount -t tmpfs tmp "$1/tmp"
[ -z "$2" ] || mount --bind "$2" "$1/host"
ip link set lo up
exec chroot "$1" /bin/env -i PATH=/bin HOME=/root /bin/agent fd:3`

// startContainer starts the guest as processes of this machine, with a guest's files, in namespaces of their own; its agent is at the
// other end of the returned connection.
func (r *Rig) startContainer(c GuestConfig, console string) (*process, net.Conn, error) {
	if len(c.NICs) > 0 {
		return nil, nil, errors.New("a container has no NICs") // and no RDMA devices: it makes what it needs
	}
	root := r.file(c.Name + ".root")
	if err := os.MkdirAll(root, 0o755); err != nil { // an earlier guest may have had this name
		return nil, nil, err
	}
	unpack := exec.Command("busybox", "cpio", "-i", "-d", "-u", "-F", filepath.Join(r.image, "initramfs.cpio"))
	unpack.Dir = root
	if text, err := unpack.CombinedOutput(); err != nil {
		return nil, nil, fmt.Errorf("unpack the guests' files: %w: %s", err, text)
	}
	mine, its, err := socketPair()
	if err != nil {
		return nil, nil, err
	}
	defer its.Close()
	p, err := r.ns.launchOn(nil, []*os.File{its}, "container "+c.Name, console,
		"unshare", "--net", "--mount", "--uts", "sh", "-c", enterContainer, "container", root, c.Share)
	if err != nil {
		mine.Close()
		return nil, nil, err
	}
	return p, mine, nil
}
