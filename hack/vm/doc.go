// Command vm runs Gantry in a small virtual machine (QEMU, software emulation; Debian's kernel and
// systemd; cgroup v2; four cores in two NUMA nodes; 1.5 GiB and swap) and lives in it what the host
// cannot be asked to: memory, disk and process ids that run out, exclusive cores, swap.
//
//	vm [-bin DIR] [-out DIR] [-timeout DURATION] [SCENARIO...]
//
// In: build/bin as `make build` makes it, Debian's packages (image.sh), the scenarios of guest.
// Out: a time line; exit code 1 when an expectation fails, 4 and the reason where no machine can be
// had. It writes below -out alone, and ends the machine it started.
//
// To add a scenario: an entry of guest's table, and a line in docs/contributing/vm.md.
package main
