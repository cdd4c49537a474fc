// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"causeway/config"
	"causeway/ibside/ib"
	"causeway/lcore"
)

// liveEdits change the value of each key that a running bridge takes according to keys.go, or add an entry, in the
// configuration of these tests.
var liveEdits = map[string][2]string{
	"bridge.beside":                  {`"bridge"`, "\"bridge\"\nbeside = [\"b\"]"},
	"roce.port":                      {`"ring"`, `"null"`},
	"roce.allow":                     {"mtu = 4200", "mtu = 4200\nallow = [\"10.9.0.0/16\"]"},
	"roce.querier":                   {"mtu = 4200", "mtu = 4200\nquerier = true"},
	"workers.proxy_qps_per_host":     {"[workers]", "[workers]\nproxy_qps_per_host = 9"},
	"workers.proxy_qps_unconfirmed":  {"[workers]", "[workers]\nproxy_qps_unconfirmed = 9"},
	"workers.proxy_qp_rate":          {"[workers]", "[workers]\nproxy_qp_rate = 9"},
	"workers.proxy_qp_rate_per_host": {"[workers]", "[workers]\nproxy_qp_rate_per_host = 9"},
	"workers.proxy_qp_idle":          {"[workers]", "[workers]\nproxy_qp_idle = 99"},
	"log.level":                      {"[policy]", "[log]\nlevel = \"debug\"\n[policy]"},
	"policy.allow":                   {`"10.9.0.0/24"`, `"10.9.0.0/16"`},
	"policy.unknown_source":          {"[policy]", "[policy]\nunknown_source = \"bridge\""},
	"qos.dscp_to_sl":                 {"[policy]", "[qos]\ndscp_to_sl = { 46 = 3 }\n[policy]"},
	"qos.sl_to_dscp":                 {"[policy]", "[qos]\nsl_to_dscp = { 3 = 46 }\n[policy]"},
	"qos.sl_to_pcp":                  {"[policy]", "[qos]\nsl_to_pcp = { 3 = 4 }\n[policy]"},
	"host":                           {"[[group]]", "[[host]]\nip = \"10.9.0.8\"\nside = \"ib\"\ngid = \"fe80::8\"\nlid = 8\n[[group]]"},
	"group":                          {"[[group]]", "[[group]]\nip = \"239.1.2.4\"\npgm = true\n[[group]]"},
	"range":                          {"[[group]]", "[[range]]\nip = \"239.3.0.0/16\"\n[[group]]"},
	"service":                        {"[[group]]", "[[service]]\nports = \"7000-7100\"\n[[group]]"},
	"translate":                      {"[[group]]", "[[translate]]\nroce = \"10.9.0.0/24\"\nib = \"10.10.9.0/24\"\n[[group]]"},
}

// fixedEdits do so for keys that it does not take; those of [ib] need hardware and are not here.
var fixedEdits = map[string][2]string{
	"bridge.name": {`"bridge"`, `"other"`}, "roce.addresses": {"10.9.0.254", "10.9.0.253"},
	"roce.mtu": {"4200", "1500"}, "roce.versions": {"mtu", "versions = [\"v1\", \"v2\"]\nmtu"}, "roce.vlan": {"mtu", "vlan = 5\nmtu"},
	"roce.ttl": {"mtu", "ttl = 5\nmtu"}, "ib.pkey": {"0xffff", "0x8001"}, "workers.lcores": {"[0]", "[1]"}, "workers.idle": {"sleep", "poll"},
	"workers.memory_mib": {"64", "65"}, "workers.mbufs": {"2048", "4096"}, "workers.nodes": {"[workers]", "[workers]\nnodes = 9"},
	"workers.hosts": {"[workers]", "[workers]\nhosts = 9"}, "workers.groups": {"[workers]", "[workers]\ngroups = 9"},
	"workers.proxy_qps": {"[workers]", "[workers]\nproxy_qps = 99"}, "metrics.listen": {"[policy]", "[metrics]\nlisten = \"127.0.0.1:9\"\n[policy]"},
	"console.listen": {"[policy]", "[console]\nlisten = [\"127.0.0.1:9\"]\n[policy]"}, "log.format": {"[policy]", "[log]\nformat = \"json\"\n[policy]"},
}

