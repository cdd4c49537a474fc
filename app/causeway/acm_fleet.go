// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"time"

	"causeway/app/console"
	"causeway/config"
	"causeway/ibside/ib"
)

// fleetOwners asks the running bridge of a configuration which bridge of its fleet each RoCE host has now, and returns that
// one's GID; nil: there is no fleet.
func fleetOwners(c *config.Config, stderr io.Writer) (map[netip.Addr]ib.GID, error) {
	if c.Fleet.Name == "" {
		return nil, nil
	}
	if len(c.Console.Listen) == 0 {
		return nil, errors.New(`the bridge has no console to ask; write [console] listen = ["unix:/run/causeway/console.sock"]`)
	}
	var fleet struct {
		Members []struct {
			Member string
			GID    string
		}
	}
	var hosts struct {
		Hosts []struct {
			Address netip.Addr
			Bridge  string
		}
	}
	for question, into := range map[string]any{"show fleet": &fleet, "show hosts limit 100000": &hosts} {
		if err := askConsole(c.Console.Listen[0].Address, question, into); err != nil {
			return nil, err
		}
	}
	gids := map[string]ib.GID{}
	for _, m := range fleet.Members {
		gids[strings.TrimSuffix(m.Member, " (this)")], _ = ib.ParseGID(m.GID)
	}
	owners := map[netip.Addr]ib.GID{}
	for _, h := range hosts.Hosts {
		if gid := gids[h.Bridge]; !gid.IsZero() {
			owners[h.Address] = gid
		}
	}
	fmt.Fprintf(stderr, "causeway acm: the fleet's bridges have %s; write the files again when shards have moved for good\n", count(len(owners), "known host"))
	return owners, nil
}

// askConsole asks a console, and decodes the JSON that it answers.
func askConsole(at, question string, into any) error {
	const patience = 10 * time.Second
	ctx, end := context.WithTimeout(context.Background(), patience)
	defer end()
	conn, err := dialConsole(ctx, at)
	if err != nil {
		return err
	}
	defer conn.Close()
	var out, failed bytes.Buffer
	code, err := console.Ask(ctx, conn, console.Question{Words: strings.Fields(question), JSON: true}, &out, &failed)
	if err == nil && code != exitOK {
		err = fmt.Errorf("%s: %s", question, strings.TrimSpace(failed.String()))
	}
	if err == nil {
		err = json.Unmarshal(out.Bytes(), into)
	}
	return err
}
