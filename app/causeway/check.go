// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"causeway/app/doctor"
	"causeway/config"
	"causeway/dpdk"
	"causeway/ibside/fabric"
)

// runCheck is "causeway check".
func runCheck(args []string, stdout, stderr io.Writer) int {
	fs := newFlags("check", `Reads configuration files as "run" does, without starting anything, and reports every problem with its file,
its line and what to write instead; also in the software subnet's file. Exits with 0 when all files are correct, else with 1.`)
	here := fs.Bool("here", false, `also check this machine, as "run" does before it starts: the workers' CPUs, whether the ports exist and
are up, and their link layer, partitions and MTUs`)
	if code, done := parse(fs, args, stdout, stderr); done {
		return code
	}
	if fs.NArg() == 0 {
		return misused(fs, stderr, "name a file")
	}
	code := exitOK
	for _, file := range fs.Args() {
		if !checkFile(file, *here, stdout, stderr) {
			code = exitFailed
		}
	}
	return code
}

// checkFile prints and returns whether a file is correct; with here, also whether it suits this machine.
func checkFile(file string, here bool, stdout, stderr io.Writer) bool {
	c, err := config.Load(file)
	if err != nil {
		fmt.Fprintln(stderr, err)
		var ps config.Problems
		if errors.As(err, &ps) {
			fmt.Fprintf(stderr, "%s: %s\n", file, count(len(ps), "problem"))
		}
		return false
	}
	for _, note := range c.Notes {
		fmt.Fprintln(stdout, note.Error())
	}
	if err := checkTopology(c); err != nil {
		fmt.Fprintln(stderr, err)
		return false
	}
	parts := []string{count(len(c.Hosts), "host"), count(len(c.Groups), "group")}
	if n := len(c.Services); n > 0 {
		parts = append(parts, count(n, "service"))
	}
	fits := ""
	if here {
		if err := errors.Join(checkCPUs(c), checkMachine(c)); err != nil {
			fmt.Fprintln(stderr, err)
			return false
		}
		if note := linkNote(c); note != "" {
			fmt.Fprintln(stdout, note)
		}
		fits = "; suits this machine"
	}
	fmt.Fprintf(stdout, "%s: ok: %s%s\n", file, strings.Join(parts, ", "), fits)
	return true
}

// errDevicesUnreadable is the error when the machine's devices could not be listed.
var errDevicesUnreadable = errors.New("causeway: cannot list this machine's devices")

// errDeviceNotReady is in the error of checkMachine when what is missing may appear later, without any change.
var errDeviceNotReady = errors.New("causeway: the RDMA device, the subnet of another process or the network interface is not ready yet")

// deviceNotReady is a problem that is errDeviceNotReady as well.
type deviceNotReady struct{ error }

func (e deviceNotReady) Is(target error) bool { return target == errDeviceNotReady }
func (e deviceNotReady) Unwrap() error        { return e.error }

// checkCPUs returns what keeps workers from their CPUs here.
func checkCPUs(c *config.Config) error {
	if cpu := c.Workers.Management; cpu != nil {
		if err := dpdk.CheckCPU("management", *cpu); err != nil {
			return fmt.Errorf("%s: %w", c.At("workers.management"), err)
		}
	}
	if err := dpdk.CheckWorkers(c.Workers.LCores); err != nil {
		return fmt.Errorf("%s: %w", c.At("workers.lcores"), err)
	}
	return nil
}

// checkTopology reads the file of the software subnet, if the configuration names one.
func checkTopology(c *config.Config) error {
	for _, x := range c.Ports() {
		if !x.Port.Fabric || fabric.AtSocket(x.Port.File) {
			continue
		}
		_, err := fabric.Load(x.Port.File)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s: ib: port %q: there is no such file; write it, or port = \"fabric:\" for a subnet without nodes, "+
				"or the path of another process's socket, which ends in .sock",
				c.At("ib.port"), x.Port)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkMachine returns the problems that keep a configuration from running on this machine, one a line.
func checkMachine(c *config.Config) error {
	if err := checkSubnets(c); err != nil {
		return err
	}
	if !doctor.OnHardware(c) {
		return nil
	}
	sys, done, err := doctor.OpenSysfs()
	if err != nil {
		return fmt.Errorf("%w: %w", errDevicesUnreadable, err)
	}
	defer done()
	var problems []error
	found, mayCome := doctor.CheckConfig(c, sys)
	for _, p := range found {
		problems = append(problems, fmt.Errorf("%s: %s", c.At(keyOf(p)), p))
	}
	if mayCome {
		return deviceNotReady{errors.Join(problems...)}
	}
	return errors.Join(problems...)
}

// checkSubnets looks for the subnets of other processes, which may be there later, as devices may.
func checkSubnets(c *config.Config) error {
	for _, x := range c.Ports() {
		why, mayCome := doctor.NoSubnet(x.Port)
		if why == "" {
			continue
		}
		err := fmt.Errorf("%s: ib: port %q: %s", c.At("ib.port"), x.Port, why)
		if mayCome {
			return deviceNotReady{err}
		}
		return err
	}
	return nil
}

// linkNote says why frames could not pass the Ethernet port now; "": they could, or nobody knows.
func linkNote(c *config.Config) string {
	sys, done, err := doctor.OpenSysfs()
	if err != nil {
		return ""
	}
	defer done()
	note := doctor.LinkNote(c, sys)
	if note == "" {
		return ""
	}
	return fmt.Sprintf("%s: %s", c.At("roce.port"), note)
}

// keyOf returns the key that a problem such as "ib: port …" is about.
func keyOf(problem string) string {
	table, rest, _ := strings.Cut(problem, ": ")
	key, _, _ := strings.Cut(rest, " ")
	return table + "." + key
}

// count returns a number of things: 1 host, 2 hosts.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
