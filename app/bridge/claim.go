// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"causeway/config"
)

// claimFolder has a file for each Ethernet port that a bridge has. Tests have one of their own.
var claimFolder = "/run/causeway/ports"

// claimVLAN makes this the only bridge with this Ethernet port and VLAN in its network namespace: two on one interface
// would both carry every message, without any error. The claim is a lock on a file (flock(2)), which ends with the
// process. Only who may write the folder can make one; who may not read the file cannot take it.
func claimVLAN(port config.EthPort, vlan uint16, undo *teardown) error {
	for _, link := range port.Links() {
		name, err := claimName(link, vlan)
		if err == nil && name != "" {
			err = claimLink(port, name, undo)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// claimLink claims the port, or one of a bond's.
func claimLink(port config.EthPort, name string, undo *teardown) error {
	parent, file := filepath.Dir(claimFolder), filepath.Join(claimFolder, name)
	f, err := lockIn(parent, claimFolder, file)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("bridge: [roce] port %v: claim it in %s: permission denied; run the bridge as the folder's owner, or install -d -m 0755 -o %d %s %[2]s",
			port, claimFolder, os.Geteuid(), parent)
	case errors.Is(err, unix.EWOULDBLOCK):
		return fmt.Errorf("bridge: [roce] port %v: another causeway%s has it; stop that one, or name another port", port, holder(file))
	case err != nil:
		return fmt.Errorf("bridge: [roce] port %v: claim it: %w", port, err)
	}
	undo.add(func() error {
		_ = os.Remove(file) // without the lock it is in nobody's way
		return f.Close()
	})
	return nil
}

// claimName names the file of what two processes cannot share; "" where the driver itself rejects the second, or makes
// a port of its own.
func claimName(p config.EthPort, vlan uint16) (string, error) {
	what := p.Arg
	switch p.Driver {
	case "af_packet", "mlx5":
	case "tap":
		_, what, _ = strings.Cut(p.Arg, ",remote=")
	default:
		return "", nil
	}
	if what == "" {
		return "", nil
	}
	var at unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &at); err != nil {
		return "", fmt.Errorf("bridge: [roce] port %v: claim it: which network namespace: %w", p, err)
	}
	return fmt.Sprintf("%s.%d.%d", what, vlan, at.Ino), nil
}

// lockIn locks a file in a folder in another.
func lockIn(parent, folder, file string) (*os.File, error) {
	for _, path := range []string{parent, folder} {
		if err := makeFolder(path); err != nil {
			return nil, err
		}
	}
	return lockFile(file)
}

// makeFolder makes a folder if it is not there, and rejects one that others could write.
func makeFolder(path string) error {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	at, err := os.Lstat(path)
	switch {
	case err != nil:
		return err
	case !at.IsDir():
		return fmt.Errorf("%s is not a folder; remove it", path)
	case at.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("the folder %s can be written by others than its owner, who could take the port; chmod go-w %[1]s", path)
	}
	return nil
}

// lockFile opens a file and locks it; EWOULDBLOCK where another has. Its last owner may have removed it meanwhile: then
// it is another file, which nobody else finds.
func lockFile(path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, err
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		own, err := f.Stat()
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		if now, err := os.Lstat(path); err == nil && os.SameFile(own, now) {
			return f, sign(f)
		}
		_ = f.Close() // nothing was written
	}
}

// sign writes this process's id into its file, for the errors of others, and leaves the file to the folder's owner: a
// bridge that root has started must not keep the service's out for good.
func sign(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return errors.Join(err, f.Close())
	}
	_, err := fmt.Fprintf(f, "%d\n", os.Getpid())
	if err != nil {
		return errors.Join(err, f.Close())
	}
	var folder unix.Stat_t
	if unix.Stat(filepath.Dir(f.Name()), &folder) == nil {
		_ = f.Chown(int(folder.Uid), int(folder.Gid)) // only root may, and needs to
	}
	return nil
}

// holder names the process that has a file; "" when that cannot be found out.
func holder(path string) string {
	text, err := os.ReadFile(path)
	if pid := string(bytes.TrimSpace(text)); err == nil && pid != "" {
		return fmt.Sprintf(" (process %s)", pid)
	}
	return ""
}
