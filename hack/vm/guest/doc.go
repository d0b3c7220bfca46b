// Command guest runs inside the virtual machine of hack/vm, started by systemd: it starts `gantry
// up`, lives the scenarios that the kernel's command line names (vm.scenarios=a,b; all by default),
// prints a time line to the second serial port and powers the machine off.
//
// In: /opt/gantry with the programs and images, a disk for swap. Out: lines; the last one is "all
// expectations hold" or says how many do not.
//
// To add a scenario: an entry of the table in scenarios.go; what it expects goes through
// timeline.expect.
package main
