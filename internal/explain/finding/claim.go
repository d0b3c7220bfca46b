package finding

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// claim finds why a PersistentVolumeClaim is not bound: each free volume with what differs.
func claim(c *Cluster, o metav1.Object, self Object) []Finding {
	p, ok := o.(*corev1.PersistentVolumeClaim)
	if !ok || p.Status.Phase == corev1.ClaimBound {
		return claimResize(o, self)
	}
	if p.Status.Phase == corev1.ClaimLost {
		return []Finding{{Code: "VolumeLost", Stage: StageVolume, Object: self, Field: "spec.volumeName",
			Value: p.Spec.VolumeName, Related: []Object{{"PersistentVolume", "", p.Spec.VolumeName}},
			Message: fmt.Sprintf("Claim %s was bound to volume %s, which is not there any more.", self.Name,
				p.Spec.VolumeName)}}
	}
	class, named := c.classOf(p)
	if named != "" && class == nil && c.Read("StorageClass") && !c.BoundByHand(p, named) {
		return nil // the reference says so
	}
	if v, ok := get[*corev1.PersistentVolume](c, "PersistentVolume", "", p.Spec.VolumeName); ok {
		return c.chosenVolume(p, v, self)
	}
	if d := p.Spec.DataSource; d != nil && slices.ContainsFunc(missingReferences(c, p, self), func(f Finding) bool {
		return f.Value == d.Name
	}) {
		return nil // without what it is filled from, nobody can make its volume
	}
	if class != nil && (class.Provisioner != noProvisioner || waitsForPod(class, p)) {
		return append(selectsMade(p, class, self), c.provisioning(p, class, self)...)
	}
	f := Finding{Code: "NoVolumeFits", Stage: StageVolume, Object: self, Field: "spec", Value: describeClaim(p)}
	if named == "" && p.Spec.StorageClassName == nil {
		f.Field = "spec.storageClassName"
		f.Message = fmt.Sprintf("Claim %s (%s) names no storage class, and no class is the default: it waits for a "+
			"PersistentVolume that fits.", self.Name, describeClaim(p))
	} else {
		f.Message = fmt.Sprintf("Claim %s (%s) waits for a PersistentVolume that fits: nobody makes one for it.",
			self.Name, describeClaim(p))
	}
	c.compareVolumes(&f, p)
	return append([]Finding{f}, c.keptVolumes(p)...)
}

// keptVolumes are the volumes that would serve a claim but for a claim that is gone, for which they
// are kept.
func (c *Cluster) keptVolumes(p *corev1.PersistentVolumeClaim) []Finding {
	var out []Finding
	for _, v := range list[*corev1.PersistentVolume](c, "PersistentVolume") {
		if d := compare(p, v); v.Status.Phase == corev1.VolumeReleased && len(d) == 1 && d[0].field == "" {
			out = append(out, volume(c, v, objectOf("PersistentVolume", v))...)
		}
	}
	return out
}

// waitsForPod reports whether a claim of the class is bound only once a Pod uses it.
func waitsForPod(class *storagev1.StorageClass, p *corev1.PersistentVolumeClaim) bool {
	m := class.VolumeBindingMode
	return m != nil && *m == storagev1.VolumeBindingWaitForFirstConsumer &&
		p.Annotations["volume.kubernetes.io/selected-node"] == ""
}

const noProvisioner = "kubernetes.io/no-provisioner"

// classOf returns the class of a claim, the default one where it names none, and the name.
func (c *Cluster) classOf(p *corev1.PersistentVolumeClaim) (*storagev1.StorageClass, string) {
	if n := p.Spec.StorageClassName; n != nil {
		x, _ := get[*storagev1.StorageClass](c, "StorageClass", "", *n)
		return x, *n
	}
	for _, x := range list[*storagev1.StorageClass](c, "StorageClass") {
		if x.Annotations["storageclass.kubernetes.io/is-default-class"] == "true" {
			return x, x.Name
		}
	}
	return nil, ""
}

// describeClaim says what a claim asks for.
func describeClaim(p *corev1.PersistentVolumeClaim) string {
	q := p.Spec.Resources.Requests[corev1.ResourceStorage]
	s := q.String() + ", " + modes(p.Spec.AccessModes)
	if p.Spec.VolumeMode != nil && *p.Spec.VolumeMode == corev1.PersistentVolumeBlock {
		s += ", Block"
	}
	if n := p.Spec.StorageClassName; n != nil && *n != "" {
		s += ", class " + *n
	}
	return s
}

func modes(list []corev1.PersistentVolumeAccessMode) string {
	var out []string
	for _, m := range list {
		out = append(out, string(m))
	}
	return joined(out)
}

