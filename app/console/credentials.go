// SPDX-License-Identifier: Apache-2.0

package console

import (
	"fmt"
	"net"
	"os"
	"os/user"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"causeway/app/command"
)

// adminGroup is the group of this machine whose members are admins, beside root and the bridge's own user and group.
const adminGroup = "causeway"

// rootUser is the name of root.
const rootUser = "uid 0"

// identify returns the role and the name of the peer. Over TCP peers are not authenticated: they may only view, and
// known is "".
func identify(conn net.Conn) (role command.Role, known string) {
	u, ok := conn.(*net.UnixConn)
	if !ok {
		return command.View, ""
	}
	cred, err := peer(u)
	if err != nil {
		return command.View, ""
	}
	return roleOf(cred, os.Geteuid(), os.Getegid(), groupsOf), fmt.Sprintf("uid %d", cred.Uid)
}

// peer returns the credentials of the peer, from the kernel.
func peer(u *net.UnixConn) (cred *unix.Ucred, err error) {
	raw, err := u.SyscallConn()
	if err != nil {
		return nil, err
	}
	failed := raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if failed != nil {
		return nil, failed
	}
	return cred, err
}

// roleOf returns Admin for root, for the user and the group that the bridge runs as, and for members of adminGroup.
func roleOf(cred *unix.Ucred, uid, gid int, groups func(uid uint32) []string) command.Role {
	if cred.Uid == 0 || int(cred.Uid) == uid || int(cred.Gid) == gid || slices.Contains(groups(cred.Uid), adminGroup) {
		return command.Admin
	}
	return command.View
}

// groupsOf returns the names of a user's groups.
func groupsOf(uid uint32) (names []string) {
	u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
	if err != nil {
		return nil
	}
	ids, err := u.GroupIds()
	if err != nil {
		return nil
	}
	for _, id := range ids {
		if g, err := user.LookupGroupId(id); err == nil {
			names = append(names, g.Name)
		}
	}
	return names
}
