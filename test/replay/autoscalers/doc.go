// Package autoscalers replays decisions about HorizontalPodAutoscalers that upstream's controller
// made.
//
// In: testdata/series.json.gz, random series of specs, Pods and metrics with what upstream's
// controller decided in each step: scale, conditions, metrics and events. Out: errors of the test
// where Gantry's decision is another. hack/hpadiff makes series (Random), runs both and records; a
// series is named by its seed.
package autoscalers