// unfit is why a volume cannot serve a claim: the field of the claim, what it says, what the volume
// has.
type unfit struct{ field, want, has, text string }

// compare lists what keeps a volume from serving a claim.
func compare(p *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) []unfit {
	var out []unfit
	add := func(field, want, has, format string, args ...any) {
		out = append(out, unfit{field, want, has, fmt.Sprintf(format, args...)})
	}
	r := v.Spec.ClaimRef
	if r != nil && r.Name == p.Name && r.Namespace == p.Namespace && r.UID != "" && r.UID != p.UID {
		add("", "", r.Namespace+"/"+r.Name, "is %s: it was of an earlier claim %s/%s, which had another uid, and is "+
			"kept as it is (persistentVolumeReclaimPolicy %s)", strings.ToLower(string(v.Status.Phase)), r.Namespace,
			r.Name, v.Spec.PersistentVolumeReclaimPolicy)
	} else if r != nil && (r.Name != p.Name || r.Namespace != p.Namespace ||
		r.UID != "" && r.UID != p.UID) {
		add("", "", r.Namespace+"/"+r.Name, "is %s, taken by claim %s/%s",
			strings.ToLower(string(v.Status.Phase)), r.Namespace, r.Name)
	}
	class := ""
	if p.Spec.StorageClassName != nil {
		class = *p.Spec.StorageClassName
	}
	if v.Spec.StorageClassName != class {
		has := v.Spec.StorageClassName
		if has == "" {
			has = "none"
		}
		add("spec.storageClassName", class, v.Spec.StorageClassName, "is of class %s", has)
	}
	want, has := p.Spec.Resources.Requests[corev1.ResourceStorage], v.Spec.Capacity[corev1.ResourceStorage]
	if has.Cmp(want) < 0 {
		add("spec.resources.requests.storage", want.String(), has.String(), "holds %s, %s are asked for (too small, "+
			"short of %s)", has.String(), want.String(), shortBy(want, has))
	}
	for _, m := range p.Spec.AccessModes {
		if !slices.Contains(v.Spec.AccessModes, m) {
			add("spec.accessModes", string(m), modes(v.Spec.AccessModes), "offers %s, %s is asked for",
				modes(v.Spec.AccessModes), m)
		}
	}
	if a, b := modeOf(p.Spec.VolumeMode), modeOf(v.Spec.VolumeMode); a != b {
		add("spec.volumeMode", string(a), string(b), "has volumeMode %s, %s is asked for", b, a)
	}
	if s := p.Spec.Selector; s != nil {
		if sel, err := metav1.LabelSelectorAsSelector(s); err == nil && !sel.Matches(labels.Set(v.Labels)) {
			add("spec.selector", metav1.FormatLabelSelector(s), labels.Set(v.Labels).String(), "has labels %s",
				labels.Set(v.Labels))
		}
	}
	return out
}

// distanceOf is how far a volume is from serving a claim: that it is of another class, or somebody
// else's, is the last that one would change.
func distanceOf(list []unfit) int {
	n := 0
	for _, d := range list {
		n += 2
		switch {
		case d.field == "spec.storageClassName":
			n += 2
		case d.field == "" && strings.HasPrefix(d.text, "is bound"):
			n += 3
		}
	}
	return n
}

func modeOf(m *corev1.PersistentVolumeMode) corev1.PersistentVolumeMode {
	if m == nil {
		return corev1.PersistentVolumeFilesystem
	}
	return *m
}

