// Package volumebinder is the writing side of the volume plugins: it has claims and volumes from
// informers, with what this scheduler has assumed over them, and writes it.
//
// A volume given to a claim gets its claimRef, a claim to be provisioned gets the selected node;
// the cluster's binder and the provisioner do the rest, and BindPodVolumes waits for them. What was
// assumed holds until the API shows something newer or the plan is forgotten.
//
// In: a client, informers, volumebinding.PodVolumes. Out: volumelisters.Listers, writes of
// PersistentVolumes and claims.
package volumebinder
