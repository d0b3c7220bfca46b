// Package scenario is the changes that can be tried on a copy of a cluster: one file per verb.
//
// In: a cluster's objects, how long containers take, and the change. Out: a forecast.Forecast. A
// change is made through the copy's API as a person would make it with kubectl, by kubectl's own
// rules where it has some (which Pods a drain evicts, when a rollout is done).
package scenario
