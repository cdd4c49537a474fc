// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	etcd "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// patience is how long a voter may take to answer: many times what one takes that is well.
const patience = 2 * time.Second

// client returns a client of a URL. etcd's client would go on trying where nobody listens; this is known at once.
func (c *settings) client(at string) (*etcd.Client, error) {
	conn, err := net.DialTimeout("tcp", strings.TrimPrefix(strings.TrimPrefix(at, "https://"), "http://"), patience)
	if err != nil {
		return nil, err
	}
	conn.Close()
	secure, err := c.Clients.client()
	if err != nil {
		return nil, err
	}
	return etcd.New(etcd.Config{Endpoints: []string{at}, TLS: secure, DialTimeout: patience, Logger: zap.NewNop()})
}

// local returns a client of the voter on this machine, and all voters, as that knows them.
func (c *settings) local() (*etcd.Client, []*etcdserverpb.Member, error) {
	cl, err := c.client(c.here())
	if err == nil {
		var all []*etcdserverpb.Member
		if all, err = c.listed(cl); err == nil {
			return cl, all, nil
		}
		cl.Close()
	}
	return nil, nil, fmt.Errorf("no voter answers at %s (%s); start it, or run this on a machine where one runs", c.here(), brief(err))
}

// here returns the URL by which this machine's voter is reached.
func (c *settings) here() string {
	u := c.clientListen[0]
	if i := slices.IndexFunc(c.clientAdvertise, func(a url.URL) bool { return a.Port() == u.Port() }); i >= 0 {
		u = c.clientAdvertise[i] // what its certificate is for
	}
	return u.String()
}

// listed asks a voter for all voters, by name.
func (c *settings) listed(cl *etcd.Client) ([]*etcdserverpb.Member, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	all, err := cl.MemberList(ctx, etcd.WithSerializable())
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all.Members, func(a, b *etcdserverpb.Member) int { return strings.Compare(c.nameOf(a), c.nameOf(b)) })
	return all.Members, nil
}

// nameOf returns a voter's name; that of one that has never run is known by the file only.
func (c *settings) nameOf(m *etcdserverpb.Member) string {
	if m.Name != "" {
		return m.Name
	}
	for _, own := range c.Member {
		if slices.Contains(m.PeerURLs, own.Peer) {
			return own.Name
		}
	}
	return "?"
}

// A report is what a voter says of itself; err when it does not.
type report struct {
	status *etcd.StatusResponse
	err    error
}

// ask asks a voter how it is, by one URL after the other.
func (c *settings) ask(m *etcdserverpb.Member) (r report) {
	r.err = errors.New("it has not run yet")
	for _, at := range m.ClientURLs {
		if r = c.askAt(at); r.err == nil {
			break
		}
	}
	return r
}

func (c *settings) askAt(at string) report {
	cl, err := c.client(at)
	if err != nil {
		return report{err: err}
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := cl.Status(ctx, at)
	return report{s, err}
}

// listMembers prints all voters, and how they are. Its error is that of the first one that does not answer.
func listMembers(c *settings, w io.Writer) (wrong error) {
	cl, all, err := c.local()
	if err != nil {
		return err
	}
	defer cl.Close()
	reports := make([]report, len(all))
	var asked sync.WaitGroup
	for i, m := range all {
		asked.Go(func() { reports[i] = c.ask(m) })
	}
	asked.Wait()
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tSTATE\tDATA\tVERSION\tPEER")
	for i, m := range all {
		name, peer := c.nameOf(m), strings.Join(m.PeerURLs, " ")
		r := reports[i]
		if r.err != nil {
			wrong = errors.Join(wrong, fmt.Errorf("%s does not answer: %s", name, brief(r.err)))
			fmt.Fprintf(t, "%s\tdoes not answer\t\t\t%s\n", name, peer)
			continue
		}
		fmt.Fprintf(t, "%s\t%s\t%.1f MiB\t%s\t%s\n", name, stateOf(r.status), float64(r.status.DbSize)/(1<<20), r.status.Version, peer)
		for _, e := range r.status.Errors {
			wrong = errors.Join(wrong, fmt.Errorf("%s: %s", name, oneLine(e)))
		}
	}
	return errors.Join(wrong, t.Flush())
}

// stateOf names a voter's part.
func stateOf(s *etcd.StatusResponse) string {
	switch {
	case s.Leader == 0:
		return "no majority"
	case s.Leader == s.Header.MemberId:
		return "leader"
	}
	return "follower"
}

// brief returns an error of a client without its type and code.
func brief(err error) string {
	text := err.Error()
	if _, after, ok := strings.Cut(text, "desc = "); ok {
		text = after
	}
	return oneLine(text)
}

// add has the voters expect another. They refuse while one of them has not been in touch for five seconds.
func add(ctx context.Context, cl *etcd.Client, peer string) error {
	for {
		_, err := cl.MemberAdd(ctx, []string{peer})
		if !errors.Is(err, rpctypes.ErrUnhealthy) || ctx.Err() != nil {
			return err
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// replaceMember removes a dead voter, and expects it again, without data, under the same name and peer URL.
func replaceMember(c *settings, name string, w io.Writer) error {
	own := slices.IndexFunc(c.Member, func(m member) bool { return m.Name == name })
	switch {
	case own < 0:
		return fmt.Errorf("-replace %s: there is no such voter; name one of %s", name, c.names())
	case name == c.Name:
		return fmt.Errorf("-replace %s: that is the voter of this machine; run it on another, which lives", name)
	}
	cl, all, err := c.local()
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second) // an election, and etcd's own five seconds
	defer cancel()
	if i := slices.IndexFunc(all, func(m *etcdserverpb.Member) bool { return c.nameOf(m) == name }); i >= 0 {
		if c.ask(all[i]).err == nil {
			return fmt.Errorf("-replace %s: it lives, and answers at %s; stop it first, or leave it alone", name, all[i].ClientURLs[0])
		}
		if _, err := cl.MemberRemove(ctx, all[i].ID); err != nil {
			return fmt.Errorf("-replace %s: it cannot be removed: %s; a majority of the voters must run", name, brief(err))
		}
	}
	if err := add(ctx, cl, c.Member[own].Peer); err != nil {
		return fmt.Errorf("-replace %s: it is removed, and cannot be expected again: %s; run this again", name, brief(err))
	}
	fmt.Fprintf(w, "%s is expected at %s: on that machine empty the data directory, and start it\n", name, c.Member[own].Peer)
	return nil
}
