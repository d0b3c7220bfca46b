package finding

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// patchOp is an operation of a JSON patch.
type patchOp struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// requiresRecreate reports whether an object's fields can only be changed by making it anew, which
// loses nothing: Pods, Jobs, claims that are not bound yet, and templates of claims for devices.
func requiresRecreate(o Object, x metav1.Object) bool {
	switch o.Kind {
	case "Pod", "Job", "ResourceClaimTemplate":
		return true
	}
	p, ok := x.(*corev1.PersistentVolumeClaim)
	return ok && p.Status.Phase != corev1.ClaimBound && p.Status.Phase != corev1.ClaimLost
}

// fixed reports whether the API server lets nobody change a field of an object, and to make the
// object anew would lose something or not be enough.
func fixed(o Object, x metav1.Object, field string) bool {
	switch o.Kind {
	case "PersistentVolumeClaim":
		return !requiresRecreate(o, x)
	case "PersistentVolume":
		return true
	case "StatefulSet":
		return strings.HasPrefix(field, "spec.volumeClaimTemplates") || field == "spec.serviceName"
	}
	return strings.HasPrefix(field, "roleRef")
}

// claimAs makes a claim that is not bound anew so that a volume can serve it.
func (c *Cluster) claimAs(p *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume, diff []unfit) []string {
	var ops []patchOp
	for _, d := range diff {
		op := patchOp{Op: "add", Path: pointer(d.field), Value: d.has}
		switch d.field {
		case "":
			return nil // the volume is somebody else's
		case "spec.accessModes":
			op.Value = v.Spec.AccessModes
		case "spec.selector":
			op = patchOp{Op: "remove", Path: pointer(d.field)}
		case "spec.storageClassName":
			op.Value = json.RawMessage(jsonText(v.Spec.StorageClassName))
		}
		ops = append(ops, op)
	}
	raw, err := json.Marshal(ops)
	if err != nil || len(ops) == 0 {
		return nil
	}
	return c.patchCommand(objectOf("PersistentVolumeClaim", p), string(raw))
}

// classInstead adds to a finding about a claim whose StorageClass is missing the class that was
// probably meant, where no name is similar: that of the StatefulSet's template the claim would be
// made of, the default one, or the only one. A class may also be made like that one.
func (c *Cluster) classInstead(f *Finding, r Reference) {
	p, ok := c.Get(f.Object).(*corev1.PersistentVolumeClaim)
	if !ok || r.To.Kind != "StorageClass" || f.Want != "" {
		return
	}
	name, why, made := c.classMeant(p)
	if name == "" {
		return
	}
	f.Want = name
	f.Message += " " + why
	again := Remedy{Say: fmt.Sprintf("make the claim anew with class %s", name),
		Run: c.replaceCommand(f.Object, r.Field, name)}
	if made && len(again.Run) > 0 { // by the StatefulSet, as soon as it is gone
		again.Run = []string{kubectl(f.Object, "delete", "")}
	}
	f.Remedies = append(f.Remedies, again,
		Remedy{Say: fmt.Sprintf("or make a StorageClass %s like %s", r.To.Name, name), Run: []string{fmt.Sprintf(
			"kubectl get storageclass %s -o json | kubectl patch --local -f - --type=merge -p "+
				"'{\"metadata\":{\"name\":%s,"+
				"\"uid\":null,\"resourceVersion\":null,\"creationTimestamp\":null,\"annotations\":null}}' -o json | "+
				"kubectl create -f -", name, jsonText(r.To.Name))}})
}

// soleKinds are kinds of which a namespace mostly has few: where there is one only, it was probably
// meant, whatever its name.
var soleKinds = map[string]bool{"ResourceClaimTemplate": true, "ResourceClaim": true, "Deployment": true,
	"StatefulSet": true, "Service": true, "PodGroup": true, "Role": true}

// onlyOne adds to a finding about a class that is missing the only one of its kind, where no name
// is similar.
func (c *Cluster) onlyOne(f *Finding, r Reference) {
	all := c.names(r.To.Kind, "")
	if f.Want == "" && soleKinds[r.To.Kind] {
		own := c.names(r.To.Kind, r.To.Namespace)
		if len(own) == 1 && (f.Object != Object{r.To.Kind, r.To.Namespace, own[0]}) {
			f.Related = append(f.Related, Object{r.To.Kind, r.To.Namespace, own[0]})
			f.Remedies = append(f.Remedies, Remedy{Say: fmt.Sprintf("name %s in %s of %s, if that was meant: it is "+
				"the only %s%s", own[0], r.Field, f.Object, r.To.Kind, where(r.To)),
				Run: c.claimedAnew(f.Object, c.replaceCommand(f.Object, nameField(r), own[0]))})
		}
		return
	}
	if f.Want != "" || len(all) != 1 || !strings.HasSuffix(r.To.Kind, "Class") || r.To.Kind == "PriorityClass" {
		return
	}
	f.Want = all[0]
	f.Remedies = append(f.Remedies, Remedy{Say: fmt.Sprintf("name %s in %s of %s: it is the only %s", f.Want, r.Field,
		f.Object, r.To.Kind), Run: c.claimedAnew(f.Object, c.replaceCommand(f.Object, r.Field, f.Want))})
}

