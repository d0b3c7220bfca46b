// Package hpadiff runs random series of metrics, Pods and specs through upstream's controller of
// HorizontalPodAutoscalers and through Gantry's, and compares scales, statuses and events.
//
// In: a first seed and a count. Out: errors of its test where the two differ; with -record the
// series as upstream decided them, for test/replay/autoscalers. From the root of the tree:
//
//	cd hack/hpadiff && go test . -series 2000 -first 1
//	cd hack/hpadiff
//	go test . -series 600 -record ../../test/replay/autoscalers/testdata/series.json.gz
package hpadiff