// edited is the configuration of a bridge that runs, with an edit.
func (b *Bridge) edited(from, to string) (*config.Config, error) {
	if !strings.Contains(bridgeFile, from) {
		return nil, fmt.Errorf("the configuration does not contain %q", from)
	}
	text := strings.Replace(bridgeFile, from, to, 1)
	return config.Parse("bridge", []byte(strings.Replace(text, `"fabric:"`, `"fabric:`+b.cfg.IB.Port.File+`"`, 1)))
}

// liveKeys returns the keys that can change in a running bridge according to the example configuration, as "table.key".
func liveKeys() map[string]bool {
	key := regexp.MustCompile(`^(?:# )?(\w+) = `)
	live, table, comment := map[string]bool{}, "", ""
	for line := range strings.Lines(config.Example()) {
		line = strings.TrimSpace(line)
		switch m := key.FindStringSubmatch(line); {
		case strings.HasPrefix(line, "["):
			table, comment = strings.Trim(line, "[]"), ""
		case m != nil && strings.HasSuffix(comment, " While running: yes."):
			live[table+"."+m[1]], comment = true, ""
		default:
			comment += " " + strings.TrimPrefix(line, "# ")
		}
	}
	return live
}

// taskReloadKeys checks that Reload takes what keys.go says is live and rejects the rest by name, with nothing changed.
func taskReloadKeys() (string, error) {
	h, err := built()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d keys", len(liveEdits)+len(fixedEdits)), running(h, func() error {
		was, live := h.Config(), liveKeys()
		for name, e := range fixedEdits {
			to, err := h.edited(e[0], e[1])
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			table, key, _ := strings.Cut(name, ".")
			var never NeedsRestart
			if _, err := h.Reload(context.Background(), to); !errors.As(err, &never) || !strings.Contains(err.Error(), "["+table+"] "+key+": ") || !strings.HasPrefix(err.Error(), "reload: ") ||
				live[name] || h.Config() != was {
				return fmt.Errorf("%s: documented as live: %v; %w", name, live[name], err)
			}
		}
		for name, e := range liveEdits {
			to, err := h.edited(e[0], e[1])
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if strings.Contains(name, ".") && !live[name] {
				return fmt.Errorf("%s: not documented as live", name)
			}
			for _, c := range []*config.Config{to, was} {
				if changes, err := h.Reload(context.Background(), c); err != nil || len(changes) == 0 || h.Config() != c {
					return fmt.Errorf("%s: %d changes, %w", name, len(changes), err)
				}
			}
		}
		for name := range live {
			table, _, _ := strings.Cut(name, ".")
			if _, tried := liveEdits[name]; !tried && liveEdits[table] == ([2]string{}) {
				return fmt.Errorf("%s is documented as live, and not tried", name)
			}
		}
		return nil
	})
}

// taskReloadTraffic checks that a stream of numbered messages crosses without loss while groups, hosts, services,
// ranges and the policy change around it, and that the messages of what is removed are dropped by name.
func taskReloadTraffic() (string, error) {
	h, err := built()
	if err != nil {
		return "", err
	}
	sent := 0
	var edits int
	err = running(h, func() error {
		if err := h.round(&sent); err != nil { // makes the proxy QP
			return err
		}
		was := h.Config()
		for range 3 {
			for name, e := range liveEdits {
				if name == "roce.port" { // by which the messages come: taskPortsReload has messages by another meanwhile
					continue
				}
				to, err := h.edited(e[0], e[1])
				if err != nil {
					return err
				}
				for _, c := range []*config.Config{to, was} {
					changed := make(chan error, 1)
					go func() { _, err := h.Reload(context.Background(), c); changed <- err }()
					if err := errors.Join(h.round(&sent), <-changed, h.round(&sent)); err != nil {
						return fmt.Errorf("%s: %w", name, err)
					}
					edits++
				}
			}
		}
		if lost := h.Counters().Direction[lcore.RoCEToIB]; lost.Dropped() > 0 {
			return fmt.Errorf("dropped %v", lost.Drops)
		}
		return h.removal(&sent)
	})
	return fmt.Sprintf("%d messages there and back, %d changes", sent, edits), err
}

