// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"causeway/config"
)

func init() { tasks["bonds-reload"] = taskBondsReload }

// bondsWith is a configuration of the first segment on a cable of its own, and, unless it is "", of the second on another
// port.
func bondsWith(second string) (*config.Config, error) {
	cfg, err := config.Parse("bridge", []byte(bondsText(second)))
	if err != nil {
		return nil, err
	}
	if second == "" {
		cfg = withoutSecond(cfg)
	}
	return cfg, nil
}

func bondsText(second string) string {
	if second == "" {
		second = "af_packet:none"
	}
	text := strings.ReplaceAll(segmentsFile, "mtu = 4200", "mtu = 1500")
	text = strings.Replace(text, "memory_mib = 64\nmbufs = 2048", "memory_mib = 128\nmbufs = 8192", 1)
	text = strings.Replace(text, `"ring"`, `"af_packet:shared"`, 1)
	return strings.Replace(text, "port = \"ring\"\nvlan = 200", fmt.Sprintf("port = %q", second), 1)
}

// bondStep changes the configuration while messages cross by the first port.
type bondStep struct {
	what   string
	second string // the second segment's port; "": there is none
	fails  string // the reload's error; "": there is none
	wires  []string
}

const anotherPlease = "reload a file without it first, or restart the bridge"

var bondSteps = []bondStep{
	{"a bond comes", "bond:active-backup,af_packet:ours0,af_packet:ours1", "", []string{"wire0"}},
	{"it has other members", "bond:active-backup,af_packet:ours2,af_packet:ours1",
		`[[roce]] bond:active-backup,af_packet:ours2,af_packet:ours1/0: "af_packet:ours1" is in use by the port bond:active-backup,af_packet:ours0,af_packet:ours1 until that is closed: ` + anotherPlease, nil},
	{"it has one more", "bond:active-backup,af_packet:ours0,af_packet:ours1,af_packet:ours2", `"af_packet:ours0" is in use by the port bond:`, nil},
	{"it has another mode", "bond:lacp,af_packet:ours0,af_packet:ours1", `"af_packet:ours0" is in use by the port bond:`, nil},
	{"a port is its member", "af_packet:ours1", `"af_packet:ours1" is in use by the port bond:`, nil},
	{"a tap shares its member", "tap:dtap0,remote=ours1", `"tap:dtap0,remote=ours1" is in use by the port bond:`, nil},
	{"it is as it was", "bond:active-backup,af_packet:ours0,af_packet:ours1", "", []string{"wire0"}},
	{"it goes", "", "", nil},
	{"it comes with other members", "bond:active-backup,af_packet:ours2,af_packet:ours1", "", []string{"wire2"}},
	{"one of others in its place", "bond:lacp,af_packet:ours0,af_packet:ours3", "", nil},
	{"a port in its place", "af_packet:ours1", "", []string{"wire1"}},
	{"that is to be in a bond", "bond:active-backup,af_packet:ours1,af_packet:ours2", `"af_packet:ours1" is in use by the port af_packet:ours1`, nil},
	{"a bond of taps", "bond:active-backup,tap:btap0,tap:btap1", "", nil},
	{"it has another mode", "bond:lacp,tap:btap0,tap:btap1", `"tap:btap0" is in use by the port bond:`, nil},
	{"it goes", "", "", nil},
	{"it comes with another mode", "bond:lacp,tap:btap0,tap:btap1", "", nil},
	{"one of whose members one is not there", "bond:active-backup,af_packet:none,af_packet:ours1", "", []string{"wire1"}},
	{"it goes", "", "", nil},
	{"one of whose members none is there", "bond:active-backup,af_packet:none,af_packet:none1", "member af_packet:none1: there is no interface none1", nil},
}

func taskBondsReload() (string, error) {
	cfg, err := bondsWith("")
	if err != nil {
		return "", err
	}
	x, err := newSegmentedBy(cfg, Options{Around: func(open func() error) error { return open() }})
	if err != nil {
		return "", err
	}
	var said []string
	err = x.run(func() error {
		for _, s := range bondSteps {
			longest, err := x.bondStep(&s)
			said = append(said, fmt.Sprintf("%s: the longest pause is %v", s.what, longest))
			if err != nil {
				return fmt.Errorf("%s\n%s: %w", strings.Join(said, "\n"), s.what, err)
			}
		}
		return nil
	})
	return strings.Join(said, "\n"), err
}

func (b *segmented) bondStep(s *bondStep) (longest time.Duration, err error) {
	to, err := bondsWith(s.second)
	if err != nil {
		return 0, err
	}
	end, err := b.stream("wire", 0)
	if err != nil {
		return 0, err
	}
	before, was := fmt.Sprintf("%+v", b.names()), b.Config()
	time.Sleep(50 * time.Millisecond)
	_, err = b.Reload(context.Background(), to)
	longest, lost := end()
	if lost != nil {
		return longest, lost
	}
	if s.fails != "" {
		if err == nil || !strings.Contains(err.Error(), s.fails) || strings.Contains(err.Error(), "\n") || b.Config() != was || fmt.Sprintf("%+v", b.names()) != before {
			return longest, fmt.Errorf("%w, want %q in one line; there are %+v", err, s.fails, b.names())
		}
		return longest, nil
	}
	if err != nil {
		return longest, err
	}
	if err := b.readyAgain(pause); err != nil {
		return longest, err
	}
	for _, wire := range s.wires {
		end, err := b.stream(wire, 1)
		if err != nil {
			return longest, err
		}
		time.Sleep(300 * time.Millisecond)
		if _, err := end(); err != nil {
			return longest, err
		}
	}
	return longest, nil
}

func (b *segmented) names() (all []string) {
	for _, p := range b.EthernetPorts() {
		all = append(all, p.Name)
	}
	return all
}

// TestBondsReload needs root.
func TestBondsReload(t *testing.T) {
	t.Parallel()
	sharedInterface(t)
	for i := range 4 {
		shell(t, strings.ReplaceAll(cableScript, "M", fmt.Sprint(i)))
	}
	logTask(t, "bonds-reload")
	if out, err := exec.Command("ip", "-o", "link").CombinedOutput(); err != nil || strings.Contains(string(out), "PROMISC") || strings.Contains(string(out), "btap") {
		t.Errorf("left is\n%s", out)
	}
}
