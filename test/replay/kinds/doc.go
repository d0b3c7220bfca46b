// Package kinds replays what kube-apiserver v1.37.2 answered to requests about every kind against
// the registry: objects with one field changed, or several, at creation, update and status.
//
// In: testdata/GROUP.jsonl.gz, written by `apidiff record` from a kube-apiserver without admission
// plugins: changes drawn at random. GROUP-wide.jsonl.gz is written by `apidiff recordwide`: the
// first change of each finding, warning and field that those do not show, and both sides of bounds.
// Out: the answers that differ: code, findings in their order, warnings, what of the object is not
// as asked, cells of its table. There is no server and no etcd: requests are decoded, written and
// printed by the storages of apiserver.StandaloneKinds over a store in memory.
package kinds
