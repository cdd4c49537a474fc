// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"

	nodes "causeway/ibside/fabric"
	"causeway/ibside/ib"
)

// options are the command line's.
type options struct {
	guid        ib.GUID
	description string
	cables      []cableOption
	nodes       []nodes.NodeConfig
}

type cableOption struct{ name, local, remote string }

// parseOptions reads the command line. Ports are numbered in its order, cables before nodes.
func parseOptions(args []string, out io.Writer) (options, error) {
	var o options
	fs := flag.NewFlagSet("ibswitch", flag.ContinueOnError)
	fs.SetOutput(out)
	fs.Func("guid", "the switch's `GUID`; its nodes have the next ones", func(s string) error {
		n, err := strconv.ParseUint(s, 0, 64)
		o.guid = ib.GUID(n)
		return err
	})
	fs.StringVar(&o.description, "description", "ibswitch", "the switch's `NAME` for the subnet manager")
	fs.Func("cable", "a port with a cable: `NAME=LOCALPATH,REMOTEPATH`, QEMU's -netdev dgram with the paths exchanged", o.addCable)
	fs.Func("node", "a port with a software node: `NAME:ROLE[:QPN[:MGID]]`, the role as in ibside/fabric: echo, publish, listen, none", o.addNode)
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	switch {
	case o.guid == 0:
		return o, errors.New("-guid is needed")
	case fs.NArg() > 0:
		return o, fmt.Errorf("unexpected %q", fs.Args())
	}
	return o, nil
}

func (o *options) addCable(s string) error {
	name, paths, ok := strings.Cut(s, "=")
	local, remote, both := strings.Cut(paths, ",")
	if !ok || !both || name == "" || local == "" || remote == "" {
		return errors.New("write NAME=LOCALPATH,REMOTEPATH")
	}
	o.cables = append(o.cables, cableOption{name, local, remote})
	return nil
}

func (o *options) addNode(s string) error {
	words := strings.SplitN(s, ":", 4)
	if len(words) < 2 || words[0] == "" {
		return errors.New("write NAME:ROLE[:QPN[:MGID]]")
	}
	c := nodes.NodeConfig{Name: words[0], Role: nodes.Role(words[1])}
	if len(words) > 2 {
		n, err := strconv.ParseUint(words[2], 0, 24)
		if err != nil {
			return err
		}
		c.QPN = ib.QPN(n)
	}
	if len(words) > 3 {
		mgid, err := ib.ParseGID(words[3])
		if err != nil {
			return err
		}
		c.Groups = []nodes.GroupConfig{{MGID: mgid, QKey: ib.QKeyRDMAUDP}}
	}
	o.nodes = append(o.nodes, c)
	return nil
}
