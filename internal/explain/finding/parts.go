package finding

import (
	"fmt"
	"maps"
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gantry-project/gantry/internal/explain/workload"
)

// defaultContainer is the annotation by which kubectl chooses a container.
const defaultContainer = "kubectl.kubernetes.io/default-container"

// part is a field that names another part of the same Pod, which is not there.
type part struct {
	field, name string
	what        string   // container, port, key
	have        []string // what there is of the kind
	severity    Severity
}

func (c *Cluster) partMissing(self Object, p part) Finding {
	f := Finding{Code: "PartMissing", Severity: p.severity, Stage: StageRun, Object: self, Field: p.field,
		Value: p.name,
		Message: fmt.Sprintf("%s of %s %s names %s %s, and its Pods have %s.", p.field, self.Kind, self.Name, p.what,
			p.name, orNone(p.have, "none"))}
	near, how := Near(p.name, p.have)
	if near == "" && len(p.have) == 1 {
		near, how = p.have[0], "it is the only one"
	}
	if near != "" {
		f.Want = near
		f.Message += fmt.Sprintf(" Perhaps %s was meant; %s.", near, how)
		f.Remedies = []Remedy{{Say: fmt.Sprintf("name %s in %s of %s", near, p.field, self),
			Run: c.replaceCommand(self, p.field, near)}}
	}
	return f
}

var mapKey = regexp.MustCompile(`^metadata\.(labels|annotations)\['([^']+)'\]$`)

// parts finds fields of a Pod that name a container, port, label or annotation of the same Pod that
// is not there.
func parts(c *Cluster, o metav1.Object, self Object) []Finding {
	spec, at := podSpecOf(o)
	if spec == nil {
		return nil
	}
	var names []string
	for _, x := range slices.Concat(spec.InitContainers, spec.Containers) {
		names = append(names, x.Name)
	}
	labels, annotations := o.GetLabels(), o.GetAnnotations()
	if t := workload.Template(o); t != nil {
		labels, annotations = t.Labels, t.Annotations
	}
	var out []Finding
	if n, ok := annotations[defaultContainer]; ok && !slices.Contains(names, n) {
		f := c.partMissing(self, part{"metadata.annotations[" + defaultContainer + "]", n, "container", names, Threat})
		f.Remedies = nil // commands name the container by -c
		out = append(out, f)
	}
	source := func(field string, r *corev1.ObjectFieldSelector, q *corev1.ResourceFieldSelector) {
		if q != nil && q.ContainerName != "" && !slices.Contains(names, q.ContainerName) {
			out = append(out, c.partMissing(self, part{field + ".resourceFieldRef.containerName", q.ContainerName,
				"container", names, Broken}))
		}
		if r == nil {
			return
		}
		m := mapKey.FindStringSubmatch(r.FieldPath)
		if m == nil {
			return
		}
		have := labels
		if m[1] == "annotations" {
			have = annotations
		}
		if _, ok := have[m[2]]; ok {
			return
		}
		keys := slices.Sorted(maps.Keys(have))
		f := c.partMissing(self, part{field + ".fieldRef.fieldPath", m[2], "key", keys, Threat})
		f.Value = r.FieldPath
		if f.Want != "" {
			f.Want = fmt.Sprintf("metadata.%s['%s']", m[1], f.Want)
			f.Remedies = []Remedy{{Say: "name " + f.Want, Run: c.replaceCommand(self, f.Field, f.Want)}}
		}
		out = append(out, f)
	}
	for i, v := range spec.Volumes {
		for j, item := range itemsOfDownward(v.DownwardAPI) {
			source(fmt.Sprintf("%s.volumes[%d].downwardAPI.items[%d]", at, i, j), item.FieldRef, item.ResourceFieldRef)
		}
		if v.Projected == nil {
			continue
		}
		for k, s := range v.Projected.Sources {
			if s.DownwardAPI == nil {
				continue
			}
			for j, item := range s.DownwardAPI.Items {
				source(fmt.Sprintf("%s.volumes[%d].projected.sources[%d].downwardAPI.items[%d]", at, i, k, j),
					item.FieldRef, item.ResourceFieldRef)
			}
		}
	}
	ofPod := append(out, c.ownLabelKeys(o, self, labels)...)
	return append(ofPod, eachContainer(o, self, func(x place) []Finding {
		out = nil
		for i, e := range x.c.Env {
			if e.ValueFrom != nil {
				source(fmt.Sprintf("%s.env[%d].valueFrom", x.at, i), e.ValueFrom.FieldRef, e.ValueFrom.ResourceFieldRef)
			}
		}
		out = append(out, c.hookPorts(x)...)
		return out
	})...)
}

