// Package frameworkruntime is what plugins of the scheduling framework expect around them: a
// Handle, a cycle state that several goroutines may use, a Parallelizer, Pods that wait at Permit,
// and profiles: the plugins of a configuration at their extension points.
//
// In: a completed configuration, factories, a client and informers. Out: *Profile, whose Plugins
// the package schedule runs at PreFilter, Filter, PreScore and Score, and whose other extension
// points are run here by one generic runner.
//
// To add an extension point: a row in extensionPoints (profile.go), a list in Profile, and its Run
// method in extensionpoints.go.
package frameworkruntime
