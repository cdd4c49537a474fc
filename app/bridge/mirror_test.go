// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gopacket/gopacket/pcapgo"

	"causeway/app/capture"
	"causeway/app/trace"
	"causeway/ibside/ib"
	"causeway/ibside/ib/erftest"
	"causeway/lcore"
	"causeway/lcore/frame/roce"
	"causeway/lcore/manage"
)

// An audience is what observes a bridge: a capture of everything, one of drops, and a trace.
type audience struct {
	all, drops   bytes.Buffer
	captured     [2]capture.Result
	explanations []trace.Explanation
	stop         context.CancelFunc
	ended        sync.WaitGroup
	errs         [3]error
}

// begun is a bridge that says when a mirror of it has begun: what passes before is in none.
type begun struct {
	*Bridge
	began *sync.WaitGroup
}

func (b begun) Mirror(ctx context.Context, f lcore.Filter, snap int, each func(lcore.MirroredPacket) bool) (uint64, error) {
	return b.mirror(ctx, lcore.MirrorOptions{Filter: f, Snap: snap, Began: b.began.Done}, each)
}

func (h *Bridge) invite() *audience {
	ctx, stop := context.WithCancel(context.Background())
	a := &audience{stop: stop}
	b := begun{h, new(sync.WaitGroup)}
	b.began.Add(3)
	a.ended.Go(func() { a.captured[0], a.errs[0] = capture.Write(ctx, b, lcore.Filter{}, &a.all, capture.Limits{}) })
	a.ended.Go(func() {
		a.captured[1], a.errs[1] = capture.Write(ctx, b, lcore.Filter{AnyDrop: true}, &a.drops, capture.Limits{})
	})
	a.ended.Go(func() {
		_, a.errs[2] = trace.Follow(ctx, b, h.Tables(), lcore.Filter{}, func(e trace.Explanation) bool {
			a.explanations = append(a.explanations, e)
			return true
		})
	})
	b.began.Wait()
	return a
}

// dropped returns how many messages of RoCE the bridge has dropped.
func dropped(h *Bridge) (n uint64) {
	c := h.Counters()
	for _, of := range c.Direction[lcore.RoCEToIB].Drops {
		n += of
	}
	return n
}

// taskMirrors sends a message to the echo and back, and three that are dropped, while captures and a trace run.
func taskMirrors() (string, error) {
	h, err := built()
	if err != nil {
		return "", err
	}
	var a *audience
	err = running(h, func() error {
		a = h.invite()
		defer func() { a.stop(); a.ended.Wait() }()
		good, stranger, lost := message(h, nodeIP, 0x77, 1), message(h, nodeIP, 0x77, 2), message(h, nodeIP, 0x77, 3)
		stranger.SrcIP = netip.MustParseAddr("10.10.0.1")
		lost.DstIP = netip.MustParseAddr("10.9.0.99")
		bad := message(h, nodeIP, 0x77, 4)
		broken := bad.AppendTo(nil)
		broken[len(broken)-9] ^= 1
		if err := h.enter(good.AppendTo(nil), stranger.AppendTo(nil), lost.AppendTo(nil), broken); err != nil {
			return err
		}
		if _, err := h.leave(1); err != nil {
			return err
		}
		for end := time.Now().Add(time.Minute); dropped(h) < 3; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				return fmt.Errorf("%d of three were dropped: %+v", dropped(h), h.Counters().Direction)
			}
		}
		return nil
	})
	if err = errors.Join(err, errors.Join(a.errs[:]...)); err != nil {
		return "", err
	}
	if _, again := h.Mirror(context.Background(), lcore.Filter{}, 0, nil); again == nil || h.Tables().anybody() {
		return "", errors.New("closed, and still mirrored")
	}
	return "captured and explained", errors.Join(a.checkCaptures(h), a.checkExplanations())
}

func (s Tables) anybody() bool {
	_, host := s.Host(manage.Place{}, hostIP)
	_, node := s.Node(nodeIP)
	return host || node
}

