// Package frameworkruntime is what framework judges expect around them: a Handle, a cycle state
// that stands concurrent use, a parallel runner, Pods that wait at Permit, and profiles: the
// plugins of a configuration, made and seated at their extension points.
//
// In: a completed configuration, factories, a client and informers. Out: *Profile, whose Judges go
// to place and whose other points are run here by one generic runner, a row per point.
//
// To add an extension point: a row in rows (seat.go), a list in Profile, and the call in run.go.
package frameworkruntime
