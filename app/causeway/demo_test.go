// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gopacket/gopacket/pcapgo"
	"github.com/vishvananda/netns"

	"causeway/ibside/ib"
	"causeway/ibside/ib/erftest"
	"causeway/lcore/frame"
	"causeway/lcore/frame/roce"
)

// demoResult is the part of the demonstration's result that these tests check.
type demoResult struct {
	OK        bool
	Conserved bool
	Flows     []struct {
		Name          string
		Sent          uint64
		Due, Arrived  uint64
		Damaged       uint64
		Repeated      uint64
		TripMicrosecs float64 `json:"trip_microseconds"`
	}
	RoCEToIB demoDirection `json:"roce_to_ib"`
	IBToRoCE demoDirection `json:"ib_to_roce"`
}

type demoDirection struct {
	Received, Sent uint64
	Conserved      bool
}

// needNamespaces skips a test, or fails it in CI, where no network namespace can be made.
func needNamespaces(t *testing.T) {
	t.Helper()
	err := errors.New("the process is not root")
	if os.Geteuid() == 0 {
		done := make(chan error)
		go func() { // its thread ends with it, and so does the namespace
			runtime.LockOSThread()
			ns, err := netns.New()
			if err == nil {
				err = ns.Close()
			}
			done <- err
		}()
		err = <-done
	}
	switch {
	case err == nil:
	case os.Getenv("CI") == "true":
		t.Fatalf("CI must be able to make network namespaces: %v", err)
	default:
		t.Skipf("this test makes network namespaces, and cannot: %v; run it as root", err)
	}
}

// result parses the one JSON object on stdout.
func (p *program) result() (r demoResult) {
	p.t.Helper()
	d := json.NewDecoder(strings.NewReader(p.stdout.String()))
	if err := d.Decode(&r); err != nil {
		p.t.Fatalf("%v in\n%v%v", err, &p.stdout, &p.stderr)
	}
	if err := d.Decode(&struct{}{}); err != io.EOF {
		p.t.Errorf("there is more than one JSON object on stdout")
	}
	return r
}

// wantWell checks that all of so many flows of a demonstration went well.
func wantWell(t *testing.T, r demoResult, flows int) {
	t.Helper()
	if !r.OK || !r.Conserved || !r.RoCEToIB.Conserved || !r.IBToRoCE.Conserved || len(r.Flows) != flows {
		t.Errorf("%+v", r)
	}
	for _, f := range r.Flows {
		if f.Sent == 0 || f.Due < f.Sent || f.Arrived != f.Due || f.Damaged+f.Repeated != 0 || f.TripMicrosecs <= 0 {
			t.Errorf("%+v", f)
		}
	}
	if r.RoCEToIB.Sent == 0 || r.IBToRoCE.Sent == 0 {
		t.Errorf("nothing crossed: %+v %+v", r.RoCEToIB, r.IBToRoCE)
	}
}

// TestDemo checks that the demonstration succeeds, and that the captures of both fabrics agree with its counts.
func TestDemo(t *testing.T) {
	t.Parallel()
	needNamespaces(t)
	dir := filepath.Join(t.TempDir(), "captures")
	p := launch(t, "demo", "-duration", "3s", "-json", "-pcap", dir)
	if code := p.wait(); code != exitOK {
		t.Errorf("exit code %d\n%v", code, &p.stderr)
	}
	r := p.result()
	wantWell(t, r, 4)
	crossed := r.RoCEToIB.Sent + r.IBToRoCE.Sent
	if n := checkRoCE(t, filepath.Join(dir, "roce.pcap")); n != crossed {
		t.Errorf("%d RoCE packets were captured, %d crossed", n, crossed)
	}
	if n := checkIB(t, filepath.Join(dir, "ib.pcap")); n < crossed {
		t.Errorf("%d InfiniBand packets were captured, %d crossed", n, crossed)
	}
}

// eachPacket reads a capture; tshark must see as many packets in it.
func eachPacket(t *testing.T, file string, f func(b []byte)) {
	t.Helper()
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	r, err := pcapgo.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for ; ; n++ {
		b, _, err := r.ReadPacketData()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("%s: packet %d: %v", file, n+1, err)
		}
		f(b)
	}
	if _, err := exec.LookPath("tshark"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("CI must have tshark")
		}
		t.Logf("%s: tshark is not installed and was not asked", file)
		return
	}
	out, err := exec.Command("tshark", "-n", "-r", file, "-T", "fields", "-e", "frame.number", "-e", "_ws.malformed").Output()
	if seen := strings.Count(string(out), "\n"); err != nil || seen != n || strings.Contains(string(out), "Malformed") {
		t.Errorf("%s: tshark sees %d packets of %d, %v", file, seen, n, err)
	}
}

