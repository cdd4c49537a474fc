// SPDX-License-Identifier: Apache-2.0

// Package packaging is how Causeway gets onto a machine: systemd's units, the Debian package and, in docker, the image. The
// package has tests alone: of the units' exposure; and, behind the build tag e2e, of a package that is built, installed and started
// under a systemd of its own, and of an image that is built and run. `make packages` runs them.
package packaging