// withoutItsJobs adds to commands that change a CronJob the deletion of its Jobs that have made no
// Pods: they are of the template as it was.
func (c *Cluster) withoutItsJobs(o Object, x metav1.Object, run []string) []string {
	var names []string
	for _, j := range owned[*batchv1.Job](c, "Job", x) {
		if j.Status.Active+j.Status.Succeeded+j.Status.Failed == 0 && j.Status.CompletionTime == nil {
			names = append(names, j.Name)
		}
	}
	if o.Kind != "CronJob" || len(names) == 0 || !c.Read("Job") {
		return run
	}
	slices.Sort(names)
	return append(run, fmt.Sprintf("kubectl -n %s delete job %s", o.Namespace, strings.Join(names, " ")))
}

// claimedAnew adds to commands that make a template of claims for devices anew those that make the
// Pods anew whose claims were made of it and that have no node yet.
func (c *Cluster) claimedAnew(o Object, run []string) []string {
	if o.Kind != "ResourceClaimTemplate" || len(run) == 0 {
		return run
	}
	for _, p := range in[*corev1.Pod](c, "Pod", o.Namespace) {
		uses := slices.ContainsFunc(p.Spec.ResourceClaims, func(x corev1.PodResourceClaim) bool {
			return x.ResourceClaimTemplateName != nil && *x.ResourceClaimTemplateName == o.Name
		})
		switch at := objectOf("Pod", p); {
		case !uses || p.Spec.NodeName != "" || len(run) > maxFollowed:
		case metav1.GetControllerOf(p) != nil:
			run = append(run, kubectl(at, "delete", ""))
		default:
			run = append(run, kubectl(at, "get", "-o json")+" | kubectl replace --force -f -")
		}
	}
	return run
}

// classMeant is the class that a claim most likely should have, a sentence about why, and whether a
// StatefulSet makes the claim with it when it is gone.
func (c *Cluster) classMeant(p *corev1.PersistentVolumeClaim) (name, why string, made bool) {
	exists := func(n *string) bool { return n != nil && c.Get(Object{Kind: "StorageClass", Name: *n}) != nil }
	for _, s := range in[*appsv1.StatefulSet](c, "StatefulSet", p.Namespace) {
		for i := range s.Spec.VolumeClaimTemplates {
			t := &s.Spec.VolumeClaimTemplates[i]
			if strings.HasPrefix(p.Name, t.Name+"-"+s.Name+"-") && exists(t.Spec.StorageClassName) {
				return *t.Spec.StorageClassName, fmt.Sprintf("StatefulSet %s would make this claim with class "+
					"%s.", s.Name,
					*t.Spec.StorageClassName), true
			}
		}
	}
	all := list[*storagev1.StorageClass](c, "StorageClass")
	i := slices.IndexFunc(all, func(x *storagev1.StorageClass) bool {
		return x.Annotations["storageclass.kubernetes.io/is-default-class"] == "true"
	})
	switch {
	case i >= 0:
		return all[i].Name, fmt.Sprintf("The default class is %s.", all[i].Name), false
	case len(all) == 1:
		return all[0].Name, fmt.Sprintf("The only class is %s.", all[0].Name), false
	}
	return "", "", false
}

// modeUnserved blames the access mode of a claim that the provisioner says it does not serve:
// volumes for one node at a time every provisioner makes.
func (c *Cluster) modeUnserved(f *Finding, p *corev1.PersistentVolumeClaim) {
	for i, m := range p.Spec.AccessModes {
		if m == corev1.ReadWriteOnce || !strings.Contains(f.Message, "access mode") ||
			!strings.Contains(f.Message[strings.LastIndex(f.Message, "access mode"):], string(m)) {
			continue
		}
		f.Field, f.Value, f.Want = fmt.Sprintf("spec.accessModes[%d]", i), string(m), string(corev1.ReadWriteOnce)
		f.Remedies = []Remedy{{Say: "make the claim anew with access mode ReadWriteOnce: then Pods of one node alone " +
			"can use it", Run: c.replaceCommand(f.Object, "spec.accessModes["+fmt.Sprint(i)+"]", f.Want)},
			{Say: "or name a class whose provisioner makes such volumes"}}
		return
	}
}