// checkRoCE counts the RoCE packets of a capture, each of which must be good, its ICRC included.
func checkRoCE(t *testing.T, file string) (n uint64) {
	t.Helper()
	eachPacket(t, file, func(b []byte) {
		f, fault := frame.Open(b)
		if fault != "" || !f.IsIP() || f.Protocol() != frame.ProtoUDP {
			return
		}
		if _, err := roce.Parse(b); err != nil {
			t.Errorf("%s: %v in %x", file, err, b)
		}
		n++
	})
	return n
}

func checkIB(t *testing.T, file string) (n uint64) {
	t.Helper()
	eachPacket(t, file, func(b []byte) {
		r, ok := erftest.Parse(b)
		if !ok || r.IsTruncated() {
			t.Errorf("%s: no whole ERF record of InfiniBand: %x", file, b)
			return
		}
		if _, fault := ib.ParsePacket(r.Packet); fault != "" {
			t.Errorf("%s: %s in %x", file, fault, r.Packet)
		}
		n++
	})
	return n
}

// TestDemoInterrupted checks that an interrupted demonstration ends as if its time were over: no message that is under
// way is lost.
func TestDemoInterrupted(t *testing.T) {
	t.Parallel()
	needNamespaces(t)
	p := launch(t, "demo", "-duration", "10m")
	p.await("progress", func() bool { return strings.Contains(p.stdout.String(), "deliveries") })
	p.end(syscall.SIGINT)
	if out := p.stdout.String(); !strings.Contains(out, "Everything arrived.") || strings.Contains(out, "\033") {
		t.Errorf("it said\n%s", out)
	}
}

// TestDemoKeep checks that the page is at the printed address, and that the traffic goes on beyond its duration.
func TestDemoKeep(t *testing.T) {
	needNamespaces(t)
	p := launch(t, "demo", "-duration", "1ms", "-keep")
	address := regexp.MustCompile(`in a browser: (http://\S+/)\n`)
	p.await("the page's address", func() bool { return address.MatchString(p.stdout.String()) })
	url := address.FindStringSubmatch(p.stdout.String())[1]
	sent := func() (n float64) {
		t.Helper()
		var s struct {
			Directions map[string]struct{ Sent float64 }
		}
		if err := json.Unmarshal(get(t, url+"status.json"), &s); err != nil {
			t.Fatal(err)
		}
		return s.Directions["roce_to_ib"].Sent
	}
	for range 3 {
		before := sent()
		p.await("traffic", func() bool { return sent() > before })
	}
	if page := string(get(t, url)); !strings.Contains(page, "<h1>demo</h1>") || !strings.Contains(page, "10.9.0.1") || !strings.Contains(page, "group_joined") {
		t.Errorf("the page is\n%s", page)
	}
	p.end(syscall.SIGINT)
	if out := p.stdout.String(); !strings.Contains(out, "Everything arrived.") {
		t.Errorf("it said\n%s", out)
	}
}

// get returns what is at an address.
func get(t *testing.T, url string) []byte {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d, %v", url, r.StatusCode, err)
	}
	return b
}

// TestDemoOnOneCPU checks that no message is lost where worker, hosts and nodes share one busy CPU.
func TestDemoOnOneCPU(t *testing.T) {
	needNamespaces(t)
	cpu := strconv.Itoa(firstCPU(t))
	busy := exec.Command("taskset", "-c", cpu, "sh", "-c", "while :; do :; done")
	if err := busy.Start(); err != nil {
		t.Fatalf("taskset of util-linux is needed: %v", err)
	}
	defer func() { _ = busy.Process.Kill(); _ = busy.Wait() }() // it ends by the signal
	began := time.Now()
	p := launchOn(t, cpu, "demo", "-duration", "2s", "-json")
	if code := p.wait(); code != exitOK {
		t.Errorf("exit code %d after %v\n%v", code, time.Since(began), &p.stderr)
	}
	wantWell(t, p.result(), 4)
}

// TestDemoUnprivileged checks that one line says what is missing.
func TestDemoUnprivileged(t *testing.T) {
	if os.Geteuid() != 0 {
		if code, _, stderr := try("demo"); code != exitFailed || !strings.Contains(stderr, "sudo") {
			t.Errorf("exit code %d\n%s", code, stderr)
		}
		return
	}
	p := launchAs(t, 65534, "demo", "-duration", "1s")
	if code := p.wait(); code != exitFailed || strings.Count(p.stderr.String(), "\n") != 1 || !strings.Contains(p.stderr.String(), "sudo") {
		t.Errorf("exit code %d\n%v", code, &p.stderr)
	}
}
