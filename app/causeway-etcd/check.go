// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// check checks the settings and completes them. Its error says who, what, with which value, and what to do instead.
func (c *settings) check() error {
	for _, part := range []func() error{c.checkMembers, c.checkData, c.checkClients, c.checkPeers, c.checkMetrics, c.checkTimes, c.checkStore, c.checkLog} {
		if err := part(); err != nil {
			return err
		}
	}
	return nil
}

// memberName matches what etcd's list of voters and this program's arguments can carry.
var memberName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// checkMembers checks the list of voters, and that this one is in it.
func (c *settings) checkMembers() error {
	if c.Name == "" {
		return errors.New(`name is missing; write name = "voter-a", one of those of [[member]]`)
	}
	if len(c.Member) == 0 {
		return errors.New(`there is no [[member]]; write one for each voter, this one included, with its name and peer`)
	}
	named, reached := map[string]bool{}, map[string]string{}
	for i, m := range c.Member {
		who := fmt.Sprintf("[[member]] %q", m.Name)
		switch {
		case m.Name == "":
			return fmt.Errorf("[[member]] number %d: name is missing; write name = \"voter-a\"", i+1)
		case !memberName.MatchString(m.Name):
			return fmt.Errorf("%s: this is no name for a voter; use letters, digits, dots and dashes, 63 at most", who)
		case named[m.Name]:
			return fmt.Errorf("%s: there are two of this name; give each voter a name of its own", who)
		case m.Peer == "":
			return fmt.Errorf("%s: peer is missing; write peer = \"https://10.9.0.1:2380\"", who)
		}
		u, err := oneURL(who+": peer", m.Peer)
		if err != nil {
			return err
		}
		if ip := net.ParseIP(u.Hostname()); ip != nil && ip.IsUnspecified() {
			return fmt.Errorf("%s: peer %q is no address that others can reach; write the one of that machine", who, m.Peer)
		}
		if other := reached[u.Host]; other != "" {
			return fmt.Errorf("%s: peer %q is that of %s, too; write that machine's own", who, m.Peer, other)
		}
		named[m.Name], reached[u.Host] = true, m.Name
	}
	if !named[c.Name] {
		return fmt.Errorf("name %q is not among the [[member]]s, %s; write one of these, or add a [[member]]", c.Name, c.names())
	}
	if n := len(c.Member); n%2 == 0 || n > 7 {
		return fmt.Errorf("there are %d [[member]]s; have 1, 3, 5 or 7: an even number survives no more failures than one less", n)
	}
	return nil
}

// names lists the voters for messages.
func (c *settings) names() string {
	var all []string
	for _, m := range c.Member {
		all = append(all, m.Name)
	}
	return strings.Join(all, ", ")
}

// self returns the [[member]] of this voter.
func (c *settings) self() member {
	return c.Member[slices.IndexFunc(c.Member, func(m member) bool { return m.Name == c.Name })]
}

func (c *settings) checkData() error {
	if !filepath.IsAbs(c.Data) {
		return fmt.Errorf("data %q is not a whole path; write data = \"/var/lib/causeway-etcd\"", c.Data)
	}
	return nil
}

// checkClients checks the table [clients].
func (c *settings) checkClients() (err error) {
	if c.clientListen, err = c.listening("[clients]", c.Clients.Listen, c.Clients.tlsFiles); err != nil {
		return err
	}
	if c.Clients.Advertise == nil {
		c.Clients.Advertise = c.Clients.Listen
	}
	if c.clientAdvertise, err = urls("[clients]: advertise", c.Clients.Advertise); err != nil {
		return err
	}
	for _, u := range c.clientAdvertise {
		if ip := net.ParseIP(u.Hostname()); ip != nil && ip.IsUnspecified() {
			return fmt.Errorf("[clients]: advertise %q is no address that clients can reach; write this machine's own", u.String())
		}
		if secure := c.clientListen[0].Scheme == "https"; secure != (u.Scheme == "https") {
			return fmt.Errorf("[clients]: advertise %q is not served as listen says; write it with %s://", u.String(), c.clientListen[0].Scheme)
		}
	}
	return c.Clients.check("[clients]")
}

// checkPeers checks the table [peers], and the voters' URLs against it.
func (c *settings) checkPeers() (err error) {
	own := c.self().Peer
	if c.peerAdvertise, err = urls("peer", []string{own}); err != nil {
		return err
	}
	if c.Peers.Listen == nil {
		if host := c.peerAdvertise[0].Hostname(); net.ParseIP(host) == nil {
			return fmt.Errorf("[peers]: listen is missing, and the peer URL %q has a name; write the address to listen at, such as listen = [%q]",
				own, c.peerAdvertise[0].Scheme+"://0.0.0.0:"+c.peerAdvertise[0].Port())
		}
		c.Peers.Listen = []string{own}
	}
	if c.peerListen, err = c.listening("[peers]", c.Peers.Listen, c.Peers.tlsFiles); err != nil {
		return err
	}
	for _, m := range c.Member {
		if scheme := c.peerListen[0].Scheme; !strings.HasPrefix(m.Peer, scheme+"://") {
			return fmt.Errorf("[[member]] %q: peer %q is not served as [peers] listen says, by %s://; write all voters' URLs alike", m.Name, m.Peer, scheme)
		}
	}
	if c.Peers.Cert != "" && c.Peers.CA == "" {
		return fmt.Errorf("[peers]: cert is %q, and ca is missing; write the authority of the voters' certificates, so that nobody else can be one", c.Peers.Cert)
	}
	return c.Peers.check("[peers]")
}

