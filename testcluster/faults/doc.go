// Package faults kills the parts of a test cluster in the middle of things and checks that nothing
// is lost, doubled or left.
//
// A schedule is a row of steps drawn from a seed: Pods are created, deleted, deleted by force and
// made again under the same name, while kubelet, runtime and API server are killed and started
// again. `make test` plays a few schedules, `make faults` two hundred.
//
// In: flags -schedules and -seed. Out: a test report that names the seed of what failed. To add a
// step: a case in world.step.
package faults
