// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"causeway/app/talk"
)

// listenOptions is what "causeway listen" was asked for.
type listenOptions struct {
	endOptions
	talk.Listening
	groups []netip.Addr
	call   string
}

// runListen listens to what "causeway send" sends.
func runListen(args []string, stdout, stderr io.Writer) int {
	o := listenOptions{}
	fs := o.flags()
	if code, done := parse(fs, args, stdout, stderr); done {
		return code
	}
	if wrong := o.check(fs); wrong != "" {
		return misused(fs, stderr, wrong)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	met, err := o.run(ctx, stdout, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "causeway listen:", err)
	}
	if err != nil || !met {
		return exitFailed
	}
	return exitOK
}

func (o *listenOptions) flags() *flag.FlagSet {
	fs := newFlags("listen", `Listens to what "causeway send" sends, to groups and to a queue pair of its own, and tells of each stream what was
lost, doubled, overtaken and damaged, and how long it took one way: by the clocks of both machines, which must agree
for that. Prints its address and queue pair's number first. Ends after -count, -duration or -idle, or by SIGINT or
SIGTERM. Exits with 1 when fewer messages came whole than -expect says. On a terminal a line shows how it goes.

-call asks a sender that waits (causeway send -to caller) to send here: what a RoCE queue pair needs to be known on
InfiniBand.`+endsHelp)
	o.endOptions.flags(fs)
	fs.Func("group", "a multicast `GROUP` it joins, like 239.1.2.3, or on InfiniBand also an MGID. May be given\nseveral times", func(s string) error {
		ip, err := netip.ParseAddr(s)
		o.groups = append(o.groups, ip)
		return asked(err == nil && ip.IsMulticast() && !ip.Is4In6() && ip.Zone() == "", "write a multicast address, such as 239.1.2.3")
	})
	fs.Func("qpn", "the `NUMBER` of its own queue pair (default: a new one; packet: always the same one of an\naddress, because a bridge remembers each; verbs: only a new one)", parseQPN(&o.config.QPN))
	fs.StringVar(&o.call, "call", "", "the `ADDRESS` of a sender to call")
	fs.Func("call-qpn", "the `NUMBER` of that sender's queue pair", parseQPN(&o.CallQPN))
	fs.Uint64Var(&o.Count, "count", 0, "end after `N` different messages that came whole; 0: do not")
	fs.DurationVar(&o.Duration, "duration", 0, "end after that `TIME`, such as 30s; 0: do not")
	fs.DurationVar(&o.Idle, "idle", 0, "end after that `TIME` without a message; 0: do not")
	fs.Uint64Var(&o.Expect, "expect", 0, "exit with 1 unless `N` different messages came whole")
	return fs
}

// check returns what is wrong about the arguments; "": nothing.
func (o *listenOptions) check(fs *flag.FlagSet) string {
	for _, ip := range o.groups {
		g := o.group
		g.Addr = ip
		o.Groups = append(o.Groups, g)
	}
	if o.call != "" {
		to, err := talk.ParseTo(o.call)
		if err != nil || !to.IsValid() || to.IsMulticast() {
			return fmt.Sprintf("-call %q is no address of a sender; use its IP address or, on InfiniBand, its GID", o.call)
		}
		o.Call = to
	}
	switch wrong := o.endOptions.check(); {
	case fs.NArg() > 0:
		return "listen takes no arguments"
	case wrong != "":
		return wrong
	case o.Call.IsValid() != (o.CallQPN != 0):
		return "-call and -call-qpn go together: the address and the queue pair of a sender that waits to be called"
	case o.Duration < 0 || o.Idle < 0:
		return "-duration and -idle must not be negative"
	case strings.Contains(o.group.Form, ":") && len(o.groups) > 1:
		return "-mgid " + o.group.Form + " is one group's; give one -group with it"
	}
	return ""
}

func (o *listenOptions) run(ctx context.Context, stdout, stderr io.Writer) (met bool, err error) {
	if f, ok := stderr.(*os.File); ok {
		o.Live = talk.Terminal(f)
	}
	o.Ready = func(w talk.Where, joined []string) error { return o.greet(stdout, w, joined) }
	r, err := talk.Listen(ctx, o.config, o.Listening)
	switch {
	case r.On == "": // it has not listened at all
	case o.asJSON:
		if failed := json.NewEncoder(stdout).Encode(r); err == nil {
			err = failed
		}
	default:
		r.Write(stdout)
	}
	return r.Met, err
}

// greet says where it is: what a sender must know, on a line for people and scripts.
func (o *listenOptions) greet(stdout io.Writer, w talk.Where, joined []string) error {
	if o.asJSON {
		return json.NewEncoder(stdout).Encode(struct {
			talk.Where
			Groups []string `json:"groups"`
		}{w, joined})
	}
	what := "listens"
	if len(joined) > 0 {
		what += ", also to " + strings.Join(joined, ", ")
	}
	_, err := fmt.Fprintf(stdout, "%s: %s\n", w, what)
	return err
}
