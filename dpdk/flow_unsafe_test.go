// SPDX-License-Identifier: Apache-2.0

package dpdk

import (
	"unsafe"

	"causeway/dpdk/dpdktest"
)

// showFlow writes a rule as rte_flow gets it.
func (p *Port) showFlow(rule Rule) (string, error) {
	words, err := flowWords(rule, p.plan.isTap(), p.config.RxQueues)
	if err != nil {
		return "", err
	}
	return dpdktest.ShowFlow(unsafe.Pointer(&words))
}

// validateFlow asks the PMD whether it would take the rule.
func (p *Port) validateFlow(rule Rule) error {
	words, err := flowWords(rule, p.plan.isTap(), p.config.RxQueues)
	if err != nil {
		return err
	}
	return dpdktest.ValidateFlow(int(p.id), unsafe.Pointer(&words))
}