// compareVolumes adds the volumes that nearly fit: those that differ least come first.
func (c *Cluster) compareVolumes(f *Finding, p *corev1.PersistentVolumeClaim) {
	all := list[*corev1.PersistentVolume](c, "PersistentVolume")
	ofClass := slices.DeleteFunc(slices.Clone(all), func(v *corev1.PersistentVolume) bool {
		return p.Spec.StorageClassName == nil || v.Spec.StorageClassName != *p.Spec.StorageClassName
	})
	if len(ofClass) > 0 {
		all = ofClass // others are not what is meant
	}
	slices.SortStableFunc(all,
		func(a, b *corev1.PersistentVolume) int { return distanceOf(compare(p, a)) - distanceOf(compare(p, b)) })
	for i, v := range all {
		if i == 5 {
			break
		}
		diff := compare(p, v)
		if len(diff) == 0 {
			continue
		}
		var texts []string
		for _, d := range diff {
			texts = append(texts, d.text)
		}
		f.Message += fmt.Sprintf(" Volume %s %s.", v.Name, joined(texts))
		f.Related = append(f.Related, Object{"PersistentVolume", "", v.Name})
		if i == 0 && len(diff) == 1 && diff[0].field != "" {
			f.Field, f.Value, f.Want = diff[0].field, diff[0].want, diff[0].has
			f.Remedies = append(f.Remedies,
				Remedy{Say: fmt.Sprintf("make the claim anew with %s %s, as volume %s has it",
					diff[0].field, diff[0].has, v.Name), Run: c.claimAs(p, v, diff)})
		}
		if len(diff) == 1 && diff[0].field == "" && v.Status.Phase == corev1.VolumeReleased && i == 0 {
			f.Remedies = append(f.Remedies,
				Remedy{Say: fmt.Sprintf("let volume %s be claimed again: its data stay on it, and the new claim sees "+
					"them", v.Name), Run: []string{fmt.Sprintf(
					`kubectl patch pv %s --type=json -p '[{"op":"remove","path":"/spec/claimRef"}]'`, v.Name)}})
		}
	}
	if len(all) == 0 && c.Read("PersistentVolume") {
		f.Message += " There is no PersistentVolume at all."
	}
	f.Remedies = append(f.Remedies, Remedy{Say: "or make a PersistentVolume that fits"})
}

// chosenVolume compares a claim with the volume that it names.
func (c *Cluster) chosenVolume(p *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume, self Object) []Finding {
	diff := compare(p, v)
	if len(diff) == 0 {
		return nil
	}
	f := Finding{Code: "VolumeUnfit", Stage: StageVolume, Object: self, Field: "spec.volumeName", Value: v.Name,
		Related: []Object{{"PersistentVolume", "", v.Name}}}
	var texts []string
	for _, d := range diff {
		texts = append(texts, d.text)
		if d.field != "" {
			f.Field, f.Value, f.Want = d.field, d.want, d.has
		}
	}
	f.Message = fmt.Sprintf("Claim %s (%s) names volume %s, which %s.", self.Name, describeClaim(p), v.Name,
		joined(texts))
	if run := c.claimAs(p, v, diff); run != nil {
		f.Remedies = []Remedy{{Say: fmt.Sprintf("make the claim anew as volume %s can serve it", v.Name), Run: run}}
	}
	return []Finding{f}
}

// selectsMade finds a claim that selects volumes by labels and is of a class whose volumes are
// made: provisioners refuse such claims, as they cannot know how to make what is selected.
func selectsMade(p *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, self Object) []Finding {
	if p.Spec.Selector == nil || class.Provisioner == noProvisioner || p.Spec.VolumeName != "" {
		return nil
	}
	return []Finding{{Code: "SelectsMade", Stage: StageVolume, Object: self, Field: "spec.selector",
		Value: metav1.FormatLabelSelector(p.Spec.Selector), Related: []Object{objectOf("StorageClass", class)},
		Message: fmt.Sprintf("Claim %s selects volumes with %s, and no free volume is so. Storage class %s would have "+
			"one made by %s, and provisioners make none for a claim that selects.", self.Name,
			metav1.FormatLabelSelector(p.Spec.Selector), class.Name, class.Provisioner), Remedies: []Remedy{{
			Say: "make the claim anew without the selector, or a PersistentVolume with these labels"}}}}
}

// provisioning finds a claim that a provisioner should serve.
func (c *Cluster) provisioning(p *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, self Object) []Finding {
	f := Finding{Code: "ProvisionerSilent", Stage: StageVolume, Object: self, Field: "spec.storageClassName",
		Value: class.Name, Related: []Object{objectOf("StorageClass", class)}}
	if class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer &&
		p.Annotations["volume.kubernetes.io/selected-node"] == "" {
		f.Code, f.Severity = "WaitsForFirstConsumer", Note
		f.Message = fmt.Sprintf("Claim %s (%s) waits for its first Pod: storage class %s binds when a Pod that uses "+
			"it is placed (WaitForFirstConsumer).", self.Name, describeClaim(p), class.Name)
		return []Finding{f}
	}
	if c.Now.Sub(p.CreationTimestamp.Time) < settleTime {
		return nil
	}
	f.Message = fmt.Sprintf("Claim %s (%s) waits for provisioner %s of storage class %s to make a volume, and it has "+
		"made none.", self.Name, describeClaim(p), class.Provisioner, class.Name)
	if e := c.newestEvent(self, func(e *corev1.Event) bool { return e.Reason == "ProvisioningFailed" }); e != nil {
		f.Message += " It says: " + e.Message
	}
	if c.Read("CSIDriver") && strings.Contains(class.Provisioner, ".") {
		if _, ok := get[metav1.Object](c, "CSIDriver", "", class.Provisioner); !ok {
			f.Message += fmt.Sprintf(" No CSIDriver %s is registered.", class.Provisioner)
			f.Related = append(f.Related, Object{"CSIDriver", "", class.Provisioner})
			if near, how := Near(class.Provisioner, c.names("CSIDriver", "")); near != "" {
				f.Message += fmt.Sprintf(" There is a CSIDriver %s; %s.", near, how)
			}
		}
	}
	f.Remedies = []Remedy{{Say: "start " + class.Provisioner + ", and read what it says"}}
	c.modeUnserved(&f, p)
	return []Finding{f}
}

