// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"causeway/app/e2e/agent/client"
)

// bridgeMiB holds the initramfs (50 MiB), a copy of the program, and DPDK's memory.
const bridgeMiB = 768

// BridgeGuest is a guest that Causeway itself runs in, without hugepages.
type BridgeGuest struct {
	*Guest
	share string
}

// GuestCauseway is a Causeway that runs in a guest.
type GuestCauseway struct {
	guest   *BridgeGuest
	pid     string // a file of the guest
	command *client.Command
}

// BootBridgeGuest boots a guest for Causeway and waits until it is set up. The rest of c is kept, except that /host is
// a folder of this run: see Put.
func (r *Rig) BootBridgeGuest(ctx context.Context, c GuestConfig) (*BridgeGuest, error) {
	c.MiB, c.Share = max(c.MiB, bridgeMiB), r.file(c.Name+".share")
	if r.emulated(c) {
		c.CPUs = max(c.CPUs, 2)
	}
	if err := os.MkdirAll(c.Share, 0o755); err != nil { // an earlier guest may have had this name
		return nil, err
	}
	guests, err := r.Boot(ctx, c)
	if err != nil {
		return nil, err
	}
	return &BridgeGuest{guests[0], c.Share}, nil
}

// Put copies a program of this machine into the guest and returns its path there.
// It runs from the guest's memory: page by page over 9p it would start slowly.
func (g *BridgeGuest) Put(ctx context.Context, program string) (string, error) {
	name := filepath.Base(program)
	if err := copyFile(filepath.Join(g.share, name), program); err != nil {
		return "", err
	}
	// A running program cannot be overwritten, but its name can be given to a new file.
	path := "/tmp/" + name
	return path, g.Must(ctx, fmt.Sprintf("cp /host/%s %[2]s.new && chmod 755 %[2]s.new && mv %[2]s.new %[2]s", name, path))
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// Write makes a file of the guest.
func (g *BridgeGuest) Write(ctx context.Context, path, text string) error {
	return g.Must(ctx, fmt.Sprintf("echo %s | base64 -d >%s", base64.StdEncoding.EncodeToString([]byte(text)), path))
}

// StartBridge starts Causeway in the guest; Ready waits for it. In config, FABRIC
// stands for the topology file, and in topology SOCKET for the socket, as in
// StartCauseway. A config that names an RDMA device has no topology.
func (g *BridgeGuest) StartBridge(ctx context.Context, config, topology string) (*GuestCauseway, error) {
	return g.startBridge(ctx, config, topology, "echo $$ >%[1]s; exec %[2]s")
}

// supervisor starts a bridge again when the bridge's exit code asks for it, and when a signal killed the bridge. Its
// own exit code is the last bridge's.
const supervisor = `while :; do
	%[2]s & echo $! >%[1]s
	wait $! && code=0 || code=$?
	echo "supervisor: the bridge ended with exit code $code"
	case $code in 75|137) sleep .2;; *) exit $code;; esac
done`

// SuperviseBridge is StartBridge with a supervisor.
func (g *BridgeGuest) SuperviseBridge(ctx context.Context, config, topology string) (*GuestCauseway, error) {
	return g.startBridge(ctx, config, topology, supervisor)
}

// startBridge runs a script with the name of the file for the process's number, and the command.
func (g *BridgeGuest) startBridge(ctx context.Context, config, topology, script string) (*GuestCauseway, error) {
	bin, err := bridgeProgram()
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("/tmp/causeway-%d", runs.Add(1))
	path, err := g.Put(ctx, bin)
	if err != nil {
		return nil, err
	}
	err = errors.Join(
		g.Write(ctx, name+".fabric.toml", strings.ReplaceAll(topology, "SOCKET", name+".sock")),
		g.Write(ctx, name+".toml", strings.ReplaceAll(config, "FABRIC", name+".fabric.toml")))
	if err != nil {
		return nil, err
	}
	c := &GuestCauseway{guest: g, pid: name + ".pid"}
	c.command, err = g.Start(fmt.Sprintf(script, c.pid, path+" run -c "+name+".toml"))
	return c, err
}

// RunTests builds the tests of one of the project's packages, with build tag e2e, and runs in the guest those whose
// names match the pattern, after a shell command. It fails when a test does, or when no name matches.
func (g *BridgeGuest) RunTests(ctx context.Context, pkg, pattern, first string) (out string, err error) {
	binary := g.rig.file(filepath.Base(pkg) + ".test")
	built, err := exec.CommandContext(ctx, "go", "test", "-c", "-tags", "e2e", "-o", binary, pkg).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the tests of %s: %w: %s", pkg, err, built)
	}
	path, err := g.Put(ctx, binary)
	if err != nil {
		return "", err
	}
	out, exit, err := g.Run(ctx, fmt.Sprintf("%s && cd /tmp && %s -test.v -test.run '%s'", first, path, pattern))
	switch {
	case err != nil:
	case exit != 0:
		err = fmt.Errorf("guest %s: tests %s of %s: exit code %d", g.Name, pattern, pkg, exit)
	case !strings.Contains(out, "--- PASS"):
		err = fmt.Errorf("guest %s: no test of %s matches %s", g.Name, pkg, pattern)
	}
	return out, err
}

// Ready waits until the bridge says that it is ready.
func (c *GuestCauseway) Ready(ctx context.Context) error { return c.ReadyAgain(ctx, 1) }

// ReadyAgain waits until so many bridges, one after the other, have said that they are.
func (c *GuestCauseway) ReadyAgain(ctx context.Context, times int) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	_, err := c.command.Await(ctx, func(string) bool { return len(readyLine.FindAllString(c.Log(), -1)) >= times })
	if err != nil {
		err = fmt.Errorf("%w; the bridge logged:\n%s", err, lastLines(c.Log()))
	}
	return err
}

// Log returns what the bridge has logged.
func (c *GuestCauseway) Log() string { return c.command.Output() }

// Metrics scrapes the bridge, from inside the guest.
func (c *GuestCauseway) Metrics(ctx context.Context) (Metrics, error) {
	out, exit, err := c.guest.Run(ctx, "wget -q -O - http://"+metricsListen+"/metrics")
	if err == nil && exit != 0 {
		err = fmt.Errorf("guest %s: metrics: exit code %d: %s", c.guest.Name, exit, lastLines(out))
	}
	if err != nil {
		return nil, err
	}
	return parseMetrics(out)
}

// Stop ends the bridge. It fails unless the bridge ends by itself with exit code
// 0 and has counted every packet, as Causeway.Stop.
func (c *GuestCauseway) Stop(ctx context.Context) error {
	if err := c.guest.Must(ctx, "kill -TERM $(cat "+c.pid+")"); err != nil {
		return fmt.Errorf("%w; the bridge logged:\n%s", err, lastLines(c.Log()))
	}
	ctx, cancel := context.WithTimeout(ctx, obeyFor)
	defer cancel()
	out, exit, err := c.command.Wait(ctx)
	if err == nil && exit != 0 {
		err = fmt.Errorf("causeway in guest %s: exit code %d; it logged:\n%s", c.guest.Name, exit, lastLines(out))
	}
	if err != nil {
		return err
	}
	return conserved(out)
}

// Kill ends the bridge without warning, as a fault would.
func (c *GuestCauseway) Kill(ctx context.Context) error {
	if err := c.guest.Must(ctx, c.killed()); err != nil {
		return err
	}
	_, _, err := c.command.Wait(ctx)
	return err
}

func (c *GuestCauseway) killed() string { return "kill -KILL $(cat " + c.pid + ")" }
