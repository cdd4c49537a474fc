// SPDX-License-Identifier: Apache-2.0

package config

// everyKey returns the keys of all tables.
func everyKey() []key {
	var all []key
	for _, t := range tables {
		all = append(all, t.keys...)
	}
	return all
}
