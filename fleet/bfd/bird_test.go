// SPDX-License-Identifier: Apache-2.0

package bfd

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gopacket/gopacket/layers"
	"golang.org/x/sys/unix"

	"causeway/dpdk/nettest"
)

// birdLost is how long BIRD may be silent, twenty of its intervals: it has not always a CPU. It takes this session's side for lost after
// three.
const birdLost = 20 * fast

// birdConfig has BIRD keep one session, over one hop.
const birdConfig = `router id 10.77.0.2;
protocol device {}
protocol bfd {
	interface "far" { interval 50 ms; multiplier 20; };
	neighbor 10.77.0.1 dev "far";
}
`

// birdPair is a session of this package's and one of BIRD's, in a network namespace each, with a cable between them.
type birdPair struct {
	t       *testing.T
	bird    *os.Process
	control string // BIRD's socket
	came    chan []byte
	send    *net.UDPConn
	session *Session
	mute    bool      // nothing is sent
	last    time.Time // when something came
}

func newBirdPair(t *testing.T) *birdPair {
	t.Helper()
	nettest.Own(t)
	program, err := exec.LookPath("bird")
	if err != nil {
		t.Skip("needs bird, of Debian's package bird2")
	}
	dir := t.TempDir()
	p := &birdPair{t: t, control: filepath.Join(dir, "control"), came: make(chan []byte, 100)}
	config := filepath.Join(dir, "bird.conf")
	if err := os.WriteFile(config, []byte(birdConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	script := `read cable && ip link set lo up && ip addr add 10.77.0.2/24 dev far && ip link set far up && exec "$0" -f -c "$1" -s "$2"`
	c := exec.Command("sh", "-ec", script, program, config, p.control)
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	c.Stderr = os.Stderr
	begin, err := c.StdinPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	p.bird = c.Process
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() }) // it ends by the signal
	nettest.IP(t, fmt.Sprintf("link add near type veth peer name far netns %d", c.Process.Pid))
	nettest.IP(t, "addr add 10.77.0.1/24 dev near")
	nettest.IP(t, "link set near up")
	if _, err := io.WriteString(begin, "cable\n"); err != nil {
		t.Fatal(err)
	}
	p.send = udp(t, 49152, unix.IP_TTL)
	go p.receive(udp(t, 3784, unix.IP_MINTTL))
	return p
}

// udp opens a port by RFC 5881 §4 and §5: packets have a TTL of 255 when they are sent, and when they come.
func udp(t *testing.T, port, option int) *net.UDPConn {
	t.Helper()
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(10, 77, 0, 1), Port: port})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // nothing is kept in it
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	const ttl = 255
	if e := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, option, ttl) }); errors.Join(e, err) != nil {
		t.Fatal(e, err)
	}
	return c
}

func (p *birdPair) receive(c *net.UDPConn) {
	for {
		b := make([]byte, 2048)
		n, err := c.Read(b)
		if err != nil {
			return // closed
		}
		p.came <- b[:n]
	}
}

// begin starts a session of this package's.
func (p *birdPair) begin(discriminator uint32) {
	p.session = session(p.t, Config{discriminator, fast, fast, 3, random(1)}, time.Now())
}

// run keeps the session until done; false: that takes too long.
func (p *birdPair) run(d time.Duration, done func() bool) bool {
	for end := time.Now().Add(d); !done(); {
		if time.Now().After(end) {
			return false
		}
		packet, again := p.session.Tick(time.Now())
		if packet != nil && !p.mute {
			_, _ = p.send.WriteTo(packet, &net.UDPAddr{IP: net.IPv4(10, 77, 0, 2), Port: 3784}) // it may not listen
		}
		select {
		case b := <-p.came:
			p.last = time.Now()
			// Packets for the session before this one may still come.
			if err := p.session.Receive(p.last, b); err != nil && !errors.Is(err, ErrAdminDown) && !errors.Is(err, ErrDiscriminator) {
				p.t.Errorf("BIRD sends %x: %v", b, err)
			}
		case <-time.After(min(time.Until(again), fast/5)):
		}
	}
	return true
}

func (p *birdPair) is(s State) func() bool { return func() bool { return p.session.state == s } }

// says is true when BIRD says that its session is in a state.
func (p *birdPair) says(state string) func() bool {
	return func() bool {
		out, _ := exec.Command("birdc", "-s", p.control, "show", "bfd", "sessions").CombinedOutput() // it may not have begun
		return strings.Contains(string(out), " "+state+" ")
	}
}

func (p *birdPair) up() {
	p.t.Helper()
	if !p.run(10*time.Second, p.is(Up)) || !p.run(5*time.Second, p.says("Up")) {
		p.t.Fatalf("the session is %v; BIRD says that its one is up: %v", p.session.state, p.says("Up")())
	}
	if s := p.session; !p.run(time.Second, func() bool { return s.poll == noPoll && s.detection() == birdLost }) {
		p.t.Fatalf("the detection time is %v; a Poll Sequence is under way: %v", s.detection(), s.poll != noPoll)
	}
}

// TestBIRD holds the session against BIRD's, over UDP (RFC 5881).
func TestBIRD(t *testing.T) {
	p := newBirdPair(t)
	p.begin(7)
	p.up()
	if p.run(time.Second, func() bool { return p.session.state != Up }) {
		t.Fatalf("within a second it is %v, %v", p.session.state, p.session.diag)
	}

	p.mute = true
	if !p.run(time.Second, p.is(Down)) || p.session.diag != layers.BFDDiagnosticNeighborSignalDown || !p.says("Down")() && !p.says("Init")() {
		t.Errorf("BIRD hears nothing, and the session is %v, %v", p.session.state, p.session.diag)
	}
	p.mute = false
	p.up()

	p.session.Disable(time.Now())
	if !p.run(time.Second, func() bool { return p.session.Remote() == Down }) || !p.says("Down")() {
		t.Errorf("administratively down, and BIRD's is %v", p.session.Remote())
	}
	p.begin(8)
	p.up()

	if err := p.bird.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if !p.run(5*time.Second, p.is(Down)) || p.session.diag != layers.BFDDiagnosticTimeExpired {
		t.Fatalf("BIRD is killed, and the session is %v, %v", p.session.state, p.session.diag)
	}
	const slack = 350 * time.Millisecond // for a machine that is busy
	if silence := p.session.since.Sub(p.last); silence < birdLost || silence > birdLost+slack {
		t.Errorf("down after %v of silence", silence)
	}
}
