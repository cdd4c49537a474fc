// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"causeway/app/devices"
	"causeway/config"
	"causeway/ibside/fabric"
)

// runCheck checks configuration files.
func runCheck(args []string, stdout, stderr io.Writer) int {
	fs := newFlags("check", `Reads configuration files as "run" would, starts nothing, and reports every problem: its file, its
line, and what to write instead; the software subnet's file included. Exits with 0 when all files are right, else with 1.`)
	here := fs.Bool("here", false, `check the ports, too, against this machine: whether they are there, up, of the right link layer,
in the partitions, with the MTUs; as "run" does before it starts`)
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

// checkFile reports whether file is right, in words too; with here, also whether it suits this machine.
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
	if c.IB.Port.Fabric {
		if _, err := fabric.Load(c.IB.Port.File); err != nil {
			fmt.Fprintln(stderr, err)
			return false
		}
	}
	parts := []string{count(len(c.Hosts), "host"), count(len(c.Groups), "group")}
	if n := len(c.Services); n > 0 {
		parts = append(parts, count(n, "service"))
	}
	suits := ""
	if here {
		if err := suitsMachine(file, c); err != nil {
			fmt.Fprintln(stderr, err)
			return false
		}
		suits = "; suits this machine"
	}
	fmt.Fprintf(stdout, "%s: ok: %s%s\n", file, strings.Join(parts, ", "), suits)
	return true
}

// errUnseen is that of a machine whose devices could not be looked at.
var errUnseen = errors.New("causeway: cannot look at this machine's devices")

// errNotYet is what suitsMachine's error is, too, when time alone may mend it.
var errNotYet = errors.New("causeway: the RDMA device is not there yet")

// notYet is a problem that is errNotYet as well.
type notYet struct{ error }

func (e notYet) Is(target error) bool { return target == errNotYet }
func (e notYet) Unwrap() error        { return e.error }

// suitsMachine returns as an error what keeps a configuration from running on this machine, a line each.
func suitsMachine(file string, c *config.Config) error {
	if !devices.OnHardware(c) {
		return nil
	}
	sys, done, err := devices.Sysfs()
	if err != nil {
		return fmt.Errorf("%w: %w", errUnseen, err)
	}
	defer done()
	var problems []error
	found, mayCome := devices.Examine(c, sys)
	for _, p := range found {
		problems = append(problems, fmt.Errorf("config: %s: %s", file, p))
	}
	if mayCome {
		return notYet{errors.Join(problems...)}
	}
	return errors.Join(problems...)
}

// count says how many there are of a thing.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
