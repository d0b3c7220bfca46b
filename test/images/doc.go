// Package images makes the images that tests and the demo run, on this machine and without a
// registry: Debian's static busybox, a test server in Go, nginx, redis and etcd from Debian's
// packages. What was made once is kept under ${XDG_CACHE_HOME:-~/.cache}/gantry/images, never in
// the tree.
//
// In: Debian's packages (busybox-static installed; the others downloaded by apt-get),
// test/images/agnhost. Out: v1.Image values, archives for containerd's import (Archive), a registry
// on the loopback (Serve), the tags examples use (Standard).
package images
