package finding

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/explain/shellquote"
)

// fixedAtStart is what a container has of a ConfigMap or Secret as that was when it started: a
// variable, or a file that is mounted with subPath.
type fixedAtStart struct {
	of    Object
	key   string // empty: not known, or every key
	field string // below the container
	what  string
	file  string // of a mount: its path in the container
}

// changedSince finds settings that were changed after a container had started which sees them as
// they were: variables, and files mounted with subPath. They are notes while the Pod is ready.
func changedSince(c *Cluster, o metav1.Object, self Object) []Finding {
	p, ok := o.(*corev1.Pod)
	if !ok || p.DeletionTimestamp != nil {
		return nil
	}
	var out []Finding
	for i := range p.Spec.Containers {
		x := &p.Spec.Containers[i]
		k := slices.IndexFunc(p.Status.ContainerStatuses,
			func(s corev1.ContainerStatus) bool { return s.Name == x.Name && s.State.Running != nil })
		if k < 0 {
			continue
		}
		s := p.Status.ContainerStatuses[k]
		for _, w := range c.settledBy(p, x) {
			of := c.Get(w.of)
			if of == nil || !lastWrite(of).After(s.State.Running.StartedAt.Time) {
				continue // nothing is read of most objects
			}
			change, ok := LastChange(of)
			since := change.At.Sub(s.State.Running.StartedAt.Time)
			if !ok || since <= time.Second || w.key != "" && len(change.Keys) > 0 &&
				!slices.Contains(change.Keys, w.key) {
				continue
			}
			f := Finding{Code: "ChangedSinceStart", Severity: Note, Stage: StageRun, Object: self,
				Field: fmt.Sprintf("spec.containers[%d]%s", i, w.field), Value: w.what, Related: []Object{w.of},
				Numbers: map[string]string{"changed": change.At.UTC().Format(time.RFC3339),
					"after": since.Round(time.Second).String()},
				Message: fmt.Sprintf("%s %s was changed %s after container %s started, and the container still has "+
					"the old content of %s: it is not updated while the container lives.", w.of.Kind, w.of.Name,
					since.Round(time.Second), x.Name, w.what),
				Remedies: c.startAnew(p, self)}
			if !s.Ready && w.namedBy(x) {
				f.Severity = Broken
			}
			out = append(out, f)
		}
	}
	return out
}

// namedBy reports whether a container's command or a probe's names the file.
func (w fixedAtStart) namedBy(x *corev1.Container) bool {
	words := slices.Concat(x.Command, x.Args)
	for _, p := range []*corev1.Probe{x.ReadinessProbe, x.StartupProbe, x.LivenessProbe} {
		if p != nil && p.Exec != nil {
			words = append(words, p.Exec.Command...)
		}
	}
	return w.file != "" && strings.Contains(strings.Join(words, " "), w.file)
}

// settledBy are the settings of a container that stay as they were when it started.
func (c *Cluster) settledBy(p *corev1.Pod, x *corev1.Container) []fixedAtStart {
	var out []fixedAtStart
	add := func(kind, name, key, field, what string) {
		out = append(out, fixedAtStart{Object{kind, p.Namespace, name}, key, field, what, ""})
	}
	for i, e := range x.Env {
		at := fmt.Sprintf(".env[%d].valueFrom", i)
		switch from := e.ValueFrom; {
		case from == nil:
		case from.ConfigMapKeyRef != nil:
			add("ConfigMap", from.ConfigMapKeyRef.Name, from.ConfigMapKeyRef.Key, at, "variable "+e.Name)
		case from.SecretKeyRef != nil:
			add("Secret", from.SecretKeyRef.Name, from.SecretKeyRef.Key, at, "variable "+e.Name)
		}
	}
	for i, e := range x.EnvFrom {
		at := fmt.Sprintf(".envFrom[%d]", i)
		if e.ConfigMapRef != nil {
			add("ConfigMap", e.ConfigMapRef.Name, "", at, "its variables (envFrom)")
		}
		if e.SecretRef != nil {
			add("Secret", e.SecretRef.Name, "", at, "its variables (envFrom)")
		}
	}
	for i, m := range x.VolumeMounts {
		k := slices.IndexFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
		if m.SubPath == "" || k < 0 {
			continue
		}
		f, _ := c.filesOf(&p.Spec.Volumes[k], p.Namespace)
		if f.of.Kind == "" {
			continue
		}
		key := m.SubPath
		for _, item := range keysToPaths(&p.Spec.Volumes[k]) {
			if item.Path == m.SubPath {
				key = item.Key
			}
		}
		out = append(out, fixedAtStart{f.of, key, fmt.Sprintf(".volumeMounts[%d].subPath", i),
			fmt.Sprintf("file %s, which is mounted with subPath %s", m.MountPath, m.SubPath), m.MountPath})
	}
	return out
}

// keysToPaths are the items of a volume of a ConfigMap or Secret.
func keysToPaths(v *corev1.Volume) []corev1.KeyToPath {
	switch {
	case v.ConfigMap != nil:
		return v.ConfigMap.Items
	case v.Secret != nil:
		return v.Secret.Items
	}
	return nil
}

// startAnew lets a Pod's containers start anew: by its controller, or, of a Pod without one, by
// making it anew.
func (c *Cluster) startAnew(p *corev1.Pod, self Object) []Remedy {
	const say = "start it anew: the new container has the new content"
	switch owner := c.outermost(p, self); owner.Kind {
	case "Deployment", "StatefulSet", "DaemonSet":
		return []Remedy{{Say: say, Run: []string{fmt.Sprintf("kubectl -n %s rollout restart %s/%s", owner.Namespace,
			owner.lower(), owner.Name)}}}
	case "Pod":
		return []Remedy{{Say: say, Run: []string{fmt.Sprintf("kubectl -n %s get pod %s -o json | kubectl replace "+
			"--force -f -", self.Namespace, shellquote.Word(self.Name))}}}
	}
	return []Remedy{{Say: say, Run: []string{kubectl(self, "delete", "")}}}
}
