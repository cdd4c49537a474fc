// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package packaging

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// composer returns the words that run compose: docker's plugin, or Debian's program.
func composer(t *testing.T) []string {
	t.Helper()
	if err := exec.Command("docker", "info").Run(); err != nil {
		t.Skipf("there is no Docker engine: docker info: %v; install docker.io and docker-compose", err)
	}
	for _, words := range [][]string{{"docker", "compose"}, {"docker-compose"}} {
		if exec.Command(words[0], append(words[1:len(words):len(words)], "version")...).Run() == nil {
			return words
		}
	}
	t.Skip("there is neither docker compose nor docker-compose; install docker-compose")
	return nil
}

// load gives an image of the test's own store to Docker, under that name, until the test ends.
func (e *engine) load(t *testing.T, image, name string) {
	t.Helper()
	archive := filepath.Join(t.TempDir(), "image.tar")
	e.must("buildah", "push", "--quiet", image, "docker-archive:"+archive+":"+name)
	must(t, "docker", "load", "--quiet", "--input", archive)
	t.Cleanup(func() { must(t, "docker", "rmi", "--force", name) })
}

// underDocker starts docker/compose.yaml and docker/fleet.yaml with the image under Docker, as its README says, and takes
// each down.
func underDocker(t *testing.T, e *engine) {
	compose := composer(t)
	prometheus, err := filepath.Abs("../bin/prometheus")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(prometheus); err != nil {
		t.Fatal("bin/prometheus is not there: make prometheus gets it")
	}
	etcd, err := exec.LookPath("etcd")
	if err != nil {
		t.Fatal("etcd is missing: apt-get install etcd-server")
	}
	e.program(prometheus, "--entrypoint", `["/bin/prometheus"]`, "--user", "65534:65534")
	e.program(etcd)
	const image, metrics, voter = "causeway-e2e:test", "causeway-e2e-prometheus:test", "causeway-e2e-etcd:test"
	e.load(t, "localhost/causeway", image)
	e.load(t, "localhost/prometheus", metrics)
	e.load(t, "localhost/etcd", voter)
	t.Run("fabrics", func(t *testing.T) { composeUp(t, compose, image, metrics) })
	t.Run("fleet", func(t *testing.T) { fleetUp(t, compose, image, voter) })
}

// program makes an image of Debian's base and a program of this machine, which has its name.
func (e *engine) program(path string, settings ...string) {
	c, name := lastLine(e.must("buildah", "from", "localhost/base")), filepath.Base(path)
	e.must("buildah", "add", "--quiet", c, path, "/bin/"+name)
	e.must("buildah", append(append([]string{"config"}, settings...), c)...)
	e.must("buildah", "commit", "--quiet", "--rm", c, "localhost/"+name)
}

// A composition is the services of a file in docker, as compose runs them.
type composition struct {
	words []string // that run it
	env   []string
}

// compositionOf has the services of a file be taken down when the test ends.
func compositionOf(t *testing.T, compose []string, file string, env ...string) *composition {
	words := append(compose[:len(compose):len(compose)], "-p", "causeway-e2e", "-f", "../docker/"+file)
	c := &composition{words, append(os.Environ(), env...)}
	t.Cleanup(func() {
		if out, err := c.run("down", "--volumes"); err != nil {
			t.Errorf("down: %v\n%s", err, out)
		}
	})
	return c
}

func (c *composition) run(words ...string) (string, error) {
	cmd := exec.Command(c.words[0], append(c.words[1:len(c.words):len(c.words)], words...)...)
	cmd.Env = c.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// up starts all services, in the order in which they depend on each other.
func (c *composition) up(t *testing.T) {
	t.Helper()
	if out, err := c.run("up", "-d"); err != nil {
		logs, _ := c.run("logs", "--no-color")
		t.Fatalf("up: %v\n%s\n%s", err, out, logs)
	}
}

// id returns the container of a service, which may have ended.
func (c *composition) id(t *testing.T, service string) string {
	t.Helper()
	id, err := c.run("ps", "-a", "-q", service)
	if err != nil {
		// docker-compose 1.29 lists ended containers without being asked.
		if id, err = c.run("ps", "-q", service); err != nil {
			t.Fatalf("%s: %v\n%s", service, err, id)
		}
	}
	return strings.TrimSpace(id)
}

// composeUp runs the services until the listeners have ended: each has what the sender on the other fabric sent, and
// Prometheus has the bridge's metrics.
func composeUp(t *testing.T, compose []string, image, prometheus string) {
	at := freePort(t)
	c := compositionOf(t, compose, "compose.yaml", "IMAGE="+image, "PROMETHEUS="+prometheus, "METRICS_PORT="+freePort(t), "PROMETHEUS_PORT="+at)
	c.up(t)
	for _, service := range []string{"node-listens", "host-listens"} {
		code := must(t, "docker", "wait", c.id(t, service))
		logs, _ := c.run("logs", "--no-color", service)
		t.Logf("%s", logs)
		if strings.TrimSpace(code) != "0" {
			t.Errorf("%s ended with %s", service, code)
		}
	}
	scraped(t, "http://127.0.0.1:"+at)
}

// scraped waits until Prometheus has what crossed the bridge, in each direction.
func scraped(t *testing.T, prometheus string) {
	t.Helper()
	const least = 100 // as the listeners expect
	said := ""
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		said = query(prometheus, "min(causeway_packets_sent_total)")
		var answer struct {
			Data struct {
				Result []struct{ Value [2]any }
			}
		}
		if json.Unmarshal([]byte(said), &answer) != nil || len(answer.Data.Result) != 1 {
			continue
		}
		if n, err := strconv.Atoi(fmt.Sprint(answer.Data.Result[0].Value[1])); err == nil && n >= least {
			return
		}
	}
	t.Errorf("Prometheus does not have the metrics of %d packets each way: %s", least, said)
}

// query asks Prometheus; an error is the answer, too.
func query(prometheus, expr string) string {
	r, err := http.Get(prometheus + "/api/v1/query?query=" + url.QueryEscape(expr))
	if err != nil {
		return err.Error()
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// freePort returns a TCP port that nothing listens on.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}
