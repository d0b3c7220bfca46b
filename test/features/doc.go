// Package features proves rows of docs/compatibility/features.md that belong to no one package:
// what an API user sees of a whole cluster, area by area.
//
// A file per area, one testcluster in each, so that it stays fast. containers_test.go needs root:
// it asks real containers through kubectl.
//
// To prove a row: a subtest in its area's file, marked with its row where it begins. Break the
// behaviour once to see the test fail.
package features