func itemsOfDownward(v *corev1.DownwardAPIVolumeSource) []corev1.DownwardAPIVolumeFile {
	if v == nil {
		return nil
	}
	return v.Items
}

// ownLabelKeys finds terms of affinity and spread that go by a label which the Pods do not have:
// the scheduler leaves such a key out. labels are the Pods'.
func (c *Cluster) ownLabelKeys(o metav1.Object, self Object, labels map[string]string) []Finding {
	spec, at := podSpecOf(o)
	have := slices.Sorted(maps.Keys(labels))
	var out []Finding
	check := func(field string, keys []string) {
		for i, k := range keys {
			if _, ok := labels[k]; ok || madeLater[k] {
				continue
			}
			f := c.partMissing(self, part{fmt.Sprintf("%s[%d]", field, i), k, "label", have, Note})
			f.Stage = StagePlacement
			f.Message += " A key that the Pod does not have is left out."
			if f.Want != "" && len(have) > 1 {
				f.Severity = Threat
			}
			out = append(out, f)
		}
	}
	for i, t := range spec.TopologySpreadConstraints {
		check(fmt.Sprintf("%s.topologySpreadConstraints[%d].matchLabelKeys", at, i), t.MatchLabelKeys)
	}
	for _, t := range affinityTerms(spec.Affinity, at+".affinity") {
		check(t.at+".matchLabelKeys", t.term.MatchLabelKeys)
		check(t.at+".mismatchLabelKeys", t.term.MismatchLabelKeys)
	}
	return out
}

// madeLater are labels that controllers, or the binding to a node, give to the Pods of a template.
var madeLater = map[string]bool{"pod-template-hash": true, "controller-revision-hash": true,
	"pod-template-generation": true, "statefulset.kubernetes.io/pod-name": true,
	"apps.kubernetes.io/pod-index": true, "batch.kubernetes.io/job-name": true, "job-name": true,
	"batch.kubernetes.io/controller-uid": true, "controller-uid": true,
	"batch.kubernetes.io/job-completion-index": true, corev1.LabelTopologyZone: true,
	corev1.LabelTopologyRegion: true}

// termAt is a term of Pod affinity or anti-affinity and its path.
type termAt struct {
	at        string
	term      *corev1.PodAffinityTerm
	preferred bool // preferred, not required
	beside    bool // affinity; else anti-affinity
}

// affinityTerms are all terms of Pod affinity and anti-affinity; at is the path of the affinity.
func affinityTerms(a *corev1.Affinity, at string) []termAt {
	var out []termAt
	each := func(name string, required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
		for i := range required {
			out = append(out, termAt{fmt.Sprintf("%s.%s.requiredDuringSchedulingIgnoredDuringExecution[%d]", at, name,
				i), &required[i], false, name == "podAffinity"})
		}
		for i := range preferred {
			out = append(out, termAt{fmt.Sprintf(
				"%s.%s.preferredDuringSchedulingIgnoredDuringExecution[%d].podAffinityTerm", at, name, i),
				&preferred[i].PodAffinityTerm, true, name == "podAffinity"})
		}
	}
	if a != nil && a.PodAffinity != nil {
		each("podAffinity", a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
			a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if a != nil && a.PodAntiAffinity != nil {
		each("podAntiAffinity", a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
			a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	return out
}

// hookPorts finds hooks that ask a port name that the container does not have.
func (c *Cluster) hookPorts(x place) []Finding {
	if x.c.Lifecycle == nil {
		return nil
	}
	var have []string
	for _, p := range x.c.Ports {
		if p.Name != "" {
			have = append(have, p.Name)
		}
	}
	var out []Finding
	for _, h := range []struct {
		field   string
		handler *corev1.LifecycleHandler
	}{{"postStart", x.c.Lifecycle.PostStart}, {"preStop", x.c.Lifecycle.PreStop}} {
		if h.handler == nil || h.handler.HTTPGet == nil || h.handler.HTTPGet.Port.Type != intstr.String ||
			slices.Contains(have, h.handler.HTTPGet.Port.StrVal) {
			continue
		}
		severity := Threat
		if h.field == "postStart" {
			severity = Broken
		}
		out = append(out, c.partMissing(x.self, part{x.at + ".lifecycle." + h.field + ".httpGet.port",
			h.handler.HTTPGet.Port.StrVal, "port", have, severity}))
	}
	return out
}
