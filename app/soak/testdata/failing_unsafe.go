// SPDX-License-Identifier: Apache-2.0

package main

/*
#cgo pkg-config: libdpdk
#include <rte_ethdev.h>

static uint16_t takes_none(void *queue, struct rte_mbuf **m, uint16_t n)
{
	(void)queue;
	(void)m;
	(void)n;
	return 0;
}

static eth_tx_burst_t replace_tx(uint16_t port, eth_tx_burst_t by)
{
	return __atomic_exchange_n(&rte_eth_fp_ops[port].tx_pkt_burst, by, __ATOMIC_SEQ_CST);
}

static eth_tx_burst_t stick(uint16_t port) { return replace_tx(port, takes_none); }
*/
import "C"

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"time"
	"unsafe"

	"causeway/app/bridge"
	"causeway/config"
	"causeway/dpdk"
	"causeway/ibside/fabric"
	"causeway/ibside/ib"
)

// The soak builds the program with this file in it: what fails inside of a bridge can be had from nowhere else.
// Commands come by a socket beside the subnet's, one in a line, and are answered when the fault is over:
//
//	empty 300ms       nobody finds an mbuf in the mempool for that long
//	stuck 1s          the Ethernet port takes no frames to send
//	lost              the InfiniBand port says that a completion queue is lost
//	silent 2s         the subnet administrator answers nothing
//	slow 700ms 2s     for 2 s it takes 700 ms for everything
//	cut b             the bridge's port b is cut off its subnet
//	mend b            it is not, any more

// buildFailing is bridge.Build, on a subnet whose administrator can fail; on another process's it just is bridge.Build.
func buildFailing(cfg *config.Config, o bridge.Options) (*bridge.Bridge, error) {
	if fabric.AtSocket(cfg.IB.Port.File) {
		return bridge.Build(cfg, o)
	}
	ports := map[string]bridgePort{}
	var subnets []*fabric.Fabric
	for i, x := range cfg.Ports() {
		topology, err := fabric.Load(x.Port.File)
		if err != nil {
			return nil, err
		}
		subnet, err := fabric.New(topology)
		if err != nil {
			return nil, err
		}
		subnets = append(subnets, subnet)
		ports[x.Name] = bridgePort{subnet, cfg.Name + map[bool]string{true: "/" + x.Name}[i > 0]}
	}
	o.Subnet, o.MoreSubnets = subnets[0], subnets[1:]
	b, err := bridge.Build(cfg, o)
	if err != nil {
		for _, s := range subnets {
			err = errors.Join(err, s.Close())
		}
		return nil, err
	}
	socket := filepath.Join(filepath.Dir(cfg.IB.Port.File), "faults.sock")
	_ = os.Remove(socket) // of one that was killed
	l, err := net.Listen("unix", socket)
	if err != nil {
		return nil, errors.Join(err, b.Close(), o.Subnet.Close())
	}
	f := &failing{*field[*dpdk.Mempool](b, "pool"), *field[chan error](b, "failed"), o.Subnet, ports}
	go func() {
		for {
			c, err := l.Accept()
			switch {
			case err == nil:
				go f.serve(c)
			case errors.Is(err, net.ErrClosed):
				return
			default: // no file descriptor is left: a fault of its own
				time.Sleep(20 * time.Millisecond)
			}
		}
	}()
	return b, nil
}

// field returns a field that package bridge shows to nobody.
func field[T any](b *bridge.Bridge, name string) *T {
	return (*T)(unsafe.Pointer(reflect.ValueOf(b).Elem().FieldByName(name).UnsafeAddr()))
}

// failing is what can fail.
type failing struct {
	pool   *dpdk.Mempool
	failed chan<- error // what the verbs port's OnLoss sends to
	subnet *fabric.Fabric
	ports  map[string]bridgePort // by the names of several [[ib]]
}

// A bridgePort is the bridge's port on a subnet, and its name there.
type bridgePort struct {
	subnet *fabric.Fabric
	name   string
}

// cut cuts the bridge's port off its subnet, or mends that.
func (f *failing) cut(name string, cut bool) (string, error) {
	b, there := f.ports[name]
	if !there {
		return "", fmt.Errorf("there is no port %q", name)
	}
	for _, p := range b.subnet.Ports() {
		if p.Name == b.name {
			return "done", b.subnet.Cut(p.GUID, cut)
		}
	}
	return "", fmt.Errorf("port %q is not on its subnet", name)
}

func (f *failing) serve(c net.Conn) {
	defer c.Close()
	for lines := bufio.NewScanner(c); lines.Scan(); {
		said, err := f.fail(strings.Fields(lines.Text()))
		if err != nil {
			said = "error: " + err.Error()
		}
		fmt.Fprintln(c, said)
	}
}

func (f *failing) fail(words []string) (string, error) {
	if len(words) == 2 && (words[0] == "cut" || words[0] == "mend") {
		return f.cut(words[1], words[0] == "cut")
	}
	var times []time.Duration
	for _, word := range words[1:] {
		d, err := time.ParseDuration(word)
		if err != nil {
			return "", err
		}
		times = append(times, d)
	}
	switch {
	case words[0] == "empty" && len(times) == 1:
		return f.empty(times[0]), nil
	case words[0] == "stuck" && len(times) == 1:
		return stuck(times[0]), nil
	case words[0] == "lost" && len(times) == 0:
		f.failed <- fmt.Errorf("verbs: the RDMA device has lost a queue (cq_error); %w", bridge.ErrDeviceGone)
		return "it ends", nil
	case words[0] == "silent" && len(times) == 1:
		return f.administrator(times[0], func(*fabric.MADPort, ib.LID, ib.SL, []byte) {})
	case words[0] == "slow" && len(times) == 2:
		return f.administrator(times[1], func(p *fabric.MADPort, from ib.LID, sl ib.SL, mad []byte) {
			time.AfterFunc(times[0], func() { p.Pass(from, sl, mad) })
		})
	}
	return "", fmt.Errorf("there is no fault %q", words)
}

// empty takes all mbufs, also those that are freed meanwhile.
func (f *failing) empty(d time.Duration) string {
	var taken []dpdk.Mbuf
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(20 * time.Microsecond) {
		for {
			m, err := f.pool.Alloc(nil)
			if err != nil {
				break
			}
			taken = append(taken, m)
		}
	}
	for _, m := range taken {
		m.Free()
	}
	return fmt.Sprintf("%d mbufs taken", len(taken))
}

// stuck has the bridge's only port take nothing to send.
func stuck(d time.Duration) string {
	const port = 0
	was := C.stick(port)
	time.Sleep(d)
	C.replace_tx(port, was)
	return "it sends again"
}

// administrator has another take the place of the subnet's for a time.
func (f *failing) administrator(d time.Duration, does func(p *fabric.MADPort, from ib.LID, sl ib.SL, mad []byte)) (string, error) {
	port := fabric.NewMADPort(f.subnet.SA().HCA(), ib.ClassSA)
	asked := make(chan int)
	go func() {
		n := 0
		for ; ; n++ {
			mad := make([]byte, ib.MADLen)
			from, sl, err := port.ReceiveMAD(mad)
			if err != nil {
				break
			}
			does(port, from, sl, mad)
		}
		asked <- n
	}()
	time.Sleep(d)
	err := port.Close()
	return fmt.Sprintf("%d requests", <-asked), err
}
