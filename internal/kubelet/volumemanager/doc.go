// Package volumemanager attaches, mounts and unmounts the volumes of Pods.
//
// It carries out what package volume decides: it holds the objects a Pod refers to, runs each
// volume's Plugin, stages volumes once per node for all Pods that use them, reports failures as
// events and facts, and cleans up after Pods. The life of a volume is drawn in mountvolumes.go.
//
// In: Pods from their workers; pushes from the object cache and from tokens that grow old. Out:
// host paths of volumes, *reason.Refusal naming what is missing. One call per Pod at a time; calls
// for different Pods run side by side. A Pod's volumes, and those staged on the node, are taken
// away by what was stored of them (vol_data.json), whether or not the Pod is still known:
// upstream's reconstruction of volumes after a restart of the kubelet.
package volumemanager
