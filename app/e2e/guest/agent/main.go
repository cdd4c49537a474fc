// SPDX-License-Identifier: Apache-2.0

// Command agent runs inside the test guest and carries out the commands that
// come in by a serial line, by an open connection (fd:3) or, if neither is named, by its virtio-serial port.
package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"causeway/app/e2e/agent"
)

func main() {
	var path string
	var err error
	if len(os.Args) > 1 {
		path = os.Args[1]
	} else {
		path, err = findPort("/sys/class/virtio-ports", agent.PortName)
	}
	if err == nil {
		err = serve(path)
	}
	fmt.Fprintln(os.Stderr, "agent:", err)
	time.Sleep(time.Second) // init starts this program again at once
	os.Exit(1)
}

func serve(path string) error {
	var fd uintptr
	if _, err := fmt.Sscanf(path, "fd:%d", &fd); err == nil {
		syscall.CloseOnExec(int(fd))
		return agent.Serve(os.NewFile(fd, path))
	}
	port, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer port.Close()
	return agent.Serve(patientPort{port})
}

// findPort returns the device of the virtio-serial port with this name.
func findPort(dir, name string) (string, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*", "name"))
	if err != nil {
		return "", err
	}
	for _, file := range names {
		text, err := os.ReadFile(file)
		if err == nil && strings.TrimSpace(string(text)) == name {
			return filepath.Join("/dev", filepath.Base(filepath.Dir(file))), nil
		}
	}
	return "", fmt.Errorf("no virtio-serial port named %s", name)
}

// patientPort hides that a virtio-serial port reads as ended while nobody is
// connected at the host's end: it waits for the next one.
type patientPort struct{ *os.File }

func (p patientPort) Read(b []byte) (int, error) {
	for {
		n, err := p.File.Read(b)
		if n > 0 || (err != nil && err != io.EOF) {
			return n, err
		}
		time.Sleep(20 * time.Millisecond)
	}
}