func (c *settings) checkMetrics() (err error) {
	if c.Metrics.Listen != "" {
		c.metricsListen, err = c.listening("[metrics]", []string{c.Metrics.Listen}, c.Clients.tlsFiles)
	}
	return err
}

// listening checks URLs to listen at, and that they have a certificate where they need one.
func (c *settings) listening(who string, all []string, files tlsFiles) ([]url.URL, error) {
	parsed, err := urls(who+": listen", all)
	if err != nil {
		return nil, err
	}
	for _, u := range parsed {
		ip := net.ParseIP(u.Hostname())
		switch {
		case ip == nil:
			return nil, fmt.Errorf("%s: listen %q has a name as its host; write the address that it means, or 0.0.0.0", who, u.String())
		case u.Scheme == "https" && files.Cert == "" && who == "[metrics]":
			return nil, fmt.Errorf("%s: listen %q needs the certificate of [clients], which has none; write http://, or cert and key there", who, u.String())
		case u.Scheme == "https" && files.Cert == "":
			return nil, fmt.Errorf("%s: listen %q needs a certificate; write cert and key, or http://", who, u.String())
		case u.Scheme == "http" && files.Cert != "" && who != "[metrics]":
			return nil, fmt.Errorf("%s: cert is %q, and listen %q does not use it; write https://%s", who, files.Cert, u.String(), u.Host)
		case u.Scheme == "http" && !ip.IsLoopback() && !c.Insecure:
			return nil, fmt.Errorf("%s: listen %q can be read and changed by everybody on the network; write https:// with cert, key and ca, or insecure = true above all tables", who, u.String())
		}
	}
	return parsed, nil
}

// urls parses URLs; none is an error.
func urls(who string, all []string) (parsed []url.URL, err error) {
	if len(all) == 0 {
		return nil, fmt.Errorf("%s is empty; write one or more URLs, or leave it out", who)
	}
	for _, s := range all {
		u, err := oneURL(who, s)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, *u)
	}
	return parsed, nil
}

// oneURL parses a URL of which only scheme, host and port may be there.
func oneURL(who, s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Port() == "" || u.Port() == "0" || s != u.Scheme+"://"+u.Host {
		return nil, fmt.Errorf("%s %q is not a URL of the form https://ADDRESS:PORT; write it so", who, oneLine(s))
	}
	return u, nil
}

// checkTimes reads the table [raft].
func (c *settings) checkTimes() (err error) {
	if c.heartbeat, err = duration("[raft]: heartbeat", c.Raft.Heartbeat, 10*time.Millisecond, 10*time.Second); err != nil {
		return err
	}
	if c.election, err = duration("[raft]: election", c.Raft.Election, 50*time.Millisecond, 50*time.Second); err != nil {
		return err
	}
	if c.election < 5*c.heartbeat {
		return fmt.Errorf("[raft]: election %q is less than five times heartbeat %q; write %q or more", c.Raft.Election, c.Raft.Heartbeat, 5*c.heartbeat)
	}
	return nil
}

// checkStore checks the table [store].
func (c *settings) checkStore() (err error) {
	const low, high = 16, 8192 // less leaves no room for an hour's changes; etcd advises against more
	if c.Store.Quota < low || c.Store.Quota > high {
		return fmt.Errorf("[store]: quota_mib %d is out of range; use %d to %d", c.Store.Quota, low, high)
	}
	c.compact, err = duration("[store]: compact", c.Store.Compact, time.Minute, 24*time.Hour)
	return err
}

// duration reads a time in whole milliseconds, and its bounds.
func duration(who, s string, low, high time.Duration) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	switch {
	case err != nil || d%time.Millisecond != 0:
		return 0, fmt.Errorf("%s %q is not a time; write one with its unit, such as \"%v\"", who, oneLine(s), low)
	case d < low || d > high:
		return 0, fmt.Errorf("%s %q is out of range; use %v to %v", who, s, low, high)
	}
	return d, nil
}

func (c *settings) checkLog() error {
	if levels := []string{"debug", "info", "warn", "error"}; !slices.Contains(levels, c.Log.Level) {
		return fmt.Errorf("[log]: level %q is not known; use %s", c.Log.Level, strings.Join(levels, ", "))
	}
	if formats := []string{"text", "json"}; !slices.Contains(formats, c.Log.Format) {
		return fmt.Errorf("[log]: format %q is not known; use %s", c.Log.Format, strings.Join(formats, ", "))
	}
	return nil
}
