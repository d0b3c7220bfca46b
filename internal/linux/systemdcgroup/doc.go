// Package systemdcgroup has systemd keep cgroups: every slice is a unit of systemd, whose
// properties say what the kernel enforces.
//
// With the systemd driver systemd owns the cgroup tree, so whoever makes a directory there without
// asking may find it gone or its values reset. In: a path like
// /kubepods.slice/kubepods-burstable.slice and the cgroup's values. Out: a transient slice unit, or
// none any more. What systemd does not keep (other hierarchies of v1, exact quotas, huge pages)
// linux/cgroup writes afterwards into the same directories. To add a value: a line in properties.
package systemdcgroup
