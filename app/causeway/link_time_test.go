// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"causeway/app/console"
	"causeway/app/segment"
	"causeway/app/slowtest"
)

// linkToldIn is how long after a change of the interface whoever looks must find it.
const linkToldIn = 100 * time.Millisecond

// A sight is a place where the link's state is seen: it returns up, or down.
type sight struct {
	name string
	look func() (string, error)
}

func upOr(up bool) string {
	if up {
		return "up"
	}
	return "down"
}

// sights are all places where a bridge says of its link.
func (n *network) sights(p *program, ns netns.NsHandle, socket string) []sight {
	client := func() *http.Client { // each has a connection of its own
		return &http.Client{Transport: &http.Transport{DialContext: func(_ context.Context, network, address string) (c net.Conn, err error) {
			err = segment.In(ns, func() error { c, err = net.DialTimeout(network, address, within); return err })
			return c, err
		}}}
	}
	get := func(c *http.Client, path string) (int, string, error) {
		r, err := c.Get("http://127.0.0.1:9432" + path)
		if err != nil {
			return 0, "", err
		}
		b, err := io.ReadAll(r.Body)
		return r.StatusCode, string(b), errors.Join(err, r.Body.Close())
	}
	metric := func(name string) sight {
		c := client()
		return sight{name, func() (string, error) {
			_, text, err := get(c, "/metrics")
			return upOr(strings.Contains(text, "\n"+name+" 1\n")), err
		}}
	}
	readyz, told := client(), regexp.MustCompile(`ethernet.link\W+(up|down)`)
	return []sight{
		{"log", func() (string, error) {
			text := p.stderr.String()
			return upOr(strings.LastIndex(text, `"msg":"link_up"`) >= strings.LastIndex(text, `"msg":"link_down"`)), nil
		}},
		{"/readyz", func() (string, error) {
			code, _, err := get(readyz, "/readyz")
			return upOr(code == http.StatusOK), err
		}},
		metric("causeway_port_link_up"), // the alert's
		metric("causeway_ready"),
		{"console", func() (string, error) {
			c, err := net.Dial("unix", socket)
			if err != nil {
				return "", err
			}
			defer c.Close()
			var out bytes.Buffer
			if _, err := console.Ask(context.Background(), c, console.Question{Line: "show status", JSON: true}, &out, &out); err != nil {
				return "", err
			}
			m := told.FindStringSubmatch(out.String())
			if m == nil {
				return "", fmt.Errorf("show status says nothing of the link:\n%s", &out)
			}
			return m[1], nil
		}},
	}
}

// toldAfter makes a change, and returns how long after its beginning each place had a state.
func toldAfter(t *testing.T, all []sight, want string, change func() error) map[string]time.Duration {
	t.Helper()
	seen, errs := make([]time.Time, len(all)), make([]error, len(all))
	var looking sync.WaitGroup
	deadline := time.Now().Add(within)
	for i, s := range all {
		looking.Go(func() {
			for is := ""; is != want && errs[i] == nil; time.Sleep(time.Millisecond) {
				is, errs[i] = s.look()
				if seen[i] = time.Now(); seen[i].After(deadline) {
					errs[i] = fmt.Errorf("it still says %s", is)
				}
			}
		})
	}
	began := time.Now()
	errs = append(errs, change())
	looking.Wait()
	after := map[string]time.Duration{}
	for i, s := range all {
		if errs[i] != nil {
			t.Fatalf("%s, until %s: %v", s.name, want, errs[i])
		}
		after[s.name] = seen[i].Sub(began)
	}
	if err := errs[len(all)]; err != nil {
		t.Fatal(err)
	}
	return after
}

// TestLinkTold measures how long after the carrier, the state and the existence of the interface have changed that is
// in the log, the metrics, /readyz and at the console. That the kernel has the bridge, or who looks, wait for a CPU does not count.
func TestLinkTold(t *testing.T) {
	n := newNetwork(t)
	n.wires()
	dir, err := os.MkdirTemp("", "console") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "console.sock")
	p := n.bridge(`port = "ring"`, `port = "af_packet:ours"`, "[log]\n", "[console]\nlisten = [\"unix:"+socket+"\"]\n[log]\n")
	ns, err := netns.GetFromName(n.name)
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	kernel, err := netlink.NewHandleAt(ns)
	if err != nil {
		t.Fatal(err)
	}
	defer kernel.Close()
	meter, err := slowtest.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer meter.Close()
	all := n.sights(p, ns, socket)
	for _, s := range all { // connections are there
		if is, err := s.look(); is != "up" || err != nil {
			t.Fatalf("%s says %s at first, %v", s.name, is, err)
		}
	}
	for _, step := range []struct {
		what, of, want string
		change         func(netlink.Link) error
	}{
		{"the carrier is lost", "theirs", "down", kernel.LinkSetDown}, {"the carrier is back", "theirs", "up", kernel.LinkSetUp},
		{"it is set down", "ours", "down", kernel.LinkSetDown}, {"it is set up", "ours", "up", kernel.LinkSetUp},
		{"it is deleted", "ours", "down", kernel.LinkDel},
	} {
		link, err := kernel.LinkByName(step.of)
		if err != nil {
			t.Fatal(err)
		}
		_ = meter.Worst() // of before
		delay := func() time.Duration { return runDelay(t, p.cmd.Process.Pid) + runDelay(t, os.Getpid()) }
		before := delay()
		after := toldAfter(t, all, step.want, func() error { return step.change(link) })
		limit := slowtest.Stretch(t, linkToldIn, meter.Worst()) + delay() - before
		line := step.what + ":"
		for _, s := range all {
			line += fmt.Sprintf(" %s %.1f ms,", s.name, after[s.name].Seconds()*1e3)
			if after[s.name] > limit {
				t.Errorf("%s: %s has it after %v, want %v", step.what, s.name, after[s.name], limit)
			}
		}
		t.Log(strings.TrimSuffix(line, ","))
	}
	p.end(syscall.SIGTERM)
}
