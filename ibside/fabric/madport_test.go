// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"errors"
	"testing"
	"time"

	"causeway/ibside/ib"
)

// madRig is two adapters of a subnet, of which one sends and receives SA datagrams through a MADPort.
func madRig(t *testing.T) (from *HCA, p *MADPort) {
	f := newFabric(t, Config{})
	from = attachHCA(t, f, PortConfig{Name: "from", GUID: 10})
	return from, NewMADPort(attachHCA(t, f, PortConfig{Name: "to", GUID: 11}), ib.ClassSA)
}

func saMAD(tid uint64) []byte {
	b := make([]byte, ib.MADLen)
	ib.PutMAD(b, ib.MADFields{Class: ib.ClassSA, ClassVersion: ib.ClassVersionSA, Method: ib.MethodReport, TID: tid})
	return b
}

func TestMADPort(t *testing.T) {
	from, p := madRig(t)
	here, err := p.PortState()
	if err != nil || !here.Active || !here.LID.IsUnicast() || !here.SMLID.IsUnicast() || here.GID.IsZero() {
		t.Fatalf("%+v, %v", here, err)
	}
	if cause := from.SendMAD(MADAddress{LID: here.LID, SL: 3}, saMAD(7)); cause != "" {
		t.Fatal(cause)
	}
	mad := make([]byte, ib.MADLen)
	lid, sl, err := p.ReceiveMAD(mad)
	if m, _ := ib.AsMAD(mad); lid != from.Info().LID || sl != 3 || err != nil || m.TID() != 7 {
		t.Errorf("from %v, SL %d, %v, TID %d", lid, sl, err, m.TID())
	}
	if err := p.SendMAD(from.Info().LID, 0, mad[:100]); err == nil {
		t.Error("100 bytes were sent as a MAD")
	}
	ended := make(chan error)
	go func() {
		_, _, err := p.ReceiveMAD(mad)
		ended <- err
	}()
	if err := errors.Join(p.Close(), p.Close()); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, ErrClosed) {
		t.Errorf("ReceiveMAD after Close: %v", err)
	}
	if err := p.hca.Close(); err != nil {
		t.Error(err)
	}
	if _, err := p.PortState(); !errors.Is(err, ErrClosed) {
		t.Errorf("PortState after the adapter was closed: %v", err)
	}
	if err := p.SendMAD(from.Info().LID, 0, mad); !errors.Is(err, ErrClosed) {
		t.Errorf("SendMAD after the adapter was closed: %v", err)
	}
}

// TestMADPortOverflow sends more than is read: datagrams for which there is no room are dropped by name.
func TestMADPortOverflow(t *testing.T) {
	from, p := madRig(t)
	here, _ := p.PortState()
	const sent = 2 * gsiBuffers
	for i := range uint64(sent) {
		from.SendMAD(MADAddress{LID: here.LID}, saMAD(i))
		for end := time.Now().Add(time.Minute); p.hca.Stats().ToQP1 <= i && time.Now().Before(end); {
			time.Sleep(10 * time.Microsecond) // so that no earlier queue drops
		}
	}
	for end := time.Now().Add(time.Minute); p.hca.gsi.drops.counts()[DropMADQueue] < sent-gsiBuffers && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if drops := p.hca.gsi.drops.counts(); drops[DropMADQueue] != sent-gsiBuffers || drops.Sum() != sent-gsiBuffers || len(p.queue) != gsiBuffers {
		t.Errorf("%d wait, drops %v", len(p.queue), drops)
	}
}
