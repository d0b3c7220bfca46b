// Package faults kills components of a test cluster at random moments and checks that nothing is
// lost, duplicated or leaked.
//
// A schedule is a sequence of steps from a seed: Pods are created, deleted, force deleted and
// recreated under the same name, while kubelet, runtime and API server are killed and started
// again. `make test` runs a few schedules, `make faults` two hundred.
//
// In: flags -schedules and -seed. Out: a test report with the seed of a failure. To add a step: a
// case in fixture.step.
package faults
