// SPDX-License-Identifier: Apache-2.0

package report

import (
	"strings"
	"testing"

	"gonum.org/v1/plot"
)

func TestTicks(t *testing.T) {
	for _, x := range []struct {
		ticker      plot.Ticker
		least, most float64
		want        string
	}{
		{round{}, 0, 100, "0 20 40 60 80 100"},
		{round{}, 0, 26.4, "0 5 10 15 20 25"},
		{round{}, 0, 0.1, "0.00 0.02 0.04 0.06 0.08 0.10"},
		{round{}, -0.5, 3.2, "0 1 2 3"},
		{round{}, 7, 7, "7"},
		{decades{}, 1, 131072, "1 10 100 1 000 10 000 100 000"},
		{decades{}, 0.3, 12, "0.5 1 2 5 10"},
		{nines{}, ninesOf(50), ninesOf(99.99), "50 90 99 99.9 99.99"},
	} {
		var labels []string
		for _, k := range x.ticker.Ticks(x.least, x.most) {
			if k.Value < x.least-1e-9 || k.Value > x.most+1e-9 {
				t.Errorf("%T %g to %g: %g is beyond", x.ticker, x.least, x.most, k.Value)
			}
			if k.Label != "" {
				labels = append(labels, k.Label)
			}
		}
		if got := strings.Join(labels, " "); got != x.want {
			t.Errorf("%T %g to %g: %s; want %s", x.ticker, x.least, x.most, got, x.want)
		}
	}
}
