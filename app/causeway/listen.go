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

	"causeway/app/traffic"
)

// listenOptions are the options of "causeway listen".
type listenOptions struct {
	endpointOptions
	traffic.ListenConfig
	groups []netip.Addr
	call   string
}

// runListen receives what "causeway send" sends.
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
	fs := newFlags("listen", `Receives what "causeway send" sends, to groups and to a queue pair of its own, and reports for each stream what was
lost, duplicated, reordered and corrupted, and the one-way latency, for which the clocks of both machines must agree.
Prints its address and queue pair's number first. Ends after -count, -duration or -idle, or by SIGINT or SIGTERM. Exits
with 1 when fewer messages were received intact than -expect says. On a terminal a status line shows the counts.

-call asks a sender that waits (causeway send -to caller) to send here, as a RoCE queue pair must do to be known on
InfiniBand.`+endpointHelp)
	o.endpointOptions.flags(fs)
	fs.Func("group", "a multicast `GROUP` to join, like 239.1.2.3, or on InfiniBand also an MGID. May be given\nseveral times", func(s string) error {
		ip, err := netip.ParseAddr(s)
		o.groups = append(o.groups, ip)
		return require(err == nil && ip.IsMulticast() && !ip.Is4In6() && ip.Zone() == "", "write a multicast address, such as 239.1.2.3")
	})
	fs.Func("qpn", "the `NUMBER` of its own queue pair (default: a new one; packet: always the same for an\naddress, because a bridge remembers each; verbs: cannot be chosen)", parseQPN(&o.config.QPN))
	fs.StringVar(&o.call, "call", "", "the `ADDRESS` of a sender to call")
	fs.Func("call-qpn", "the `NUMBER` of that sender's queue pair", parseQPN(&o.CallQPN))
	fs.Uint64Var(&o.Count, "count", 0, "end after `N` different intact messages; 0: unlimited")
	fs.DurationVar(&o.Duration, "duration", 0, "end after that `TIME`, such as 30s; 0: unlimited")
	fs.DurationVar(&o.Idle, "idle", 0, "end after that `TIME` without a message; 0: unlimited")
	fs.BoolVar(&o.AnySource, "any-source", false, "a stream is its sender's, whatever address its messages come from, as when one bridge takes over from another")
	fs.Uint64Var(&o.Expect, "expect", 0, "exit with 1 unless `N` different messages were received intact")
	return fs
}

// check returns what is wrong with the arguments; "": nothing.
func (o *listenOptions) check(fs *flag.FlagSet) string {
	for _, ip := range o.groups {
		g := o.group
		g.Addr = ip
		o.Groups = append(o.Groups, g)
	}
	if o.call != "" {
		to, err := traffic.ParseTo(o.call)
		if err != nil || !to.IsValid() || to.IsMulticast() {
			return fmt.Sprintf("-call %q is no address of a sender; use its IP address or, on InfiniBand, its GID", o.call)
		}
		o.Call = to
	}
	switch wrong := o.endpointOptions.check(); {
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
		o.Live = traffic.Terminal(f)
	}
	o.Ready = func(i traffic.Info, joined []string) error { return o.greet(stdout, i, joined) }
	r, err := traffic.Listen(ctx, o.config, o.ListenConfig)
	switch {
	case r.On == "": // it failed before it listened
	case o.asJSON:
		if failed := json.NewEncoder(stdout).Encode(r); err == nil {
			err = failed
		}
	default:
		r.Write(stdout)
	}
	return r.Met, err
}

// greet prints what a sender must know, on a line for people and scripts.
func (o *listenOptions) greet(stdout io.Writer, i traffic.Info, joined []string) error {
	if o.asJSON {
		return json.NewEncoder(stdout).Encode(struct {
			traffic.Info
			Groups []string `json:"groups"`
		}{i, joined})
	}
	what := "listens"
	if len(joined) > 0 {
		what += ", also to " + strings.Join(joined, ", ")
	}
	_, err := fmt.Fprintf(stdout, "%s: %s\n", i, what)
	return err
}
