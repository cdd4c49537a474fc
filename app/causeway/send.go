// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"causeway/app/traffic"
	"causeway/ibside/stamp"
)

// sendpointOptions are the options of "causeway send".
type sendpointOptions struct {
	endpointOptions
	traffic.SendConfig
	to string
}

// runSend is "causeway send".
func runSend(args []string, stdout, stderr io.Writer) int {
	o := sendpointOptions{}
	fs := o.flags()
	if code, done := parse(fs, args, stdout, stderr); done {
		return code
	}
	if wrong := o.check(fs); wrong != "" {
		return misused(fs, stderr, wrong)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := o.run(ctx, stdout, stderr); err != nil {
		fmt.Fprintln(stderr, "causeway send:", err)
		return exitFailed
	}
	return exitOK
}

func (o *sendpointOptions) flags() *flag.FlagSet {
	fs := newFlags("send", `Sends numbered, time-stamped messages to a multicast group or to one queue pair, for "causeway listen" on the same
fabric or, through the bridge, on the other. Ends after -count or -duration, or by SIGINT or SIGTERM, and prints what
was sent. On a terminal a status line shows the counts.

A queue pair is named by its host's IP address or, on InfiniBand, GID, and its number; "causeway listen" prints both. A
RoCE queue pair has a number on InfiniBand only once it has sent something: -to caller waits for a
"causeway listen -call" and sends there.`+endpointHelp)
	o.endpointOptions.flags(fs)
	fs.StringVar(&o.to, "to", "", "the `ADDRESS` to send to: a group like 239.1.2.3 (on InfiniBand also an MGID), a\nhost, or caller")
	fs.Func("qpn", "the `NUMBER` of the queue pair at that address", parseQPN(&o.QPN))
	fs.Func("own-qpn", "the `NUMBER` of its own queue pair (default: a new one; packet: always the same for an\naddress, because a bridge remembers each; verbs: cannot be chosen)", parseQPN(&o.config.QPN))
	fs.IntVar(&o.Size, "size", 64, fmt.Sprintf("`BYTES` of a message, %d at least", stamp.Len))
	fs.Uint64Var(&o.Count, "count", 0, "end after `N` messages; 0: unlimited")
	fs.DurationVar(&o.Duration, "duration", 0, "end after that `TIME`, such as 30s; 0: unlimited")
	o.Rate = 1000
	fs.Func("rate", "the `RATE`, in messages a second, such as 250, 2.5k or 1M; 0: as fast as possible (default 1k)", o.setRate)
	fs.IntVar(&o.Burst, "burst", 1, "`N` messages at a time")
	o.Seed = 1
	fs.Func("seed", "the `NUMBER` that the pattern in the messages is made from (default 1)", func(s string) error {
		n, err := strconv.ParseUint(s, 0, 16)
		o.Seed = uint16(n)
		return require(err == nil, "write 0 to 65535")
	})
	return fs
}

// setRate parses a rate: a number, then k or M.
func (o *sendpointOptions) setRate(s string) error {
	factor, digits := 1.0, s
	for unit, f := range map[string]float64{"k": 1e3, "M": 1e6} {
		if rest, ok := strings.CutSuffix(s, unit); ok {
			factor, digits = f, rest
		}
	}
	x, err := strconv.ParseFloat(digits, 64)
	o.Rate = x * factor
	return require(err == nil && o.Rate >= 0 && o.Rate <= 1e9 && !math.IsNaN(x), "write messages a second, such as 250, 2.5k or 1M")
}

// check returns what is wrong with the arguments; "": nothing.
func (o *sendpointOptions) check(fs *flag.FlagSet) string {
	o.To = o.group
	to, err := traffic.ParseTo(o.to)
	o.To.Addr = to
	unicast := to.IsValid() && !to.IsMulticast()
	switch wrong := o.endpointOptions.check(); {
	case fs.NArg() > 0:
		return "send takes no arguments"
	case wrong != "":
		return wrong
	case o.to == "":
		return "name the destination with -to: a group, an address, or caller"
	case err != nil:
		return "-to " + err.Error()
	case unicast && o.QPN == 0:
		return fmt.Sprintf("-to %s is one host: name its queue pair with -qpn, as \"causeway listen\" prints it", o.to)
	case !unicast && o.QPN != 0:
		return fmt.Sprintf("-qpn is for one host, and -to %s is none", o.to)
	case o.Burst < 1 || o.Burst > 1<<20:
		return fmt.Sprintf("-burst %d; use 1 to %d", o.Burst, 1<<20)
	case o.Duration < 0:
		return "-duration must not be negative"
	case o.Size < stamp.Len || o.Size > 4096:
		return fmt.Sprintf("-size %d; use %d to 4096 bytes", o.Size, stamp.Len)
	}
	return ""
}

func (o *sendpointOptions) run(ctx context.Context, stdout, stderr io.Writer) error {
	if f, ok := stderr.(*os.File); ok {
		o.Live = traffic.Terminal(f)
	}
	o.Ready = func(i traffic.Info, to string) error { return o.greet(stdout, i, to) }
	r, err := traffic.Send(ctx, o.config, o.SendConfig)
	if r.On == "" { // it failed before it sent
		return err
	}
	if o.asJSON {
		if failed := json.NewEncoder(stdout).Encode(r); err == nil {
			err = failed
		}
		return err
	}
	r.Write(stdout)
	return err
}

func (o *sendpointOptions) greet(stdout io.Writer, i traffic.Info, to string) error {
	if o.asJSON {
		return json.NewEncoder(stdout).Encode(struct {
			traffic.Info
			To string `json:"to"`
		}{i, to})
	}
	what := "sends to " + to
	if to == "" {
		what = "waits to be called"
	}
	_, err := fmt.Fprintf(stdout, "%s: %s\n", i, what)
	return err
}