// round sends messages to the echo and wants each back.
func (b *Bridge) round(sent *int) error {
	const n = 40
	first := *sent + 1
	for range n {
		*sent++
		p := message(b, nodeIP, 0x77, *sent)
		if err := b.enter(p.AppendTo(nil)); err != nil {
			return err
		}
	}
	answers, err := b.leave(n)
	return errors.Join(err, answersTo(first, answers))
}

// readyAgain waits until the bridge knows the nodes of its file after a reload. What was published last may be of before it.
func (b *Bridge) readyAgain(meanwhile func() error) error {
	before := b.Status().Publication
	again := func() bool { is := b.Status(); return is.Ready && is.Publication > before }
	for deadline := time.Now().Add(time.Minute); !again(); {
		if time.Now().After(deadline) {
			return fmt.Errorf("not ready again: %+v", b.Status())
		}
		if err := meanwhile(); err != nil {
			return err
		}
	}
	return nil
}

// pause is for those who only wait.
func pause() error {
	time.Sleep(time.Millisecond)
	return nil
}

// removal removes the stream's destination, and its sender.
func (b *Bridge) removal(sent *int) error {
	ctx := context.Background()
	dropped := func(reason string, edit func() (config.Changes, error), undo func() (config.Changes, error)) error {
		d, _ := lcore.DropNamed(reason)
		before := b.Counters().Direction[lcore.RoCEToIB].Drops[d]
		if _, err := edit(); err != nil {
			return err
		}
		p := message(b, nodeIP, 0x77, *sent)
		if err := b.enter(p.AppendTo(nil)); err != nil {
			return err
		}
		for deadline := time.Now().Add(time.Minute); b.Counters().Direction[lcore.RoCEToIB].Drops[d] != before+1; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				return fmt.Errorf("no drop %s, but %v", reason, b.Counters().Direction[lcore.RoCEToIB].Drops)
			}
		}
		if _, err := undo(); err != nil {
			return err
		}
		if err := b.readyAgain(pause); err != nil {
			return err
		}
		return b.round(sent)
	}
	was := b.Config()
	back := func() (config.Changes, error) { return b.Reload(ctx, was) }
	return errors.Join(
		dropped("node_unknown", func() (config.Changes, error) { return b.RemoveHost(ctx, nodeIP, nil) }, back),
		dropped("acl", func() (config.Changes, error) {
			to, err := b.edited(`"10.9.0.0/24"`, `"10.9.0.7/32"`)
			if err != nil {
				return nil, err
			}
			return b.Reload(ctx, to)
		}, back),
	)
}