// checkCaptures checks that the good message was captured at both ports both ways, and the dropped ones with their
// reason.
func (a *audience) checkCaptures(h *Bridge) error {
	var inRoCE, outIB, inIB, outRoCE int
	reasons := ""
	err := records(&a.all, func(ibPort int, data []byte, comments []string) error {
		if ibPort == 0 {
			p, err := roce.Parse(data)
			reasons += strings.Join(comments, "")
			switch {
			case err == nil && p.SrcIP == hostIP && p.DstIP == nodeIP:
				inRoCE++
			case err == nil && p.SrcIP == nodeIP && p.SrcQP == 0x77 && p.DestQP == 0x55:
				outRoCE++
			}
			return nil
		}
		r, ok := erftest.Parse(data)
		p, fault := ib.ParsePacket(r.Packet)
		own := h.ibPort.Own()
		switch {
		case !ok || fault != "":
			return fmt.Errorf("no InfiniBand packet: %v, %x", fault, data)
		case p.DestQP == 0x77 && p.DLID != 0 && p.SLID == own.LID && p.PKey == 0xffff && len(p.Payload) == 200:
			outIB++
		case p.SrcQP == 0x77 && p.SLID != 0 && p.DLID == own.LID:
			inIB++
		}
		return nil
	})
	if err != nil || inRoCE != 1 || outIB != 1 || inIB != 1 || outRoCE != 1 {
		return errors.Join(err, fmt.Errorf("captured %d, %d, %d and %d of the good one: %+v", inRoCE, outIB, inIB, outRoCE, a.captured[0]))
	}
	died := 0
	err = records(&a.drops, func(_ int, _ []byte, comments []string) error {
		died++
		if !strings.Contains(reasons, strings.Join(comments, "")) || len(comments) != 1 {
			return fmt.Errorf("a drop with %q, which the other capture has not: %q", comments, reasons)
		}
		return nil
	})
	if err == nil && (died != 3 || a.captured[0].Missed+a.captured[1].Missed != 0) {
		err = fmt.Errorf("%d of three drops captured: %v, %v", died, a.captured[1], a.captured[0])
	}
	return err
}

// records reads a file that was written.
func records(file *bytes.Buffer, see func(ibPort int, data []byte, comments []string) error) error {
	r, err := pcapgo.NewNgReader(file, pcapgo.NgReaderOptions{WantMixedLinkType: true})
	if err != nil {
		return err
	}
	for {
		data, info, options, err := r.ReadPacketDataWithOptions()
		if err != nil {
			return nil // end of the file
		}
		if err := see(info.InterfaceIndex, data, options.Comments); err != nil {
			return err
		}
	}
}

func (a *audience) checkExplanations() error {
	var errs []error
	for _, want := range [][]string{
		{"DROPPED acl", "10.10.0.1", "[policy] allow"}, {"DROPPED node_unknown", "no InfiniBand node with address 10.9.0.99"}, {"DROPPED icrc", "ICRC wrong"},
		{"roce_to_ib: sent", "host 10.9.0.1", "waiting at worker 0", "GID fe80::7"}, {"ib_to_roce: sent", "IP 10.9.0.7", "host 10.9.0.1"},
	} {
		if !slices.ContainsFunc(a.explanations, func(e trace.Explanation) bool { return has(&e, want) }) {
			errs = append(errs, fmt.Errorf("no explanation with %q", want))
		}
	}
	if errs != nil {
		for i := range a.explanations {
			errs = append(errs, errors.New(strings.Join(a.explanations[i].Lines(), "\n")))
		}
	}
	return errors.Join(errs...)
}

func has(e *trace.Explanation, want []string) bool {
	text := strings.Join(strings.Fields(strings.Join(e.Lines(), " ")), " ")
	return !slices.ContainsFunc(want, func(w string) bool { return !strings.Contains(text, w) })
}
