// Package podstatus generates the status of a Pod on its node: phase, conditions, container
// statuses.
//
// Phase, conditions, container states with upstream's reasons and messages, restart counts,
// addresses and resources are derived from facts; nothing is remembered here: what was shown before
// is podview's. podstatus/statusmanager writes the result.
//
// In: the Pod as the API has it, the runtime's state, the health of containers, why containers
// wait, the time. Out: a v1.PodStatus. Fields that others own (PodScheduled, readiness gates,
// nominatedNodeName, claim statuses) are passed through.
//
// To add a condition: a function in conditions.go and its line in Generate; a row in the table of
// the test.
package podstatus
