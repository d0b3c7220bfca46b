// Package kmsg reads from the kernel's log which processes the kernel killed because memory was
// out.
//
// In: records of /dev/kmsg, of kernels before and since 5.0. Out: a Kill for each. It needs the
// right to read /dev/kmsg (CAP_SYSLOG with kernel.dmesg_restrict).
package kmsg
