// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// An engine is buildah with a store of its own, so that the test needs neither a daemon nor a registry.
type engine struct {
	t    *testing.T
	env  []string
	root string // the tree of the image's container
}

// TestImage builds the image by the project's Dockerfile, on a debootstrapped Debian and with this machine's Go, and
// runs its services.
func TestImage(t *testing.T) {
	t.Parallel() // it mostly waits for downloads and timers
	needs(t, "buildah:buildah", "setpriv:util-linux", "unshare:util-linux", "nsenter:util-linux", "ip:iproute2")
	e := newEngine(t)
	e.commit("localhost/base", [2]string{debian(t), "/"})
	e.commit("localhost/go", [2]string{strings.TrimSpace(must(t, "go", "env", "GOROOT")), "/usr/local/go"}, [2]string{modules(t), "/go"})
	begun := time.Now()
	e.must("../docker/build-image", "localhost/causeway", "localhost/base", "localhost/go")
	t.Logf("built in %v", time.Since(begun).Round(time.Second))
	t.Logf("sizes:\n%s", e.must("buildah", "images", "--format", "{{.Name}} {{.Size}}"))

	container := lastLine(e.must("buildah", "from", "localhost/causeway"))
	e.root = lastLine(e.must("buildah", "mount", container))
	if user := e.must("buildah", "inspect", "--format", "{{.OCIv1.Config.User}}", container); user != "10001:10001" {
		t.Errorf("by default it runs as %q", user)
	}
	if found := weaknesses(t, filepath.Join(e.root, "usr/local/bin/causeway")); len(found) > 0 {
		t.Errorf("the image's program lacks %s", strings.Join(found, ", "))
	}
	services := compose(t)
	t.Run("version", func(t *testing.T) {
		s := service{command: []string{"version"}} // a user without capabilities, in a container without any
		out, err := e.start(t, container, s, 0).wait()
		if err != nil || !strings.HasPrefix(out, "causeway ") {
			t.Errorf("%v\n%s", err, out)
		}
	})
	t.Run("demo", func(t *testing.T) {
		begun := time.Now()
		out, err := e.start(t, container, services["demo"], 0).wait()
		t.Logf("%v\n%s", time.Since(begun).Round(time.Second), tail(out))
		if err != nil {
			t.Error(err)
		}
	})
	t.Run("compose", func(t *testing.T) { fabrics(t, e, container, services) })
	t.Run("docker compose", func(t *testing.T) { underDocker(t, e) })
}

func lastLine(s string) string { return s[strings.LastIndexByte(s, '\n')+1:] }

// newEngine makes a store that is removed with the test.
func newEngine(t *testing.T) *engine {
	t.Helper()
	dir, err := os.MkdirTemp("", "causeway-images")
	if err != nil {
		t.Fatal(err)
	}
	conf := filepath.Join(dir, "storage.conf")
	text := "[storage]\ndriver = \"vfs\"\nrunroot = \"" + dir + "/run\"\ngraphroot = \"" + dir + "/graph\"\n"
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	e := &engine{t: t, env: append(os.Environ(), "CONTAINERS_STORAGE_CONF="+conf, "STORAGE_DRIVER=vfs", "BUILDAH_ISOLATION=chroot",
		"ENGINE=buildah", "TMPDIR="+dir,
		// What this machine's Go has compiled with the flags of the Dockerfile is not compiled again.
		"BUILD_OPTIONS=--volume="+strings.TrimSpace(must(t, "go", "env", "GOCACHE"))+":/root/.cache/go-build:rw")}
	t.Cleanup(func() {
		e.must("buildah", "rm", "--all")
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return e
}

// must runs a program with the engine's store and returns its standard output.
func (e *engine) must(name string, args ...string) string {
	e.t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = e.env
	var progress strings.Builder
	cmd.Stderr = &progress
	out, err := cmd.Output()
	if err != nil {
		e.t.Fatalf("%s %s: %v\n%s\n%s", name, strings.Join(args, " "), err, tail(string(out)), tail(progress.String()))
	}
	return strings.TrimSpace(string(out))
}

// commit makes an image of trees, each with its path in the image.
func (e *engine) commit(name string, trees ...[2]string) {
	e.t.Helper()
	c := lastLine(e.must("buildah", "from", "scratch"))
	for _, tree := range trees {
		e.must("buildah", "add", "--quiet", c, tree[0], tree[1])
	}
	e.must("buildah", "config", "--env", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", c)
	e.must("buildah", "commit", "--quiet", "--rm", c, name)
}

// modules makes a GOPATH with the modules that are needed, from this machine's cache where it has them.
func modules(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	goEnv := func(name string) string { return must(t, "go", "env", name) }
	cmd := exec.Command("go", "mod", "download")
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), "GOMODCACHE="+filepath.Join(dir, "all/pkg/mod"), "GOFLAGS=-modcacherw",
		"GOPROXY=file://"+goEnv("GOMODCACHE")+"/cache/download,"+goEnv("GOPROXY"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go mod download: %v\n%s", err, out)
	}
	packed := filepath.Join(dir, "packed/pkg/mod") // without what go unpacks from it
	must(t, "mkdir", "-p", packed)
	must(t, "mv", filepath.Join(dir, "all/pkg/mod/cache"), packed)
	return filepath.Join(dir, "packed")
}