// claimResize finds a bound claim that asks for more than its volume has.
func claimResize(o metav1.Object, self Object) []Finding {
	p, ok := o.(*corev1.PersistentVolumeClaim)
	if !ok {
		return nil
	}
	want, has := p.Spec.Resources.Requests[corev1.ResourceStorage], p.Status.Capacity[corev1.ResourceStorage]
	if p.Status.Phase != corev1.ClaimBound || has.IsZero() || has.Cmp(want) >= 0 {
		return nil
	}
	f := Finding{Code: "NotResized", Severity: Threat, Stage: StageVolume, Object: self,
		Field: "spec.resources.requests.storage", Value: want.String(),
		Numbers: map[string]string{"requested": want.String(), "capacity": has.String()},
		Message: fmt.Sprintf("Claim %s asks for %s, and its volume has %s.", self.Name, want.String(), has.String())}
	for _, cond := range p.Status.Conditions {
		if cond.Type != corev1.PersistentVolumeClaimUnused { // which is not about the size
			f.Message += fmt.Sprintf(" %s: %s", cond.Type, cond.Message)
		}
	}
	return []Finding{f}
}

// unboundClaims finds a Pod's claims that are not bound, with what the claims wait for.
func unboundClaims(c *Cluster, o metav1.Object, self Object) []Finding {
	spec, _ := podSpecOf(o)
	if spec == nil {
		return nil
	}
	var out []Finding
	seen := map[string]bool{}
	for i := range spec.Volumes {
		v := &spec.Volumes[i]
		name := ""
		if v.PersistentVolumeClaim != nil {
			name = v.PersistentVolumeClaim.ClaimName
		} else if v.Ephemeral != nil && self.Kind == "Pod" {
			name = self.Name + "-" + v.Name
		}
		p, ok := get[*corev1.PersistentVolumeClaim](c, "PersistentVolumeClaim", self.Namespace, name)
		if name == "" || !ok || seen[name] {
			continue
		}
		seen[name] = true
		at := objectOf("PersistentVolumeClaim", p)
		found := append(missingReferences(c, p, at), claim(c, p, at)...)
		for _, f := range found {
			if f.Severity == Broken {
				out = append(out, f)
			}
		}
	}
	return out
}

// DriverOf is the CSI driver of the volume that a claim is bound to; empty when it has none or that
// is not known.
func (c *Cluster) DriverOf(namespace, claim string) string {
	if c == nil {
		return ""
	}
	p, ok := get[*corev1.PersistentVolumeClaim](c, "PersistentVolumeClaim", namespace, claim)
	if !ok {
		return ""
	}
	v, ok := get[*corev1.PersistentVolume](c, "PersistentVolume", "", p.Spec.VolumeName)
	if !ok || v.Spec.CSI == nil {
		return ""
	}
	return v.Spec.CSI.Driver
}

// sourceUnserved finds a claim that is to be filled from an object of an API group that nobody
// serves, such as a snapshot where the snapshots' API is not installed.
func sourceUnserved(c *Cluster, o metav1.Object, self Object) []Finding {
	p, ok := o.(*corev1.PersistentVolumeClaim)
	if !ok || p.Status.Phase == corev1.ClaimBound || len(c.Served) == 0 {
		return nil
	}
	d := p.Spec.DataSource
	if d == nil || d.APIGroup == nil || *d.APIGroup == "" || len(c.Served[*d.APIGroup]) > 0 {
		return nil
	}
	return []Finding{{Code: "ResourceUnknown", Stage: StageVolume, Object: self, Field: "spec.dataSource",
		Value: d.Name,
		Message: fmt.Sprintf("Claim %s is to be filled from %s %s of API group %s, and the API server serves no such "+
			"group: nobody can make its volume.", self.Name, d.Kind, d.Name, *d.APIGroup), Remedies: []Remedy{{
			Say: fmt.Sprintf("install what serves %s, or make the claim anew without dataSource", *d.APIGroup)}}}}
}
