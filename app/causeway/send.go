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

	"causeway/app/talk"
)

// sendOptions is what "causeway send" was asked for.
type sendOptions struct {
	endOptions
	talk.Sending
	to string
}

// runSend sends numbered messages.
func runSend(args []string, stdout, stderr io.Writer) int {
	o := sendOptions{}
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

func (o *sendOptions) flags() *flag.FlagSet {
	fs := newFlags("send", `Sends numbered, time-stamped messages to a multicast group or to one queue pair, for "causeway listen" on the same
fabric or, through the bridge, on the other. Ends after -count or -duration, or by SIGINT or SIGTERM, with what was
sent. On a terminal a line shows how it goes.

A queue pair is named by the IP address or, on InfiniBand, the GID of its host and its number, which "causeway listen"
prints. A RoCE queue pair has a number on InfiniBand only once it has sent something: -to caller waits for a
"causeway listen -call" and sends there.`+endsHelp)
	o.endOptions.flags(fs)
	fs.StringVar(&o.to, "to", "", "the `ADDRESS` to send to: a group like 239.1.2.3 (on InfiniBand also an MGID), a\nhost, or caller")
	fs.Func("qpn", "the `NUMBER` of the queue pair at that address", parseQPN(&o.QPN))
	fs.Func("own-qpn", "the `NUMBER` of its own queue pair (default: a new one; packet: always the same one of an\naddress, because a bridge remembers each; verbs: only a new one)", parseQPN(&o.config.QPN))
	fs.IntVar(&o.Size, "size", 64, fmt.Sprintf("`BYTES` of a message, %d at least", talk.HeadLen))
	fs.Uint64Var(&o.Count, "count", 0, "end after `N` messages; 0: do not")
	fs.DurationVar(&o.Duration, "duration", 0, "end after that `TIME`, such as 30s; 0: do not")
	o.Rate = 1000
	fs.Func("rate", "the `RATE`, in messages a second, such as 250, 2.5k or 1M; 0: as fast as possible (default 1k)", o.setRate)
	fs.IntVar(&o.Burst, "burst", 1, "`N` messages at a time")
	fs.Uint64Var(&o.Seed, "seed", 1, "the `NUMBER` that the bytes behind a message's head are made from")
	return fs
}

// setRate reads a rate: a number, then k or M.
func (o *sendOptions) setRate(s string) error {
	factor, digits := 1.0, s
	for unit, f := range map[string]float64{"k": 1e3, "M": 1e6} {
		if rest, ok := strings.CutSuffix(s, unit); ok {
			factor, digits = f, rest
		}
	}
	x, err := strconv.ParseFloat(digits, 64)
	o.Rate = x * factor
	return asked(err == nil && o.Rate >= 0 && o.Rate <= 1e9 && !math.IsNaN(x), "write messages a second, such as 250, 2.5k or 1M")
}

// check returns what is wrong about the arguments; "": nothing.
func (o *sendOptions) check(fs *flag.FlagSet) string {
	o.To = o.group
	to, err := talk.ParseTo(o.to)
	o.To.Addr = to
	unicast := to.IsValid() && !to.IsMulticast()
	switch wrong := o.endOptions.check(); {
	case fs.NArg() > 0:
		return "send takes no arguments"
	case wrong != "":
		return wrong
	case o.to == "":
		return "say whom to send to with -to: a group, an address, or caller"
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
	case o.Size < talk.HeadLen || o.Size > 4096:
		return fmt.Sprintf("-size %d; use %d to 4096 bytes", o.Size, talk.HeadLen)
	}
	return ""
}

func (o *sendOptions) run(ctx context.Context, stdout, stderr io.Writer) error {
	if f, ok := stderr.(*os.File); ok {
		o.Live = talk.Terminal(f)
	}
	o.Ready = func(w talk.Where, to string) error { return o.greet(stdout, w, to) }
	r, err := talk.Send(ctx, o.config, o.Sending)
	if r.On == "" { // it has not sent at all
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

func (o *sendOptions) greet(stdout io.Writer, w talk.Where, to string) error {
	if o.asJSON {
		return json.NewEncoder(stdout).Encode(struct {
			talk.Where
			To string `json:"to"`
		}{w, to})
	}
	what := "sends to " + to
	if to == "" {
		what = "waits to be called"
	}
	_, err := fmt.Fprintf(stdout, "%s: %s\n", w, what)
	return err
}
