// Package systemdcgroup manages cgroups through systemd: each slice is a unit whose properties set
// the limits.
//
// With the systemd driver systemd owns the cgroup tree, and may remove directories that others make
// or reset their values. In: a path such as /kubepods.slice/kubepods-burstable.slice and the
// cgroup's values. Out: a transient slice unit, or its removal. What systemd does not manage (other
// hierarchies of v1, exact quotas, huge pages) linux/cgroup writes afterwards into the same
// directories. To add a value: a line in properties.
package systemdcgroup
