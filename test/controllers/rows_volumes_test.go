package controllers_test

import (
	"fmt"
	"strings"
)

// volume is a PersistentVolume for the claim data, which names it.
const volume = `kind: PersistentVolume
metadata: {name: NS-v}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  csi: {driver: NS.example.com, volumeHandle: NS}
  claimRef: {namespace: NS, name: data}
`

const claim = `kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], storageClassName: "", volumeName: NS-v, resources: {requests: {storage: 1Gi}}}
`

// claimUser is a Pod of the instance's node that uses the claim.
const claimUser = `kind: Pod
metadata: {name: user}
spec:
  nodeName: NS-n
  terminationGracePeriodSeconds: 0
  volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]
  containers: [{name: c, image: web, volumeMounts: [{name: v, mountPath: /v}]}]
`

// bindVolume binds volume and claim as the binder does.
func bindVolume(w *instance) { bindVolumeOf(w, claim) }

func bindVolumeOf(w *instance, claim string) {
	w.make(volume + "---\n" + claim)
	w.patch("PersistentVolume/NS-v", `{"spec":{"claimRef":{"apiVersion":"v1","kind":"PersistentVolumeClaim","uid":"`+
		string(w.get("PersistentVolumeClaim/data").GetUID())+`"}}}`)
	w.status("PersistentVolume/NS-v", map[string]any{"phase": "Bound"})
	w.status("PersistentVolumeClaim/data", map[string]any{"phase": "Bound", "accessModes": []any{"ReadWriteOnce"},
		"capacity": map[string]any{"storage": "1Gi"}})
}

var rowsOfVolumes = []row{
	{name: "volumebinding", steps: []step{
		{makes(volume + "---\n" + claim), allOf(fieldIs("PersistentVolume/NS-v", "status.phase", "Bound"),
			fieldIs("PersistentVolumeClaim/data", "status.phase", "Bound"),
			fieldIs("PersistentVolumeClaim/data", "status.capacity.storage", "1Gi"), boundToEachOther)},
		{func(w *instance) {
			w.patch("PersistentVolumeClaim/data", `{"metadata":{"finalizers":null}}`)
			w.delete("PersistentVolumeClaim/data")
		}, fieldIs("PersistentVolume/NS-v", "status.phase", "Released")}}},
	{name: "attachdetach", steps: []step{
		{func(w *instance) {
			w.make("kind: Node\nmetadata:\n  name: NS-n\n  annotations: " +
				"{volumes.kubernetes.io/controller-managed-attach-detach: 'true'}\n")
			bindVolume(w)
			w.make(claimUser)
		}, oneAttachment},
		{func(w *instance) {
			for _, a := range attachments(w) {
				w.status("VolumeAttachment/"+a, map[string]any{"attached": true})
			}
		}, fieldIs("Node/NS-n", "status.volumesAttached[0].name", "kubernetes.io/csi/NS.example.com^NS")},
		{deletes("Pod/user"), allOf(fieldIs("Node/NS-n", "status.volumesAttached", ""), func(w *instance) error {
			if left := attachments(w); len(left) > 0 {
				return fmt.Errorf("%v is left", left)
			}
			return nil
		})}}},
	{name: "ephemeralvolume", event: "FailedBinding", steps: []step{
		{makes(`kind: Pod
metadata: {name: p}
spec:
  containers: [{name: c, image: web}]
  volumes:
  - name: v
    ephemeral:
      volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}
`), allOf(exists("PersistentVolumeClaim/p-v"), count("PersistentVolumeClaim", "", 1),
			fieldIs("PersistentVolumeClaim/p-v", "metadata.ownerReferences[p].kind", "Pod"))}}},
	// Nobody but an external resizer makes volumes bigger: there is no write to refuse.
	{name: "volumeexpand", silent: true, steps: []step{
		{func(w *instance) {
			w.make("kind: StorageClass\nmetadata: {name: NS}\nprovisioner: NS.example.com\n" +
				"allowVolumeExpansion: true\n")
			bindVolumeOf(w, strings.Replace(claim, `""`, w.token, 1))
			w.patch("PersistentVolumeClaim/data", `{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}`)
		}, func(w *instance) error { return w.hasEvent("ExternalExpanding") }}}},
	{name: "pvcprotection", steps: []step{
		{func(w *instance) {
			bindVolume(w)
			w.make(node)
		}, fieldIs("PersistentVolumeClaim/data", "status.conditions[0].reason", "NoPodsUsingPVC")},
		{makes(claimUser), fieldIs("PersistentVolumeClaim/data", "status.conditions[0].reason", "PodUsingPVC")},
		{deletes("Pod/user"), fieldIs("PersistentVolumeClaim/data", "status.conditions[0].status", "True")},
		{deletes("PersistentVolumeClaim/data"), isGone("PersistentVolumeClaim/data")},
		{func(w *instance) {
			w.make(claim + "---\n" + claimUser)
			w.make("kind: PersistentVolumeClaim\nmetadata: {name: unused}\nspec: {accessModes: [ReadWriteOnce], " +
				"resources: {requests: {storage: 1Gi}}}\n")
			w.delete("PersistentVolumeClaim/data")
			w.delete("PersistentVolumeClaim/unused")
		}, allOf(isGone("PersistentVolumeClaim/unused"), func(w *instance) error {
			if w.get("PersistentVolumeClaim/data") == nil {
				return fmt.Errorf("the claim that a Pod uses is gone")
			}
			return nil
		})},
		{deletes("Pod/user"), isGone("PersistentVolumeClaim/data")}}},
	{name: "pvprotection", steps: []step{
		{func(w *instance) {
			w.make(volume)
			w.delete("PersistentVolume/NS-v")
		}, isGone("PersistentVolume/NS-v")}}},
	{name: "vacprotection", steps: []step{
		{func(w *instance) {
			w.make("kind: VolumeAttributesClass\nmetadata: {name: NS-fast}\ndriverName: example.com\n" +
				"parameters: {iops: '1'}\n")
			w.delete("VolumeAttributesClass/NS-fast")
		}, isGone("VolumeAttributesClass/NS-fast")}}},
	{name: "resourceclaim", event: "FailedResourceClaimCreation", steps: []step{
		{makes(`kind: ResourceClaimTemplate
metadata: {name: gpu}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}}
---
kind: Pod
metadata: {name: p}
spec:
  resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}]
  containers: [{name: c, image: web, resources: {claims: [{name: gpu}]}}]
`), oneClaim}}},
}

func boundToEachOther(w *instance) error {
	return w.fieldIs("PersistentVolume/NS-v", "spec.claimRef.uid", string(w.get("PersistentVolumeClaim/data").GetUID()))
}

func attachments(w *instance) (out []string) {
	for _, a := range w.list("VolumeAttachment", "") {
		if field(&a, "spec.nodeName") == w.token+"-n" {
			out = append(out, a.GetName())
		}
	}
	return out
}

func oneAttachment(w *instance) error {
	if got := attachments(w); len(got) != 1 {
		return fmt.Errorf("VolumeAttachments %v, want one", got)
	}
	return nil
}

// oneClaim: the Pod's status names the only claim.
func oneClaim(w *instance) error {
	claims := w.live("ResourceClaim", "")
	if len(claims) != 1 {
		return fmt.Errorf("%d ResourceClaims, want 1", len(claims))
	}
	return w.fieldIs("Pod/p", "status.resourceClaimStatuses[gpu].resourceClaimName", claims[0].GetName())
}
