// SPDX-License-Identifier: Apache-2.0

// Package packaging has the systemd units and the Debian package; the image is in docker. As Go it has only tests: of
// the units' exposure; of how the program is built; and, behind the build tag e2e, of a Debian package that is built,
// installed and started under a systemd of its own, and of an image that is built and run. `make packages` runs them.
package packaging
