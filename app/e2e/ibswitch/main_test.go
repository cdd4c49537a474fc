// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"path/filepath"
	"strings"
	"testing"
)

func TestOptions(t *testing.T) {
	for _, c := range []struct{ args, wrong string }{
		{"-guid 0x10", ""},
		{"-guid 0x10 -cable a=/x,/y -node e:echo -node p:publish:0x50:ff12::1", ""},
		{"", "-guid is needed"},
		{"-guid 0x10 more", "unexpected"},
		{"-guid 0x10 -cable a=/x", "write NAME=LOCALPATH,REMOTEPATH"},
		{"-guid 0x10 -cable =/x,/y", "write NAME=LOCALPATH,REMOTEPATH"},
		{"-guid 0x10 -node echo", "write NAME:ROLE"},
		{"-guid 0x10 -node e:echo:x", "invalid syntax"},
		{"-guid 0x10 -node e:echo:1:x", "not an IPv6 address"},
		{"-guid x", "invalid syntax"},
	} {
		_, err := parseOptions(strings.Fields(c.args), io.Discard)
		if c.wrong == "" && err != nil || c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)) {
			t.Errorf("%s: %v", c.args, err)
		}
	}
	o, err := parseOptions([]string{"-guid", "0x10", "-node", "p:publish:0x50:ff12::1"}, io.Discard)
	if err != nil || o.nodes[0].QPN != 0x50 || len(o.nodes[0].Groups) != 1 || o.nodes[0].Groups[0].MGID.String() != "ff12::1" {
		t.Errorf("%+v, %v", o, err)
	}
}

// TestRun: the program is ready, obeys commands, and ends with them.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	o, err := parseOptions([]string{
		"-guid", "0x10", "-cable", "a=" + filepath.Join(dir, "a") + "," + filepath.Join(dir, "b"), "-node", "e:echo",
	}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	commands, toCommands := io.Pipe()
	fromOut, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(context.Background(), o, commands, out)
		out.Close()
		ended <- err
	}()
	read := bufio.NewScanner(fromOut)
	await := func(prefix string) string {
		for read.Scan() {
			if strings.HasPrefix(read.Text(), prefix) {
				return read.Text()
			}
		}
		t.Fatalf("no line %q", prefix)
		return ""
	}
	do := func(command string) { io.WriteString(toCommands, command+"\n") }
	await("ready")
	do("down e")
	await("ok down e")
	do("up e")
	await("ok up e")
	do("up z")
	await("error ")
	do("lose a 50")
	await("ok lose a 50")
	do("lose z 50")
	await("error ")
	do("lose a x")
	await("error ")
	do("counters")
	var c counters
	if err := json.Unmarshal([]byte(await("{")), &c); err != nil || len(c.Ports) != 3 || len(c.Nodes) != 1 || c.Ports[1].Name != "a" {
		t.Errorf("%+v, %v", c, err)
	}
	toCommands.Close()
	go io.Copy(io.Discard, fromOut)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestNamesTwice(t *testing.T) {
	o, err := parseOptions([]string{"-guid", "0x10", "-node", "e:echo", "-node", "e:echo"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if err := run(context.Background(), o, strings.NewReader(""), io.Discard); err == nil {
		t.Error("two ports of one name")
	}
}
