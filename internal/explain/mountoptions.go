package explain

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/journal"
)

// optionRefused explains a volume that is not mounted for a mount option of the PersistentVolume
// behind its claim; false where it is something else.
func optionRefused(a *Answer, in In, w journal.VolumeWaiting) bool {
	claim, v := volumeOf(in, w.Volume)
	if v == nil {
		return false
	}
	options, field := finding.OptionsOf(v)
	i, ok := finding.RefusedOption(options, w.Message)
	if !ok {
		return false
	}
	value := strings.Join(options, ",")
	if i >= 0 {
		value = options[i]
	}
	if i >= 0 && field == "spec.mountOptions" {
		field = fmt.Sprintf("spec.mountOptions[%d]", i)
	}
	kind, _, _ := strings.Cut(strings.TrimPrefix(sourceField(v), "spec."), ".")
	a.Cause = fmt.Sprintf("Volume %s is not ready: its claim %s is bound to PersistentVolume %s, whose mount "+
		"options %s (%s) are refused: %s.", w.Volume, claim, v.Name, strings.Join(options, ","), field,
		strings.TrimSuffix(oneLine(w.Message), "."))
	switch {
	case strings.Contains(w.Message, "not supported for this volume type"):
		a.Cause += fmt.Sprintf(" A volume of type %s is not mounted by the kubelet with options of its own.", kind)
	case i >= 0:
		a.Cause += fmt.Sprintf(" Option %s is to blame.", value)
	}
	a.Next = "it is tried again with growing pauses"
	at := finding.Object{Kind: "PersistentVolume", Name: v.Name}
	f := finding.Finding{Code: "MountOptionRefused", Stage: finding.StageVolume, Object: at, Field: field, Value: value,
		Related: []finding.Object{in.object(), {Kind: "PersistentVolumeClaim", Namespace: in.Ref.Namespace,
			Name: claim}},
		Message: a.Cause, Remedies: finding.WithoutOption(v, i)}
	if v.Spec.StorageClassName != "" && in.Objects != nil {
		class := finding.Object{Kind: "StorageClass", Name: v.Spec.StorageClassName}
		if in.Objects.Get(class) != nil {
			f.Related = append(f.Related, class)
		}
	}
	a.Fixes = append(a.Fixes, remedies(f.Remedies)...)
	a.Fixes = append(a.Fixes, afterwardsAnew(in)...)
	a.Findings = append(a.Findings, f)
	return true
}

// afterwardsAnew lets a Pod be made anew at once, as the kubelet's pauses grow to two minutes.
func afterwardsAnew(in In) []Fix {
	return []Fix{commandFix("then make the Pod anew, so that nobody waits for the kubelet's next try",
		againCommand(in.Pod))}
}

// sourceField is the field of a PersistentVolume's source.
func sourceField(v *corev1.PersistentVolume) string {
	field, _ := sourceOf(v)
	return field
}