// taskSingleChanges checks that each single change shows in the configuration in force, and that the error of a wrong
// one names it.
func taskSingleChanges() (string, error) {
	h, err := built()
	if err != nil {
		return "", err
	}
	return "added and removed", running(h, func() error {
		ctx, was := context.Background(), h.Config()
		mgid := ib.MGIDRDMACM(netip.MustParseAddr("239.9.9.9"), ib.PKeyDefault, 2)
		adds := func(entry string) func() (config.Changes, error) {
			return func() (config.Changes, error) { return h.Add(ctx, entry) }
		}
		for name, f := range map[string][2]func() (config.Changes, error){
			"group": {adds("[[group]]\nip = \"239.9.9.9\"\nmgid = \"rdmacm\"\n"), func() (config.Changes, error) { return h.RemoveGroup(ctx, mgid) }},
			"host": {adds("[[host]]\nip = \"10.9.0.9\"\nside = \"ib\"\ngid = \"fe80::9\"\nlid = 9\n"),
				func() (config.Changes, error) { return h.RemoveHost(ctx, netip.MustParseAddr("10.9.0.9"), nil) }},
			"service": {adds("[[service]]\nports = \"7-9\"\n"),
				func() (config.Changes, error) { return h.RemoveService(ctx, config.Service{First: 7, Last: 9}) }},
			"groups": {adds("[[group]]\nip = \"239.9.9.8\"\n"), func() (config.Changes, error) { return h.SetGroups(ctx, was.Groups) }},
		} {
			for i, what := range []string{config.Added, config.Removed} {
				changes, err := f[i]()
				if err != nil || len(changes) != 1 || changes[0].What != what {
					return fmt.Errorf("%s %s: %v %w", name, what, changes, err)
				}
				if _, err := f[i](); name != "groups" && err == nil {
					return fmt.Errorf("%s %s twice", name, what)
				}
			}
			if d := config.Diff(was, h.Config()); len(d) > 0 {
				return fmt.Errorf("after %s: %v", name, d)
			}
		}
		return nil
	})
}

// taskReloadEnded checks that a change of a bridge that has ended is rejected.
func taskReloadEnded() (string, error) {
	h, err := built()
	if err != nil {
		return "", err
	}
	if err := running(h, func() error { return nil }); err != nil {
		return "", err
	}
	to, err := h.edited("[policy]", "[log]\nlevel = \"debug\"\n[policy]")
	if err != nil {
		return "", err
	}
	if _, err := h.Reload(context.Background(), to); err == nil || h.Config() == to {
		return "", fmt.Errorf("it was reloaded: %w", err)
	}
	return "rejected", nil
}

// taskReloadPKeys checks that a reload with a P_Key too many, of those used since the start, is rejected by its check
// and changes nothing, also when those of before are not used any more.
func taskReloadPKeys() (string, error) {
	h, err := built()
	if err != nil {
		return "", err
	}
	with := func(more string, pkeys ...int) (*config.Config, error) {
		var hosts strings.Builder
		for _, k := range pkeys {
			fmt.Fprintf(&hosts, "[[host]]\nip = \"10.9.0.%d\"\nside = \"ib\"\ngid = \"fe80::%[1]d\"\nlid = %[1]d\npkey = %d\n", 100+k, 0x8000+k)
		}
		return h.edited("[policy]", hosts.String()+more+"[policy]")
	}
	return "refused", running(h, func() error {
		full, err := with("", 1, 2, 3, 4, 5, 6, 7)
		if err != nil {
			return err
		}
		if _, err := h.Reload(context.Background(), full); err != nil {
			return fmt.Errorf("8 P_Keys: %w", err)
		}
		to, err := with("[log]\nlevel = \"debug\"\n", 6, 8, 9)
		if err != nil {
			return err
		}
		_, planned := h.Plan(to)
		_, reloaded := h.Reload(context.Background(), to)
		const want = "reload: nothing was changed: manage: with P_Keys 0x8008, 0x8009 the bridge would have used 10 since it started, more than 8: restart it"
		for _, err := range []error{planned, reloaded} {
			if err == nil || err.Error() != want {
				return fmt.Errorf("two too many: %w, want %s", err, want)
			}
		}
		if h.Config() != full {
			return errors.New("the configuration in force has changed all the same")
		}
		fewer, err := with("", 6, 7)
		if err != nil {
			return err
		}
		_, err = h.Reload(context.Background(), fewer)
		return err
	})
}

func TestReload(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"reload-keys", "reload-traffic", "single-changes", "reload-ended", "reload-pkeys"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := task(t, name)
			if err != nil {
				t.Fatal(err)
			}
			t.Log(out)
		})
	}
}
