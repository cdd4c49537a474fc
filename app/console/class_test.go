// SPDX-License-Identifier: Apache-2.0

package console

import (
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"causeway/app/command"
)

// dialFrom connects over TCP from another address of this machine.
func (r *rig) dialFrom(address string) *client {
	r.t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	conn, err := d.Dial("tcp", r.tcp)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { conn.Close() })
	return &client{t: r.t, Conn: conn}
}

// TestCrowd opens more sessions than there are seats, and is silent in all of them: the oldest go, nobody else is
// locked out, and nothing is left of them.
func TestCrowd(t *testing.T) {
	r := newRig(t)
	r.alive(t) // now all of the console's own goroutines run
	before := runtime.NumGoroutine()
	bystander := r.dialFrom("127.0.0.2")
	bystander.await("test> ")
	var crowd []*client
	for range 100 {
		crowd = append(crowd, r.dial("tcp"))
	}
	for i, c := range crowd {
		if i+seatsOf[strangers]-1 < len(crowd) { // the bystander has a seat, too
			if text := c.rest(); !strings.Contains(text, "needs its place") {
				t.Errorf("session %d: %q", i, text)
			}
		}
	}
	for i, c := range []*client{r.dialFrom("127.0.0.3"), r.dial("tcp"), bystander} {
		c.send("show version\n")
		if text := c.await("running for"); strings.Contains(text, "needs") {
			t.Errorf("client %d: %q", i, text)
		}
		crowd = append(crowd, c)
	}
	r.alive(t)
	for _, c := range crowd {
		c.Close()
	}
	for deadline := time.Now().Add(within); runtime.NumGoroutine() > before+2 && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	if n := runtime.NumGoroutine(); n > before+2 {
		t.Errorf("%d goroutines are left of %d", n, before)
	}
	r.dial("tcp").await("test> ")
}

// TestCrowdAfterLogin checks that one who has logged in keeps the session, whoever comes.
func TestCrowdAfterLogin(t *testing.T) {
	r := newRig(t)
	c := r.dial("tcp")
	c.await("test> ")
	c.send("login " + token + "\n")
	c.await("test# ")
	for range 3 * seatsOf[strangers] {
		r.dial("tcp")
	}
	r.dial("tcp").await("test> ")
	c.send("show version\n")
	c.await("running for")
}

// TestClasses checks which seats a client has.
func TestClasses(t *testing.T) {
	for _, c := range []struct {
		role command.Role
		user string
		want int
	}{{command.Admin, "uid 0", roots}, {command.Admin, "uid 1000", admins}, {command.View, "uid 1000", users}, {command.View, "", strangers}} {
		if got := classOf(c.role, c.user); got != c.want {
			t.Errorf("%v %q: class %d, want %d", c.role, c.user, got, c.want)
		}
	}
}

// TestConfirm checks that halt asks at a terminal, and that nothing but yes is one.
func TestConfirm(t *testing.T) {
	halted := make(chan struct{}, 1)
	r := newRig(t, func(c *Config) { c.Env.Stop = func() { halted <- struct{}{} } })
	c := r.telnetClient(100, 40)
	c.send("login " + token + "\r\x00")
	c.await("test# ")
	for _, answer := range []string{"", "y", "halt"} {
		c.send("halt\r\x00")
		c.await("The bridge ends. Write yes to go on: ")
		c.send(answer + "\r\x00")
		c.await("Nothing was done.")
		c.await("test# ")
	}
	if len(halted) > 0 {
		t.Fatal("it halts")
	}
	c.send("halt\r\x00")
	c.await("go on: ")
	c.send("yes\r\x00")
	c.await("leaves its groups")
	<-halted
	n := r.dial("unix") // a program
	n.send("halt\n")
	n.await("leaves its groups")
	<-halted
}
