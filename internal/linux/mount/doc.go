// Package mount makes and finds mounts, and opens paths that others may have filled with symbolic
// links.
//
// In: directories below the kubelet's root. Out: tmpfs and bind mounts, lists of mount points, file
// descriptors. Mounter is the kernel's; DirMounter stands in where mounting is not allowed:
// directories without their own file system.
package mount
