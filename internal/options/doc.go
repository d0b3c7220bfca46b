// Package options is where an instance of Gantry lives on its machine and how it is set: the
// values, their flags, their checks, and the files that follow from them.
//
// Instance is made of parts with flags of their own: PodNetwork, Storage, APIServer with
// FeatureGates. Complete fills in what was not given and refuses what cannot be, as a wrong call.
// LockDataDir keeps a second instance off a data directory. DecisionRecorder and RecordPartAddress
// write what other commands read. Nothing is started here.
package options
